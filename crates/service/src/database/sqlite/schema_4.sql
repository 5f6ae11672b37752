-- Fourth version.

-- Pages of a folder are found by their offset in an index.
DROP TRIGGER file_placed;
DROP TRIGGER file_displaced;
DROP TABLE folder_stretches;
DROP TABLE shifts;

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
