-- Everything the service keeps in PostgreSQL, first version. Amounts are whole billionths; moments are
-- milliseconds since 1970 in UTC. A change of this schema is a further file with a number, never an edit here,
-- and each one leaves what processes of the version before need: they run on while a new version is rolled out.
--
-- There are no triggers and no functions, and no row that every transaction touches. Foreign keys are left out
-- where their check would lock such a row: that of a popular publisher, or that of a model.

-- Never changed once it is written, so that references to it never wait.
CREATE TABLE accounts (
    id             BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    username       TEXT NOT NULL UNIQUE,
    scope          TEXT NOT NULL CHECK (scope IN ('personal', 'organization')),
    wallet_address TEXT NOT NULL,
    bucket         TEXT NOT NULL UNIQUE,
    created_at     BIGINT NOT NULL
);

-- What changes of an account, in one row: the lock of everything that moves its money. The checks are the last
-- line of defence against spending what is not there.
CREATE TABLE purses (
    account      BIGINT PRIMARY KEY REFERENCES accounts (id),
    balance      BIGINT NOT NULL DEFAULT 0 CHECK (balance >= 0),
    free         BIGINT NOT NULL DEFAULT 0 CHECK (free >= 0),
    held         BIGINT NOT NULL DEFAULT 0 CHECK (held >= 0),
    debt         BIGINT NOT NULL DEFAULT 0 CHECK (debt <= 0),
    -- Without what purse_changes adds.
    earnings     BIGINT NOT NULL DEFAULT 0 CHECK (earnings >= 0),
    revenue      BIGINT NOT NULL DEFAULT 0 CHECK (revenue >= 0),
    -- How many tasks the account has created: the next one's place in its history. And the place of the oldest
    -- that retention has left, and how many have not ended.
    tasks        BIGINT NOT NULL DEFAULT 0,
    first_place  BIGINT NOT NULL DEFAULT 0,
    unfinished   BIGINT NOT NULL DEFAULT 0 CHECK (unfinished >= 0),
    -- Metering of storage: bytes stored now, GiB-seconds and byte-seconds not charged yet, and up to when they
    -- count.
    stored_bytes BIGINT NOT NULL DEFAULT 0,
    gib_seconds  BIGINT NOT NULL DEFAULT 0,
    byte_seconds BIGINT NOT NULL DEFAULT 0,
    metered_at   BIGINT NOT NULL
) WITH (fillfactor = 50);

-- What is still to be added to earnings and revenue: a publisher of popular models would else have one row that
-- every success updates. A job adds it up.
CREATE TABLE purse_changes (
    id      BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account BIGINT NOT NULL,
    purse   TEXT NOT NULL CHECK (purse IN ('earnings', 'revenue')),
    amount  BIGINT NOT NULL CHECK (amount > 0)
);
CREATE INDEX purse_changes_of_account ON purse_changes (account);

CREATE TABLE members (
    organization BIGINT NOT NULL REFERENCES accounts (id),
    person       BIGINT NOT NULL REFERENCES accounts (id),
    PRIMARY KEY (organization, person)
);
CREATE INDEX members_of_person ON members (person);

CREATE TABLE api_keys (
    id         TEXT PRIMARY KEY,
    account    BIGINT NOT NULL REFERENCES accounts (id),
    hash       BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT
);
CREATE INDEX keys_of_account ON api_keys (account);

-- Every movement of money, never changed. A side without an account is the world outside. A task is named by its
-- sequence, so that the newest movements are neighbours in the index.
CREATE TABLE movements (
    id           BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at           BIGINT NOT NULL,
    amount       BIGINT NOT NULL CHECK (amount > 0),
    from_account BIGINT,
    from_purse   TEXT,
    to_account   BIGINT,
    to_purse     TEXT,
    reason       TEXT NOT NULL,
    task         BIGINT
);
CREATE INDEX movements_of_task ON movements (task) WHERE task IS NOT NULL;
CREATE INDEX movements_without_task ON movements (coalesce(from_account, to_account), at) WHERE task IS NULL;

