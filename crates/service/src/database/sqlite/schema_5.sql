-- Fifth version.

-- How many tasks of an account have not ended, kept by the triggers below.
ALTER TABLE accounts ADD COLUMN unfinished INTEGER NOT NULL DEFAULT 0;
UPDATE accounts SET unfinished = (SELECT count(*) FROM tasks
    WHERE account = accounts.id AND status IN ('in_queue', 'computing'));
CREATE TRIGGER task_begun AFTER INSERT ON tasks WHEN new.status IN ('in_queue', 'computing') BEGIN
    UPDATE accounts SET unfinished = unfinished + 1 WHERE id = new.account;
END;
CREATE TRIGGER task_ended AFTER UPDATE OF status ON tasks
WHEN old.status IN ('in_queue', 'computing') AND new.status NOT IN ('in_queue', 'computing') BEGIN
    UPDATE accounts SET unfinished = unfinished - 1 WHERE id = new.account;
END;

-- How many tasks of an account are computing, and on which node.
DROP INDEX tasks_unfinished;
CREATE INDEX tasks_computing ON tasks (account, node) WHERE status = 'computing';

-- How many models a list has, by owner and, as owner 0, of all owners. Kept by the triggers below.
CREATE TABLE model_counts (
    owner         INTEGER NOT NULL,
    is_public     INTEGER NOT NULL,
    is_official   INTEGER NOT NULL,
    is_playground INTEGER NOT NULL,
    models        INTEGER NOT NULL,
    PRIMARY KEY (owner, is_public, is_official, is_playground)
) STRICT, WITHOUT ROWID;
INSERT INTO model_counts SELECT owner, is_public, is_official, is_playground, count(*) FROM models GROUP BY 1, 2, 3, 4;
INSERT INTO model_counts SELECT 0, is_public, is_official, is_playground, count(*) FROM models GROUP BY 1, 2, 3, 4;
CREATE TRIGGER model_counted AFTER INSERT ON models BEGIN
    INSERT INTO model_counts VALUES
        (new.owner, new.is_public, new.is_official, new.is_playground, 1),
        (0, new.is_public, new.is_official, new.is_playground, 1)
    ON CONFLICT DO UPDATE SET models = models + 1;
END;
CREATE TRIGGER model_recounted AFTER UPDATE OF is_public, is_official, is_playground ON models BEGIN
    UPDATE model_counts SET models = models - 1 WHERE owner IN (0, old.owner) AND is_public = old.is_public
        AND is_official = old.is_official AND is_playground = old.is_playground;
    INSERT INTO model_counts VALUES
        (new.owner, new.is_public, new.is_official, new.is_playground, 1),
        (0, new.is_public, new.is_official, new.is_playground, 1)
    ON CONFLICT DO UPDATE SET models = models + 1;
END;
