-- Movements that belong to no task, by the account that they concern: retention adds the old ones up.
CREATE INDEX movements_without_task ON movements (coalesce(from_account, to_account), at) WHERE task IS NULL;
