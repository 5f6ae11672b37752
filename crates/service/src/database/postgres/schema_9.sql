-- The bytes that an account may store; null for any number. A process of the version before knows no quota.
ALTER TABLE accounts ADD COLUMN quota BIGINT;
