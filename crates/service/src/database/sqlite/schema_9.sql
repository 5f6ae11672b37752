-- Ninth version: tasks that retention deletes are counted no more.
CREATE TRIGGER task_uncounted AFTER DELETE ON tasks BEGIN
    UPDATE task_counts SET tasks = tasks - 1 WHERE status = old.status;
END;
UPDATE task_counts SET tasks = (SELECT count(*) FROM tasks WHERE tasks.status = task_counts.status);
