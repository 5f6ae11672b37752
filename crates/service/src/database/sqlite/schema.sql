-- Everything the service keeps, first version. Amounts are whole billionths; moments are milliseconds
-- since 1970 in UTC. A change of this schema is a further file with a number, never an edit here.

CREATE TABLE accounts (
    id             INTEGER PRIMARY KEY,
    username       TEXT NOT NULL UNIQUE,
    scope          TEXT NOT NULL CHECK (scope IN ('personal', 'organization')),
    wallet_address TEXT NOT NULL,
    bucket         TEXT NOT NULL UNIQUE,
    created_at     INTEGER NOT NULL,
    -- How many tasks the account has created: the next one's place in its history.
    tasks          INTEGER NOT NULL DEFAULT 0,
    -- Metering of storage: bytes stored now, byte-seconds not charged yet, and up to when they count.
    stored_bytes   INTEGER NOT NULL DEFAULT 0,
    byte_seconds   INTEGER NOT NULL DEFAULT 0,
    metered_at     INTEGER NOT NULL
) STRICT;

CREATE TABLE members (
    organization INTEGER NOT NULL REFERENCES accounts (id),
    person       INTEGER NOT NULL REFERENCES accounts (id),
    PRIMARY KEY (organization, person)
) STRICT, WITHOUT ROWID;

