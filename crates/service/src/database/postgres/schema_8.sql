-- The trace that a task belongs to, as the header traceparent of its create named it. A process of the version before keeps none.
ALTER TABLE tasks ADD COLUMN traceparent TEXT;
