-- How much the latest create took from the free purse: what it must know of the row as it was before its update.
ALTER TABLE purses ADD COLUMN taken_free BIGINT NOT NULL DEFAULT 0;
