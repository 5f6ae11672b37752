-- When the latest lease of a task began: no node may hold a task for ever, however faithfully it says that it
-- is alive.
ALTER TABLE tasks ADD COLUMN leased_at INTEGER;

-- Which models a node key may serve, a JSON array; null for any.
ALTER TABLE node_keys ADD COLUMN models TEXT;
