-- How much the latest create took from the free purse: what it must know of the row as it was before its update.
ALTER TABLE purses ADD COLUMN taken_free BIGINT NOT NULL DEFAULT 0;

-- How many tasks a row stands for: those of one statement share it. A process of the version before counts each as one.
ALTER TABLE model_uses ADD COLUMN tasks BIGINT NOT NULL DEFAULT 1;
