-- Fourteenth version: a node is seen for each of its models.
-- When a slot of the node asked for tasks of the model, or ran one; null for a node that has them all whenever it is there.
ALTER TABLE node_models ADD COLUMN seen_at INTEGER;
-- Models with the same text are run by one slot.
ALTER TABLE node_models ADD COLUMN slot TEXT;
