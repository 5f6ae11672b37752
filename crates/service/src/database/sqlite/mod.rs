//! SQLite engine: one thread writes, and a pool of connections reads beside it.

mod catalog;
mod checkpoints;
mod dialect;
mod files;
mod group_commit;
mod ledger;
mod maintenance;
mod movements;
mod nodes;
mod queue;
mod readers;
mod replacement;
mod session;
mod statements;
mod transfer;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::cache::Caches;
use crate::database::{Database, Durability};
use crate::error::DiskFailure;
use crate::{Error, Result};
use checkpoints::Checkpoints;
use group_commit::Writer;
use readers::Readers;
use session::Session;

/// Migrations of the schema, by version. Existing ones never change.
const SCHEMA: &[&str] = &[
    include_str!("schema.sql"),
    include_str!("schema_2.sql"),
    include_str!("schema_3.sql"),
    include_str!("schema_4.sql"),
    include_str!("schema_5.sql"),
    include_str!("schema_6.sql"),
    include_str!("schema_7.sql"),
    include_str!("schema_8.sql"),
    include_str!("schema_9.sql"),
    include_str!("schema_10.sql"),
    include_str!("schema_11.sql"),
    include_str!("schema_12.sql"),
    include_str!("schema_13.sql"),
    include_str!("schema_14.sql"),
    include_str!("schema_15.sql"),
    include_str!("schema_16.sql"),
    include_str!("schema_17.sql"),
    include_str!("schema_18.sql"),
];

const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

const PAGE_CACHE: i64 = 8 * 1024;

const STATEMENT_CACHE: usize = 200;

#[derive(Clone)]
pub(crate) struct SqliteDatabase {
    writer: Writer,
    readers: Readers,
    caches: Arc<Caches>,
}

impl Database for SqliteDatabase {}

impl SqliteDatabase {
    pub(crate) async fn open(file: &Path, durability: Durability) -> Result<Self> {
        let doing = format!("opening the database {}", file.display());
        let file = file.to_owned();
        let opened = tokio::task::spawn_blocking(move || {
            let writer = open_writer(&file, durability).map_err(|cause| failure(doing.clone(), cause))?;
            migrate(&writer, &doing)?;
            let readers = Readers::open(&file).map_err(|cause| failure(doing, cause))?;
            let checkpoints = Checkpoints::spawn(&file, durability)?;
            Ok(Self {
                writer: Writer::spawn(Session::new(writer), checkpoints)?,
                readers,
                caches: Arc::default(),
            })
        });
        opened.await.map_err(|cause| Error::new("opening the database", cause))?
    }
}

fn open_writer(file: &Path, durability: Durability) -> rusqlite::Result<Connection> {
    let writer = connect(file, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
    writer.pragma_update(None, "journal_mode", "WAL")?;
    set_synchronous(&writer, durability)?;
    writer.pragma_update(None, "foreign_keys", true)?;
    checkpoints::configure_writer(&writer)?;
    Ok(writer)
}

fn set_synchronous(connection: &Connection, durability: Durability) -> rusqlite::Result<()> {
    let synchronous = match durability {
        Durability::Full => "FULL",
        Durability::None => "OFF",
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    // On macOS, `fsync` alone does not flush the disk's cache.
    connection.pragma_update(None, "fullfsync", durability == Durability::Full)?;
    connection.pragma_update(None, "checkpoint_fullfsync", durability == Durability::Full)
}

fn connect(file: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(file, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "cache_size", -PAGE_CACHE)?;
    connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE);
    Ok(connection)
}

fn migrate(writer: &Connection, doing: &str) -> Result<()> {
    let failed = |cause| failure(doing, cause);
    let version: u32 = writer.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(failed)?;
    let applied = version as usize;
    if applied > SCHEMA.len() {
        let cause = format!(
            "it was written by a newer version of the service (schema {applied}, this one knows {}); \
             use that version",
            SCHEMA.len()
        );
        return Err(Error::new(doing, cause));
    }
    let upgrade = || {
        let tx = rusqlite::Transaction::new_unchecked(writer, TransactionBehavior::Immediate)?;
        for sql in &SCHEMA[applied..] {
            tx.execute_batch(sql)?;
        }
        tx.pragma_update(None, "user_version", SCHEMA.len())?;
        tx.commit()
    };
    if applied == SCHEMA.len() { Ok(()) } else { upgrade().map_err(failed) }
}

fn path(file: &Path) -> Result<String> {
    let text = file.to_str().map(str::to_owned);
    text.ok_or_else(|| Error::new("copying the database", format!("{} is not UTF-8", file.display())))
}

fn failure(doing: impl Into<String>, cause: rusqlite::Error) -> Error {
    let extended = cause.sqlite_error().map(|error| error.extended_code);
    let disk = extended.and_then(|code| match code {
        // SQLITE_FULL; SQLITE_IOERR of a write, sync, extension or truncation: SQLite's reports of quotas and limits.
        13 | 778 | 1034 | 1546 | 4874 => Some(DiskFailure::Full),
        // SQLITE_PERM, SQLITE_READONLY.
        code if matches!(code & 0xff, 3 | 8) => Some(DiskFailure::NotWritable),
        // SQLITE_CANTOPEN.
        code if code & 0xff == 14 => Some(DiskFailure::NotOpened),
        _ => None,
    });
    // SQLITE_BUSY, SQLITE_LOCKED: nothing was done.
    if extended.is_some_and(|code| matches!(code & 0xff, 5 | 6)) {
        return Error::unavailable(doing, cause)
            .with_hint("another program keeps the database locked; end it, or wait until it has ended");
    }
    let error = Error::new(doing, cause).with_disk_failure(disk);
    // SQLITE_CORRUPT, SQLITE_NOTADB.
    if extended.is_some_and(|code| matches!(code & 0xff, 11 | 26)) {
        return error
            .with_hint("the database is damaged: start on the data folder of a backup, and keep this one");
    }
    error
}

impl From<rusqlite::Error> for Error {
    fn from(cause: rusqlite::Error) -> Self {
        failure("using the database", cause)
    }
}
