-- Fourth version.

-- Pages of a folder are found by their offset in an index.
DROP TRIGGER file_placed;
DROP TRIGGER file_displaced;
DROP TABLE folder_stretches;
DROP TABLE shifts;

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