CREATE TABLE api_keys (
    id         TEXT PRIMARY KEY,
    account    INTEGER NOT NULL REFERENCES accounts (id),
    hash       BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;

-- What every purse holds. The check is the last line of defence against spending what is not there.
CREATE TABLE purses (
    account INTEGER NOT NULL REFERENCES accounts (id),
    purse   TEXT NOT NULL,
    amount  INTEGER NOT NULL CHECK (CASE purse WHEN 'debt' THEN amount <= 0 ELSE amount >= 0 END),
    PRIMARY KEY (account, purse)
) STRICT, WITHOUT ROWID;

-- Every movement of money, never changed. A side without an account is the world outside.
CREATE TABLE movements (
    id           INTEGER PRIMARY KEY,
    at           INTEGER NOT NULL,
    amount       INTEGER NOT NULL CHECK (amount > 0),
    from_account INTEGER REFERENCES accounts (id),
    from_purse   TEXT,
    to_account   INTEGER REFERENCES accounts (id),
    to_purse     TEXT,
    reason       TEXT NOT NULL,
    task         TEXT
) STRICT;
CREATE INDEX movements_of_task ON movements (task) WHERE task IS NOT NULL;

CREATE TABLE models (
    id            TEXT PRIMARY KEY,
    -- The order of publication, for models published in one moment.
    sequence      INTEGER NOT NULL UNIQUE,
    name          TEXT NOT NULL,
    owner         INTEGER NOT NULL REFERENCES accounts (id),
    description   TEXT NOT NULL,
    is_official   INTEGER NOT NULL,
    is_verified   INTEGER NOT NULL,
    is_public     INTEGER NOT NULL,
    is_playground INTEGER NOT NULL,
    price         INTEGER NOT NULL CHECK (price >= 0),
    metadata      TEXT NOT NULL,
    likes         INTEGER NOT NULL,
    downloads     INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    -- Name and description without the difference of upper and lower case, for searching.
    folded_name        TEXT NOT NULL,
    folded_description TEXT NOT NULL
) STRICT;
CREATE INDEX models_of_owner ON models (owner);

CREATE TABLE versions (
    id            INTEGER PRIMARY KEY,
    model         TEXT NOT NULL REFERENCES models (id),
    commit_hash   TEXT NOT NULL,
    is_active     INTEGER NOT NULL,
    input_format  TEXT NOT NULL,
    output_format TEXT NOT NULL,
    created_at    INTEGER NOT NULL,
    UNIQUE (model, commit_hash)
) STRICT;
-- At most one version of a model is active.
CREATE UNIQUE INDEX active_version ON versions (model) WHERE is_active = 1;

CREATE TABLE tasks (
    -- The order of the queue.
    sequence     INTEGER PRIMARY KEY,
    id           TEXT NOT NULL UNIQUE,
    account      INTEGER NOT NULL REFERENCES accounts (id),
    -- The place in the account's history, without gaps.
    place        INTEGER NOT NULL,
    model        TEXT NOT NULL,
    version      INTEGER NOT NULL REFERENCES versions (id),
    publisher    INTEGER NOT NULL REFERENCES accounts (id),
    status       TEXT NOT NULL
        CHECK (status IN ('in_queue', 'computing', 'success', 'failed', 'canceled')),
    price        INTEGER NOT NULL,
    held_free    INTEGER NOT NULL,
    held_balance INTEGER NOT NULL,
    cost         INTEGER,
    message      TEXT,
    input        TEXT NOT NULL,
    output       TEXT,
    error        TEXT,
    node         TEXT,
    attempt      INTEGER NOT NULL DEFAULT 0,
    lease_until  INTEGER,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    UNIQUE (account, place)
) STRICT;
CREATE INDEX tasks_in_queue ON tasks (model, sequence) WHERE status = 'in_queue';
CREATE INDEX tasks_leased ON tasks (lease_until) WHERE status = 'computing';
CREATE INDEX tasks_unended ON tasks (model, account) WHERE status IN ('in_queue', 'computing');

-- How many tasks there are of each status, kept by the triggers below: counting a million takes long.
CREATE TABLE task_counts (
    status TEXT PRIMARY KEY,
    tasks  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO task_counts VALUES
    ('in_queue', 0), ('computing', 0), ('success', 0), ('failed', 0), ('canceled', 0);
CREATE TRIGGER task_counted AFTER INSERT ON tasks BEGIN
    UPDATE task_counts SET tasks = tasks + 1 WHERE status = new.status;
END;
CREATE TRIGGER task_moved AFTER UPDATE OF status ON tasks WHEN old.status <> new.status BEGIN
    UPDATE task_counts SET tasks = tasks - 1 WHERE status = old.status;
    UPDATE task_counts SET tasks = tasks + 1 WHERE status = new.status;
END;
-- Statuses go from queued over computing to the end. Nothing in the service may turn them back.
CREATE TRIGGER task_never_goes_back BEFORE UPDATE OF status ON tasks
WHEN NOT (old.status = new.status
    OR old.status = 'in_queue' AND new.status IN ('computing', 'canceled')
    OR old.status = 'computing' AND new.status IN ('success', 'failed'))
BEGIN
    SELECT RAISE(ABORT, 'a task cannot change from its status to that one');
END;

-- How many tasks were queued on a model on each day (since 1970), kept by the trigger below: what is
-- trending is computed from the last few days.
CREATE TABLE model_days (
    model TEXT NOT NULL,
    day   INTEGER NOT NULL,
    tasks INTEGER NOT NULL,
    PRIMARY KEY (model, day)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER model_used AFTER INSERT ON tasks WHEN new.status = 'in_queue' BEGIN
    INSERT INTO model_days VALUES (new.model, new.created_at / 86400000, 1)
    ON CONFLICT DO UPDATE SET tasks = tasks + 1;
END;

-- What nodes outside the process show who they are with. A name that was revoked may get a new key.
CREATE TABLE node_keys (
    name       TEXT PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    hash       BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;

-- A node outside the process has a key; several may share one. Each registration is a node of its own.
CREATE TABLE nodes (
    id      TEXT PRIMARY KEY,
    seen_at INTEGER NOT NULL,
    key     TEXT REFERENCES node_keys (name)
) STRICT, WITHOUT ROWID;
CREATE INDEX nodes_of_key ON nodes (key) WHERE key IS NOT NULL;

CREATE TABLE node_models (
    model TEXT NOT NULL,
    node  TEXT NOT NULL REFERENCES nodes (id) ON DELETE CASCADE,
    PRIMARY KEY (model, node)
) STRICT, WITHOUT ROWID;
CREATE INDEX node_models_of_node ON node_models (node);

-- Bytes in the object store. An object with an owner is a file that somebody uploaded; one without is
-- what a model produced.
CREATE TABLE objects (
    sequence   INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    bucket     TEXT NOT NULL,
    key        TEXT NOT NULL,
    owner      INTEGER REFERENCES accounts (id),
    folder     TEXT,
    -- The part of the MIME type before the slash.
    category   TEXT NOT NULL,
    mime       TEXT NOT NULL,
    size       INTEGER NOT NULL,
    etag       TEXT NOT NULL,
    blob       TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    UNIQUE (bucket, key)
) STRICT;
CREATE INDEX files_of_folder ON objects (owner, folder, sequence) WHERE owner IS NOT NULL;
CREATE INDEX files_of_category ON objects (owner, folder, category, sequence) WHERE owner IS NOT NULL;

-- How much every folder holds, kept by the triggers below.
CREATE TABLE folder_usage (
    owner    INTEGER NOT NULL,
    folder   TEXT NOT NULL,
    category TEXT NOT NULL,
    files    INTEGER NOT NULL,
    bytes    INTEGER NOT NULL,
    PRIMARY KEY (owner, folder, category)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER file_counted AFTER INSERT ON objects WHEN new.owner IS NOT NULL BEGIN
    INSERT INTO folder_usage VALUES (new.owner, new.folder, new.category, 1, new.size)
    ON CONFLICT DO UPDATE SET files = files + 1, bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER file_uncounted AFTER DELETE ON objects WHEN old.owner IS NOT NULL BEGIN
    UPDATE folder_usage SET files = files - 1, bytes = bytes - old.size
    WHERE owner = old.owner AND folder = old.folder AND category = old.category;
END;

CREATE TABLE upload_targets (
    id         TEXT PRIMARY KEY,
    owner      INTEGER NOT NULL REFERENCES accounts (id),
    payer      INTEGER NOT NULL REFERENCES accounts (id),
    bucket     TEXT NOT NULL,
    folder     TEXT NOT NULL,
    key        TEXT NOT NULL,
    mime       TEXT NOT NULL,
    size       INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    is_used    INTEGER NOT NULL DEFAULT 0,
    is_void    INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX targets_of_key ON upload_targets (bucket, key);
CREATE INDEX targets_by_expiry ON upload_targets (expires_at);

-- What the service must know again after a restart, such as the secret that signs upload targets.
CREATE TABLE settings (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