CREATE TABLE models (
    id            TEXT PRIMARY KEY,
    -- The order of publication, for models published in one moment.
    sequence      BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE,
    name          TEXT NOT NULL,
    owner         BIGINT NOT NULL REFERENCES accounts (id),
    description   TEXT NOT NULL,
    is_official   BOOLEAN NOT NULL,
    is_verified   BOOLEAN NOT NULL,
    is_public     BOOLEAN NOT NULL,
    is_playground BOOLEAN NOT NULL,
    price         BIGINT NOT NULL CHECK (price >= 0),
    metadata      TEXT NOT NULL,
    likes         BIGINT NOT NULL,
    downloads     BIGINT NOT NULL,
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL,
    -- Name and description without the difference of upper and lower case, for searching.
    folded_name        TEXT NOT NULL,
    folded_description TEXT NOT NULL
);
CREATE INDEX models_of_owner ON models (owner, is_public, created_at, sequence);
CREATE INDEX models_by_creation ON models (is_public, created_at, sequence);
CREATE INDEX models_by_change ON models (is_public, updated_at, sequence);
CREATE INDEX models_by_likes ON models (is_public, likes DESC, sequence);
CREATE INDEX models_by_downloads ON models (is_public, downloads DESC, sequence);

CREATE TABLE versions (
    id            BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    model         TEXT NOT NULL REFERENCES models (id),
    commit_hash   TEXT NOT NULL,
    is_active     BOOLEAN NOT NULL,
    input_format  TEXT NOT NULL,
    output_format TEXT NOT NULL,
    created_at    BIGINT NOT NULL,
    UNIQUE (model, commit_hash)
);
-- At most one version of a model is active.
CREATE UNIQUE INDEX active_version ON versions (model) WHERE is_active;

CREATE TABLE tasks (
    -- The order of the queue.
    sequence     BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id           TEXT COLLATE "C" NOT NULL UNIQUE,
    account      BIGINT NOT NULL,
    -- The place in the account's history, without gaps.
    place        BIGINT NOT NULL,
    model        TEXT NOT NULL,
    version      BIGINT NOT NULL,
    publisher    BIGINT NOT NULL,
    status       TEXT NOT NULL
        CHECK (status IN ('in_queue', 'computing', 'success', 'failed', 'canceled')),
    price        BIGINT NOT NULL,
    held_free    BIGINT NOT NULL,
    held_balance BIGINT NOT NULL,
    cost         BIGINT,
    message      TEXT,
    input        TEXT NOT NULL,
    output       TEXT,
    error        TEXT,
    node         TEXT,
    attempt      BIGINT NOT NULL DEFAULT 0,
    -- How many leases ended in order, without a result. They do not count as attempts.
    releases     BIGINT NOT NULL DEFAULT 0,
    leased_at    BIGINT,
    lease_until  BIGINT,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    UNIQUE (account, place)
);
-- Whether an account has queued tasks of a model, and which of its tasks come first.
CREATE INDEX tasks_in_queue ON tasks (model, account, sequence) WHERE status = 'in_queue';
CREATE INDEX tasks_first ON tasks (account, sequence, model) WHERE status = 'in_queue';
CREATE INDEX tasks_leased ON tasks (lease_until, sequence) WHERE status = 'computing';
CREATE INDEX tasks_running ON tasks (account, node) WHERE status = 'computing';

-- Fair turns: the accounts that have queued tasks of a model. The account with the lowest turn is claimed from
-- next and then gets the highest. Creates lock the row, so that no row is deleted while a task comes to need it.
CREATE SEQUENCE turn_numbers;
CREATE TABLE turns (
    account BIGINT NOT NULL,
    model   TEXT NOT NULL,
    turn    BIGINT NOT NULL,
    PRIMARY KEY (account, model)
) WITH (fillfactor = 50);
CREATE INDEX turns_of_model ON turns (model, turn);

