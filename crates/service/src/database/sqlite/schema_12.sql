-- Twelfth version: references and notes of credits and debits by the operator. A table of its own: movements are added up
-- when they are old, and a reference stays used.
CREATE TABLE adjustments (
    id        INTEGER PRIMARY KEY,
    account   INTEGER NOT NULL REFERENCES accounts (id),
    purse     TEXT NOT NULL,
    -- Below zero for a debit.
    amount    INTEGER NOT NULL,
    reference TEXT,
    note      TEXT
) STRICT;
CREATE UNIQUE INDEX adjustments_by_reference ON adjustments (account, reference) WHERE reference IS NOT NULL;
ALTER TABLE movements ADD COLUMN adjustment INTEGER;

-- Whether an account may use the service.
ALTER TABLE accounts ADD COLUMN state TEXT NOT NULL DEFAULT 'active'
    CHECK (state IN ('active', 'suspended', 'closed'));

-- Whether tasks of a model are run.
ALTER TABLE models ADD COLUMN state TEXT NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused', 'retired'));

-- What limits an API key: null for nothing. The models are a JSON array.
ALTER TABLE api_keys ADD COLUMN name TEXT;
ALTER TABLE api_keys ADD COLUMN expires_at INTEGER;
ALTER TABLE api_keys ADD COLUMN daily_limit INTEGER;
ALTER TABLE api_keys ADD COLUMN models TEXT;
-- The tasks of keys with a daily limit, for two days.
CREATE TABLE key_tasks (
    task  TEXT PRIMARY KEY,
    key   TEXT NOT NULL,
    day   INTEGER NOT NULL,
    price INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX key_tasks_by_day ON key_tasks (day, key, price);

-- What operators did.
CREATE TABLE operator_log (
    id      INTEGER PRIMARY KEY,
    at      INTEGER NOT NULL,
    request TEXT NOT NULL,
    body    TEXT,
    status  INTEGER NOT NULL
) STRICT;
