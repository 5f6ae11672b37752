//! The store in one SQLite file: a single connection that writes, a few that read beside it.

mod accounts;
mod catalog;
mod files;
mod group_commit;
mod ledger;
mod movements;
mod nodes;
mod queue;
mod snapshot;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{Connection, Sqlite, Transaction};

use crate::Error;

/// The schema, version by version. Only ever added to.
const SCHEMA: &[&str] =
    &[include_str!("schema.sql"), include_str!("schema_2.sql"), include_str!("schema_3.sql")];

/// How many connections read side by side.
const READERS: u32 = 4;

/// How long a write waits for its turn before it fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// Whether an answered write survives the loss of power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Every commit is synced to the disk before it is acknowledged.
    Full,
    /// Nothing is synced: the data go with the process anyway.
    None,
}

/// The store in one SQLite file.
#[derive(Debug, Clone)]
pub(crate) struct SqliteDatabase {
    /// One connection: SQLite has one writer at a time, and waiting here is fair where its lock is not.
    writer: SqlitePool,
    readers: SqlitePool,
    /// Writes that are going to share a commit.
    waiting: group_commit::Waiting,
}

impl SqliteDatabase {
    /// Opens the file, creates it if it is missing, and brings its schema up to date.
    pub(crate) async fn open(file: &Path, durability: Durability) -> Result<Self, Error> {
        let doing = || format!("opening the database {}", file.display());
        let options = SqliteConnectOptions::new()
            .filename(file)
            .create_if_missing(true)
            .foreign_keys(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(match durability {
                Durability::Full => SqliteSynchronous::Full,
                Durability::None => SqliteSynchronous::Off,
            })
            .busy_timeout(PATIENCE)
            .statement_cache_capacity(200);
        let writer =
            pool(1).connect_with(options.clone()).await.map_err(|cause| Error::keeping(doing(), cause))?;
        migrate(&writer).await.map_err(|cause| Error::keeping(doing(), cause))?;
        let readers = pool(READERS).connect_lazy_with(options.read_only(true).create_if_missing(false));
        Ok(Self { writer, readers, waiting: group_commit::Waiting::default() })
    }

    /// Begins a transaction that holds the right to write from its first statement on.
    async fn write(&self) -> Result<Transaction<'_, Sqlite>, Error> {
        Ok(self.writer.begin_with("BEGIN IMMEDIATE").await?)
    }

    /// The value of a setting, if there is one.
    pub(crate) async fn setting(&self, name: &str) -> Result<Option<String>, Error> {
        let query = sqlx::query_scalar("SELECT value FROM settings WHERE name = ?").bind(name);
        Ok(query.fetch_optional(&self.readers).await?)
    }

    /// The value of a setting; the given one is kept and returned when there is none yet.
    pub(crate) async fn setting_or(&self, name: &str, value: &str) -> Result<String, Error> {
        let mut tx = self.write().await?;
        sqlx::query("INSERT INTO settings (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING")
            .bind(name)
            .bind(value)
            .execute(&mut *tx)
            .await?;
        let kept = sqlx::query_scalar("SELECT value FROM settings WHERE name = ?")
            .bind(name)
            .fetch_one(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(kept)
    }

    /// Closes the file in order: what is in the log moves into it.
    pub(crate) async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }
}

fn pool(connections: u32) -> SqlitePoolOptions {
    SqlitePoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(PATIENCE)
        .idle_timeout(None)
        .max_lifetime(None)
        // When a commit fails, because the disk is full, SQLite ends the transaction and sqlx does not know:
        // that connection would refuse every further one.
        .before_acquire(|connection, _| Box::pin(async { Ok(!connection.is_in_transaction()) }))
}

async fn migrate(writer: &SqlitePool) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let version: i64 = sqlx::query_scalar("PRAGMA user_version").fetch_one(writer).await?;
    let applied = usize::try_from(version)?;
    if applied > SCHEMA.len() {
        return Err(format!(
            "it was written by a newer version of the service (schema {applied}, this one knows {}); \
             use that version",
            SCHEMA.len()
        )
        .into());
    }
    if applied == SCHEMA.len() {
        return Ok(());
    }
    let mut tx = writer.begin_with("BEGIN IMMEDIATE").await?;
    for sql in &SCHEMA[applied..] {
        sqlx::raw_sql(*sql).execute(&mut *tx).await?;
    }
    // A pragma takes no parameters; the number is ours.
    let stamp = format!("PRAGMA user_version = {}", SCHEMA.len());
    sqlx::raw_sql(sqlx::AssertSqlSafe(stamp)).execute(&mut *tx).await?;
    tx.commit().await?;
    Ok(())
}

/// A count or size that the database keeps as a signed number.
fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// A count or size as the database keeps it.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
