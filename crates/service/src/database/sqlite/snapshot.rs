//! Copies of the database, and taking everything back from one: in one transaction, while readers read on.

use std::path::Path;

use sqlx::{AssertSqlSafe, Row, SqliteConnection};

use super::SqliteDatabase;
use crate::Error;

/// Tables that tell of the present rather than of what was stored: they stay as they are.
const OF_THE_PRESENT: [&str; 4] = ["node_keys", "nodes", "node_models", "settings"];

impl SqliteDatabase {
    /// Writes a copy into a file that does not exist yet, and keeps everything still until `meanwhile`,
    /// which is given the blobs that the copy refers to, has ended.
    pub(crate) async fn copy_into(
        &self,
        file: &Path,
        meanwhile: impl FnOnce(Vec<String>) -> Result<(), Error> + Send + 'static,
    ) -> Result<(), Error> {
        let mut writer = self.writer.acquire().await?;
        sqlx::query("VACUUM INTO ?").bind(path(file)?).execute(&mut *writer).await?;
        let blobs = sqlx::query_scalar("SELECT blob FROM objects").fetch_all(&mut *writer).await?;
        let done = tokio::task::spawn_blocking(move || meanwhile(blobs)).await;
        done.map_err(|cause| Error::new("copying the blobs", cause))?
    }

    /// Puts the contents of a copy in the place of everything that is stored now. Blobs get the names
    /// that `renamed` makes of theirs. Tasks that were being computed are free to be claimed. Returns the
    /// blobs that nothing refers to any more.
    pub(crate) async fn replace_from(&self, file: &Path, word: &str) -> Result<Vec<String>, Error> {
        let (database, file, word) = (self.clone(), path(file)?, word.to_owned());
        // On a task of its own: a caller that goes away must not leave the connection half way.
        let replaced = tokio::spawn(async move {
            let mut writer = database.writer.acquire().await?;
            let replaced = replace(&mut writer, &file, &word).await;
            if replaced.is_err() {
                // Whatever it is in the middle of, the next one is not.
                writer.close_on_drop();
            }
            replaced
        });
        replaced.await.map_err(|cause| Error::new("replacing the database", cause))?
    }

    /// The blobs that a copy refers to, by the names that they have there.
    pub(crate) async fn blobs_of(file: &Path) -> Result<Vec<String>, Error> {
        use sqlx::{ConnectOptions as _, Connection as _};
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(file).read_only(true);
        let mut copy = options.connect().await?;
        let blobs = sqlx::query_scalar("SELECT blob FROM objects").fetch_all(&mut copy).await?;
        copy.close().await?;
        Ok(blobs)
    }
}

/// The name that a blob gets when it is taken back. The beginning is random, and stays, however often
/// that happens.
pub(crate) fn renamed(blob: &str, word: &str) -> String {
    format!("{}-{word}", blob.get(..26).unwrap_or(blob))
}

fn path(file: &Path) -> Result<String, Error> {
    let text = file.to_str().map(str::to_owned);
    text.ok_or_else(|| Error::new("copying the database", format!("{} is not UTF-8", file.display())))
}

async fn replace(writer: &mut SqliteConnection, file: &str, word: &str) -> Result<Vec<String>, Error> {
    // Neither of these can be done inside a transaction. Without foreign keys, emptying a table is one
    // step however many rows it has.
    run(writer, "PRAGMA foreign_keys = OFF").await?;
    sqlx::query("ATTACH DATABASE ? AS copy").bind(file).execute(&mut *writer).await?;
    run(writer, "BEGIN IMMEDIATE").await?;
    let unneeded = exchange(writer, word).await?;
    run(writer, "COMMIT").await?;
    run(writer, "DETACH DATABASE copy").await?;
    run(writer, "PRAGMA foreign_keys = ON").await?;
    Ok(unneeded)
}

async fn exchange(writer: &mut SqliteConnection, word: &str) -> Result<Vec<String>, Error> {
    let of_main = version(writer, "main").await?;
    let of_copy = version(writer, "copy").await?;
    if of_main != of_copy {
        let cause = format!("the copy was written by another version of the service (schema {of_copy})");
        return Err(Error::new("replacing the database", cause));
    }
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
    for table in tables.iter().filter(|table| !OF_THE_PRESENT.contains(&table.as_str())) {
        run(writer, &format!("DELETE FROM main.\"{table}\"")).await?;
        run(writer, &format!("INSERT INTO main.\"{table}\" SELECT * FROM copy.\"{table}\"")).await?;
    }
    run(writer, "UPDATE main.tasks SET lease_until = 0 WHERE status = 'computing'").await?;
    // A name of its own for every blob, so that whoever is about to delete the one of before deletes
    // nothing else.
    sqlx::query("UPDATE main.objects SET blob = substr(blob, 1, 26) || '-' || ?")
        .bind(word)
        .execute(&mut *writer)
        .await?;
    for trigger in &triggers {
        run(writer, trigger.try_get("sql")?).await?;
    }
    Ok(unneeded)
}

async fn version(writer: &mut SqliteConnection, database: &str) -> Result<i64, Error> {
    let sql = AssertSqlSafe(format!("PRAGMA {database}.user_version"));
    Ok(sqlx::query_scalar(sql).fetch_one(writer).await?)
}

/// Runs a statement that is made of names of our own.
async fn run(writer: &mut SqliteConnection, sql: &str) -> Result<(), Error> {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(writer).await?;
    Ok(())
}
