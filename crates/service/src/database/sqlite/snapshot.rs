//! Copies of the database: written while it is used, and taken back in one transaction.

use std::path::Path;

use async_trait::async_trait;
use sqlx::{AssertSqlSafe, Row, SqliteConnection};

use super::SqliteDatabase;
use crate::Error;
use crate::admin::Backups;

/// Tables of the running service, which stay as they are.
const OF_THE_PRESENT: [&str; 4] = ["node_keys", "nodes", "node_models", "settings"];

/// Tables of files, which are emptied: the copy has no blobs.
const OF_FILES: [&str; 4] = ["objects", "upload_targets", "folder_usage", "folder_stretches"];

#[async_trait]
impl Backups for SqliteDatabase {
    async fn backup_to(&self, file: &Path) -> Result<Vec<String>, Error> {
        use sqlx::{ConnectOptions as _, Connection as _};
        sqlx::query("VACUUM INTO ?").bind(path(file)?).execute(&self.readers).await?;
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(file);
        let mut copy = options.connect().await?;
        let blobs = sqlx::query_scalar("SELECT blob FROM objects").fetch_all(&mut copy).await?;
        copy.close().await?;
        Ok(blobs)
    }
}

impl SqliteDatabase {
    /// Replaces everything but files by the contents of a copy. Tasks that were computing can be claimed.
    /// Returns the blobs of the files that were there.
    pub(crate) async fn replace_from(&self, file: &Path) -> Result<Vec<String>, Error> {
        let (database, file) = (self.clone(), path(file)?);
        // On a task of its own: a caller that goes away must not leave the connection half way.
        let replaced = tokio::spawn(async move {
            let mut writer = database.writer.acquire().await?;
            let replaced = replace(&mut writer, &file).await;
            if replaced.is_err() {
                writer.close_on_drop();
            }
            replaced
        });
        replaced.await.map_err(|cause| Error::new("replacing the database", cause))?
    }
}

fn path(file: &Path) -> Result<String, Error> {
    let text = file.to_str().map(str::to_owned);
    text.ok_or_else(|| Error::new("copying the database", format!("{} is not UTF-8", file.display())))
}

async fn replace(writer: &mut SqliteConnection, file: &str) -> Result<Vec<String>, Error> {
    // Neither of these can be done inside a transaction. Without foreign keys, emptying a table is one
    // step however many rows it has.
    run(writer, "PRAGMA foreign_keys = OFF").await?;
    sqlx::query("ATTACH DATABASE ? AS copy").bind(file).execute(&mut *writer).await?;
    run(writer, "BEGIN IMMEDIATE").await?;
    let unneeded = exchange(writer).await?;
    run(writer, "COMMIT").await?;
    run(writer, "DETACH DATABASE copy").await?;
    run(writer, "PRAGMA foreign_keys = ON").await?;
    Ok(unneeded)
}

async fn exchange(writer: &mut SqliteConnection) -> Result<Vec<String>, Error> {
    let unneeded = sqlx::query_scalar("SELECT blob FROM main.objects").fetch_all(&mut *writer).await?;
    // Triggers count rows that come and go; what they count is copied too.
    let triggers = sqlx::query("SELECT name, sql FROM main.sqlite_schema WHERE type = 'trigger'")
        .fetch_all(&mut *writer)
        .await?;
    for trigger in &triggers {
        let name: String = trigger.try_get("name")?;
        run(writer, &format!("DROP TRIGGER main.\"{name}\"")).await?;
    }
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
    )
    .fetch_all(&mut *writer)
    .await?;
    for table in tables.iter().map(String::as_str).filter(|table| !OF_THE_PRESENT.contains(table)) {
        run(writer, &format!("DELETE FROM main.\"{table}\"")).await?;
        if !OF_FILES.contains(&table) {
            run(writer, &format!("INSERT INTO main.\"{table}\" SELECT * FROM copy.\"{table}\"")).await?;
        }
    }
    run(writer, "UPDATE main.accounts SET stored_bytes = 0, byte_seconds = 0").await?;
    run(writer, "UPDATE main.tasks SET lease_until = 0 WHERE status = 'computing'").await?;
    for trigger in &triggers {
        run(writer, trigger.try_get("sql")?).await?;
    }
    Ok(unneeded)
}

/// Runs a statement that is made of names of our own.
async fn run(writer: &mut SqliteConnection, sql: &str) -> Result<(), Error> {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(writer).await?;
    Ok(())
}
