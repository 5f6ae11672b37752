-- Third version: a deep page of a folder is found without counting through what is before it.

-- How many files of a folder lie in each stretch of 2^shift sequences, kept by the triggers below. The
-- category '' stands for all of them. A stretch that has become empty stays, with 0.
CREATE TABLE folder_stretches (
    owner    INTEGER NOT NULL,
    folder   TEXT NOT NULL,
    category TEXT NOT NULL,
    shift    INTEGER NOT NULL,
    stretch  INTEGER NOT NULL,
    files    INTEGER NOT NULL,
    PRIMARY KEY (owner, folder, category, shift, stretch)
) STRICT, WITHOUT ROWID;
CREATE TABLE shifts (shift INTEGER PRIMARY KEY) STRICT;
INSERT INTO shifts VALUES (8), (16), (24);

INSERT INTO folder_stretches
SELECT owner, folder, category, shift, sequence >> shift, count(*) FROM (
    SELECT owner, folder, category, sequence FROM objects WHERE owner IS NOT NULL
    UNION ALL SELECT owner, folder, '', sequence FROM objects WHERE owner IS NOT NULL
), shifts GROUP BY 1, 2, 3, 4, 5;

CREATE TRIGGER file_placed AFTER INSERT ON objects WHEN new.owner IS NOT NULL BEGIN
    INSERT INTO folder_stretches
    SELECT new.owner, new.folder, category, shift, new.sequence >> shift, 1
    FROM shifts, (SELECT new.category AS category UNION ALL SELECT '') WHERE true
    ON CONFLICT DO UPDATE SET files = files + 1;
END;
CREATE TRIGGER file_displaced AFTER DELETE ON objects WHEN old.owner IS NOT NULL BEGIN
    INSERT INTO folder_stretches
    SELECT old.owner, old.folder, category, shift, old.sequence >> shift, 0
    FROM shifts, (SELECT old.category AS category UNION ALL SELECT '') WHERE true
    ON CONFLICT DO UPDATE SET files = files - 1;
END;
