-- References and notes of credits and debits by the operator. A table of its own: movements are added up when they are old,
-- and a reference stays used. A process of the version before adds neither.
CREATE TABLE adjustments (
    id        BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account   BIGINT NOT NULL REFERENCES accounts (id),
    purse     TEXT NOT NULL,
    -- Below zero for a debit.
    amount    BIGINT NOT NULL,
    reference TEXT COLLATE "C",
    note      TEXT
);
CREATE UNIQUE INDEX adjustments_by_reference ON adjustments (account, reference) WHERE reference IS NOT NULL;
ALTER TABLE movements ADD COLUMN adjustment BIGINT;

-- Whether an account may use the service; a process of the version before lets all of them.
ALTER TABLE accounts ADD COLUMN state TEXT NOT NULL DEFAULT 'active'
    CHECK (state IN ('active', 'suspended', 'closed'));

-- Whether tasks of a model are run; a process of the version before runs all of them.
ALTER TABLE models ADD COLUMN state TEXT NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused', 'retired'));

-- What limits an API key: null for nothing. The models are a JSON array. A process of the version before knows no limits.
ALTER TABLE api_keys ADD COLUMN name TEXT;
ALTER TABLE api_keys ADD COLUMN expires_at BIGINT;
ALTER TABLE api_keys ADD COLUMN daily_limit BIGINT;
ALTER TABLE api_keys ADD COLUMN models TEXT;
-- The tasks of keys with a daily limit, for two days. A table of its own, so that nothing locks that of tasks while an index
-- is built.
CREATE TABLE key_tasks (
    task  TEXT COLLATE "C" PRIMARY KEY,
    key   TEXT NOT NULL,
    day   BIGINT NOT NULL,
    price BIGINT NOT NULL
);
CREATE INDEX key_tasks_by_day ON key_tasks (day, key);

-- What operators did.
CREATE TABLE operator_log (
    id      BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      BIGINT NOT NULL,
    request TEXT NOT NULL,
    body    TEXT,
    status  BIGINT NOT NULL
);
