-- Eleventh version: keys of creates, by which a create that is sent again gets the task of the first one.
CREATE TABLE create_keys (
    account    INTEGER NOT NULL REFERENCES accounts (id),
    key        TEXT NOT NULL,
    -- Identifies the model and the inputs.
    request    TEXT NOT NULL,
    -- Its task may be deleted before the key is.
    task       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (account, key)
) WITHOUT ROWID;
CREATE INDEX create_keys_by_age ON create_keys (created_at);
