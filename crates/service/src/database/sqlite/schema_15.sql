-- Fifteenth version: whether a version of a model is one that the service brings. A newer one takes its place, and not
-- that of a version which the operator has published.
ALTER TABLE versions ADD COLUMN is_built_in INTEGER NOT NULL DEFAULT 1;
