//! Replacement of everything but files by a copy, in one transaction.

use rusqlite::Connection;

use super::statements::Statements as _;
use crate::Result;
use crate::database::records::{column, pair};

const OF_THE_PRESENT: [&str; 4] = ["node_keys", "nodes", "node_models", "settings"];

/// Tables of files, which become empty because the copy has no blobs.
const OF_FILES: [&str; 3] = ["objects", "upload_targets", "folder_usage"];

pub(super) fn replace(db: &Connection, copy: &str) -> Result<Vec<String>> {
    // The foreign key setting cannot change inside a transaction; without foreign keys, a table is emptied in one step.
    db.pragma_update(None, "foreign_keys", false)?;
    let replaced = replace_unchecked(db, copy);
    db.pragma_update(None, "foreign_keys", true)?;
    replaced
}

fn replace_unchecked(db: &Connection, copy: &str) -> Result<Vec<String>> {
    db.run("ATTACH DATABASE ? AS copy", [copy])?;
    let replaced = exchange(db);
    db.execute_batch("DETACH DATABASE copy")?;
    replaced
}

fn exchange(db: &Connection) -> Result<Vec<String>> {
    let tx = db.unchecked_transaction()?;
    let unneeded = tx.all("SELECT blob FROM main.objects", [], column)?;
    // The triggers count inserted and deleted rows, but the copy includes the counters.
    let triggers = "SELECT name, sql FROM main.sqlite_schema WHERE type = 'trigger'";
    let triggers: Vec<(String, String)> = tx.all(triggers, [], pair)?;
    for (name, _) in &triggers {
        tx.execute_batch(&format!("DROP TRIGGER main.\"{name}\""))?;
    }
    let tables = "SELECT name FROM main.sqlite_schema WHERE type = 'table' \
                  AND name NOT GLOB 'sqlite_*' AND name NOT GLOB 'model_texts*'";
    let tables: Vec<String> = tx.all(tables, [], column)?;
    for table in tables.iter().map(String::as_str).filter(|table| !OF_THE_PRESENT.contains(table)) {
        tx.execute_batch(&format!("DELETE FROM main.\"{table}\""))?;
        if !OF_FILES.contains(&table) {
            tx.execute_batch(&format!("INSERT INTO main.\"{table}\" SELECT * FROM copy.\"{table}\""))?;
        }
    }
    tx.execute_batch("INSERT INTO main.model_texts (model_texts) VALUES ('rebuild')")?;
    tx.execute_batch("UPDATE main.accounts SET stored_bytes = 0, byte_seconds = 0, gib_seconds = 0")?;
    tx.execute_batch("UPDATE main.tasks SET lease_until = 0 WHERE status = 'computing'")?;
    for (_, sql) in &triggers {
        tx.execute_batch(sql)?;
    }
    tx.commit()?;
    Ok(unneeded)
}
