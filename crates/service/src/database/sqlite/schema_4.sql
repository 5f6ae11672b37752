-- Fourth version.

-- Pages of a folder are found by their offset in an index.
DROP TRIGGER IF EXISTS file_placed;
DROP TRIGGER IF EXISTS file_displaced;
DROP TABLE IF EXISTS folder_stretches;
DROP TABLE IF EXISTS shifts;

-- Fair turns: the accounts that have queued tasks of a model. The account with the lowest turn is claimed from
-- next and then gets the highest. A row without queued tasks is deleted when its turn comes.
CREATE TABLE turns (
    account INTEGER NOT NULL REFERENCES accounts (id),
    model   TEXT NOT NULL,
    turn    INTEGER NOT NULL,
    PRIMARY KEY (account, model)
) STRICT, WITHOUT ROWID;
CREATE INDEX turns_of_model ON turns (model, turn);
CREATE INDEX turns_in_order ON turns (turn);
INSERT INTO turns SELECT DISTINCT account, model, account FROM tasks WHERE status = 'in_queue';
DROP INDEX tasks_in_queue;
CREATE INDEX tasks_in_queue ON tasks (model, account, sequence) WHERE status = 'in_queue';

-- How many tasks of an account are unfinished, and how many of them are computing on which node.
CREATE INDEX tasks_unfinished ON tasks (account, status, node) WHERE status IN ('in_queue', 'computing');

-- How many leases of a task ended in order, without a result. They do not count as attempts.
ALTER TABLE tasks ADD COLUMN releases INTEGER NOT NULL DEFAULT 0;

-- The place of the oldest task that retention has left.
ALTER TABLE accounts ADD COLUMN first_place INTEGER NOT NULL DEFAULT 0;

-- Outputs of models: the account of the task may delete them. Until the task has succeeded they have the lease
-- under which they were stored, as `<task>/<attempt>`.
ALTER TABLE objects ADD COLUMN output_of INTEGER REFERENCES accounts (id);
ALTER TABLE objects ADD COLUMN lease TEXT;
UPDATE objects SET output_of =
    (SELECT account FROM tasks WHERE tasks.id = substr(objects.key, 1, instr(objects.key, '/') - 1))
WHERE owner IS NULL;
CREATE INDEX outputs_by_age ON objects (created_at) WHERE owner IS NULL;
CREATE INDEX outputs_of_leases ON objects (lease) WHERE lease IS NOT NULL;
-- Addresses that were drawn at random look as if a payment could go to them.
UPDATE accounts SET wallet_address = 'local:' || username WHERE wallet_address LIKE '0x%';

-- Who pays for a file: the account whose key asked for its upload. Null for what a model produced.
ALTER TABLE objects ADD COLUMN payer INTEGER REFERENCES accounts (id);
UPDATE objects SET payer = owner;

-- Metering of storage: what is not charged yet is so many GiB-seconds (of 2^30) and byte-seconds.
ALTER TABLE accounts ADD COLUMN gib_seconds INTEGER NOT NULL DEFAULT 0;

-- Lists of models in each of their orders, public ones and those of an owner.
DROP INDEX models_of_owner;
CREATE INDEX models_of_owner ON models (owner, is_public, created_at, sequence);
CREATE INDEX models_by_creation ON models (is_public, created_at, sequence);
CREATE INDEX models_by_change ON models (is_public, updated_at, sequence);
CREATE INDEX models_by_likes ON models (is_public, likes DESC, sequence);
CREATE INDEX models_by_downloads ON models (is_public, downloads DESC, sequence);