-- How many tasks were queued on a model on each day (since 1970), without what model_uses adds: one row for each
-- queued task, which a job adds up.
CREATE TABLE model_days (
    model TEXT NOT NULL,
    day   BIGINT NOT NULL,
    tasks BIGINT NOT NULL,
    PRIMARY KEY (model, day)
);
CREATE TABLE model_uses (
    id    BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    model TEXT NOT NULL,
    day   BIGINT NOT NULL
);
CREATE INDEX model_uses_of_model ON model_uses (model);

-- What nodes outside the process show who they are with. A name that was revoked may get a new key.
CREATE TABLE node_keys (
    name       TEXT PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    hash       BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT,
    -- Which models the key may serve, a JSON array; null for any.
    models     TEXT
);

-- A node outside the processes of the service has a key; several may share one. Each registration is a node of
-- its own.
CREATE TABLE nodes (
    id      TEXT PRIMARY KEY,
    seen_at BIGINT NOT NULL,
    key     TEXT REFERENCES node_keys (name)
);
CREATE INDEX nodes_of_key ON nodes (key);
CREATE TABLE node_models (
    model TEXT NOT NULL,
    node  TEXT NOT NULL REFERENCES nodes (id) ON DELETE CASCADE,
    PRIMARY KEY (model, node)
);
CREATE INDEX node_models_of_node ON node_models (node);

-- Bytes in the object store. An object with an owner is a file that somebody uploaded; one without is what a
-- model produced: it belongs to the account of the task, and until the task has succeeded it has the lease under
-- which it was stored, as <task>/<attempt>.
CREATE TABLE objects (
    sequence   BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    bucket     TEXT NOT NULL,
    key        TEXT COLLATE "C" NOT NULL,
    owner      BIGINT,
    -- Who pays for a file: the account whose key asked for its upload.
    payer      BIGINT,
    folder     TEXT,
    -- The part of the MIME type before the slash.
    category   TEXT NOT NULL,
    mime       TEXT NOT NULL,
    size       BIGINT NOT NULL,
    etag       TEXT NOT NULL,
    blob       TEXT NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    output_of  BIGINT,
    lease      TEXT COLLATE "C",
    CONSTRAINT objects_by_key UNIQUE (bucket, key)
);
CREATE INDEX files_of_folder ON objects (owner, folder, sequence) WHERE owner IS NOT NULL;
CREATE INDEX files_of_category ON objects (owner, folder, category, sequence) WHERE owner IS NOT NULL;
CREATE INDEX outputs_by_age ON objects (created_at) WHERE owner IS NULL;
CREATE INDEX outputs_of_leases ON objects (lease) WHERE lease IS NOT NULL;

-- How much every folder holds.
CREATE TABLE folder_usage (
    owner    BIGINT NOT NULL,
    folder   TEXT NOT NULL,
    category TEXT NOT NULL,
    files    BIGINT NOT NULL,
    bytes    BIGINT NOT NULL,
    PRIMARY KEY (owner, folder, category)
);

CREATE TABLE upload_targets (
    id         TEXT PRIMARY KEY,
    owner      BIGINT NOT NULL,
    payer      BIGINT NOT NULL,
    bucket     TEXT NOT NULL,
    folder     TEXT NOT NULL,
    key        TEXT COLLATE "C" NOT NULL,
    mime       TEXT NOT NULL,
    size       BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    is_used    BOOLEAN NOT NULL DEFAULT false,
    is_void    BOOLEAN NOT NULL DEFAULT false
);
CREATE INDEX targets_of_key ON upload_targets (bucket, key);
CREATE INDEX targets_by_expiry ON upload_targets (expires_at);
CREATE INDEX targets_pending ON upload_targets (owner, folder, expires_at) WHERE NOT is_used AND NOT is_void;

-- What every process must know, such as the secret that signs upload targets.
CREATE TABLE settings (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

-- When each job last began, in whichever process.
CREATE TABLE jobs (
    name     TEXT PRIMARY KEY,
    began_at BIGINT NOT NULL
);
