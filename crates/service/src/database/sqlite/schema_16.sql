-- Sixteenth version: the trace that a task belongs to, as the header traceparent of its create named it.
ALTER TABLE tasks ADD COLUMN traceparent TEXT;
