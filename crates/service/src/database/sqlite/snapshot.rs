//! Copies of the database, and taking everything back from one: in one transaction, while readers read on.

use std::path::Path;

use async_trait::async_trait;
use rusqlite::{Connection, OpenFlags};

use super::statements::Statements as _;
use super::{SqliteDatabase, connect, path};
use crate::Error;
use crate::database::{Snapshots, WithBlobs};

/// Tables that tell of the present rather than of what was stored: they stay as they are.
const OF_THE_PRESENT: [&str; 4] = ["node_keys", "nodes", "node_models", "settings"];

#[async_trait]
impl Snapshots for SqliteDatabase {
    async fn copy_into(&self, file: &Path, meanwhile: WithBlobs) -> Result<(), Error> {
        let file = path(file)?;
        self.exclusively(move |db| {
            db.run("VACUUM INTO ?", [file])?;
            meanwhile(blobs(db)?)
        })
        .await
    }

    async fn blobs_of(&self, file: &Path) -> Result<Vec<String>, Error> {
        let file = file.to_owned();
        let read = move || blobs(&connect(&file, OpenFlags::SQLITE_OPEN_READ_ONLY)?);
        let done = tokio::task::spawn_blocking(read).await;
        done.map_err(|cause| Error::new("reading a copy of the database", cause))?
    }

    async fn replace_from(&self, file: &Path, word: &str) -> Result<Vec<String>, Error> {
        let (file, word) = (path(file)?, word.to_owned());
        self.exclusively(move |db| {
            // Neither of these can be done inside a transaction. Without foreign keys, emptying a table is one
            // step however many rows it has.
            db.pragma_update(None, "foreign_keys", false)?;
            db.run("ATTACH DATABASE ? AS copy", [file])?;
            let replaced = exchange(db, &word);
            db.execute_batch("DETACH DATABASE copy")?;
            db.pragma_update(None, "foreign_keys", true)?;
            replaced
        })
        .await
    }
}

fn blobs(db: &Connection) -> Result<Vec<String>, Error> {
    Ok(db.all("SELECT blob FROM objects", [], |row| row.get(0))?)
}

/// The name that a blob gets when it is taken back. The beginning is random, and stays, however often
/// that happens.
pub(crate) fn renamed(blob: &str, word: &str) -> String {
    format!("{}-{word}", blob.get(..26).unwrap_or(blob))
}

fn exchange(db: &Connection, word: &str) -> Result<Vec<String>, Error> {
    let tx = db.unchecked_transaction()?;
    let of_main: u32 = tx.pragma_query_value(Some("main"), "user_version", |row| row.get(0))?;
    let of_copy: u32 = tx.pragma_query_value(Some("copy"), "user_version", |row| row.get(0))?;
    if of_main != of_copy {
        let cause = format!("the copy was written by another version of the service (schema {of_copy})");
        return Err(Error::new("replacing the database", cause));
    }
    let unneeded = blobs(&tx)?;
    // Triggers count rows that come and go; what they count is copied too.
    let triggers: Vec<(String, String)> = tx
        .prepare("SELECT name, sql FROM main.sqlite_schema WHERE type = 'trigger'")?
        .query_map([], |row| row.try_into())?
        .collect::<Result<_, _>>()?;
    for (name, _) in &triggers {
        tx.execute_batch(&format!("DROP TRIGGER main.\"{name}\""))?;
    }
    let tables: Vec<String> = tx
        .prepare(
            "SELECT name FROM main.sqlite_schema \
             WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
        )?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for table in tables.iter().filter(|table| !OF_THE_PRESENT.contains(&table.as_str())) {
        tx.execute_batch(&format!("DELETE FROM main.\"{table}\""))?;
        tx.execute_batch(&format!("INSERT INTO main.\"{table}\" SELECT * FROM copy.\"{table}\""))?;
    }
    tx.execute_batch("UPDATE main.tasks SET lease_until = 0 WHERE status = 'computing'")?;
    // A name of its own for every blob, so that a delete of the one of before deletes nothing else.
    tx.execute("UPDATE main.objects SET blob = substr(blob, 1, 26) || '-' || ?", [word])?;
    for (_, sql) in &triggers {
        tx.execute_batch(sql)?;
    }
    tx.commit()?;
    Ok(unneeded)
}
