-- Unused upload targets are counted for the account that asked for them. The table is small: targets are forgotten.
CREATE INDEX targets_unused ON upload_targets (payer) WHERE NOT is_used AND NOT is_void;

-- The objects whose download URLs without a token are valid: they come from a database of an earlier version.
CREATE TABLE former_urls (
    blob TEXT PRIMARY KEY
);
