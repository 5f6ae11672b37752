-- A node is seen for each of its models. A process of the version before looks at the node alone.
-- When a slot of the node asked for tasks of the model, or ran one; null for a node that has them all whenever it is there.
ALTER TABLE node_models ADD COLUMN seen_at BIGINT;
-- Models with the same text are run by one slot.
ALTER TABLE node_models ADD COLUMN slot TEXT;
