-- Which process runs a job, and until when others leave it alone. A process of the version before looks at the beginning only.
ALTER TABLE jobs ADD COLUMN holder TEXT, ADD COLUMN held_until BIGINT NOT NULL DEFAULT 0;

-- Whether a version is one that the service brings: a newer one takes its place, and not that of a version which the
-- operator has published.
ALTER TABLE versions ADD COLUMN is_built_in BOOLEAN NOT NULL DEFAULT true;
