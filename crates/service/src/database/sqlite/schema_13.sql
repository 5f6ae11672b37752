-- Thirteenth version: unused upload targets are counted for the account that asked for them.
CREATE INDEX targets_unused ON upload_targets (payer) WHERE is_used = 0 AND is_void = 0;
-- Download URLs from before the fourth version have no token. Those of objects that existed then stay valid as long as
-- the object does. A later version had opened the database if there is a secret of tokens, the first of them at this moment.
CREATE TABLE former_urls (
    blob TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
INSERT INTO former_urls SELECT blob FROM objects WHERE created_at < 1795303616000
    OR NOT EXISTS (SELECT 1 FROM settings WHERE name = 'download URL secret');
