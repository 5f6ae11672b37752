-- Seventeenth version: the bytes that an account may store; null for any number.
ALTER TABLE accounts ADD COLUMN quota INTEGER;
