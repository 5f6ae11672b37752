-- Fourth version.

-- Pages of a folder are found by their offset in an index.
DROP TRIGGER file_placed;
DROP TRIGGER file_displaced;
DROP TABLE folder_stretches;
DROP TABLE shifts;

-- Addresses that were drawn at random look as if a payment could go to them.
UPDATE accounts SET wallet_address = 'local:' || username WHERE wallet_address LIKE '0x%';
