-- Fourth version.

-- Pages of a folder are found by their offset in an index.
DROP TRIGGER file_placed;
DROP TRIGGER file_displaced;
DROP TABLE folder_stretches;
DROP TABLE shifts;
