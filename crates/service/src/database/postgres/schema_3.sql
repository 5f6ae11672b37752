-- Keys of creates, by which a create that is sent again gets the task of the first one. A table of its own, so that
-- nothing locks that of tasks while an index is built. Without a foreign key: the lock of its purse orders the creates of
-- an account. A process of the version before ignores keys.
CREATE TABLE create_keys (
    account    BIGINT NOT NULL,
    key        TEXT COLLATE "C" NOT NULL,
    -- Identifies the model and the inputs.
    request    TEXT NOT NULL,
    -- Its task may be deleted before the key is.
    task       TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (account, key)
);
CREATE INDEX create_keys_by_age ON create_keys (created_at);
