//! Checks, backup and shutdown of the SQLite database.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::time::Instant;

use async_trait::async_trait;
use rusqlite::{Connection, OpenFlags};

use super::replacement::replace;
use super::statements::Statements as _;
use super::{SqliteDatabase, connect, path};
use crate::database::cache::CachedRows;
use crate::database::records::{self, column};
use crate::database::{Maintenance, Sharing};
use crate::metrics::Totals;
use crate::{Error, Result};

impl Sharing for SqliteDatabase {}

#[async_trait]
impl Maintenance for SqliteDatabase {
    async fn totals(&self) -> Result<Totals> {
        let totals = "SELECT (SELECT coalesce(sum(stored_bytes), 0) FROM accounts), \
             (SELECT coalesce(sum(amount), 0) FROM purses WHERE purse = 'held'), \
             (SELECT count(*) FROM upload_targets WHERE is_used = 0 AND is_void = 0)";
        self.scan(move |db| Ok(db.one(totals, [], records::totals)?)).await
    }

    async fn backup_to(&self, file: &Path) -> Result<Vec<String>> {
        let file = file.to_owned();
        self.scan(move |db| backup(db, &file)).await
    }

    async fn replace_from(&self, backup: &Path) -> Result<Vec<String>> {
        let backup = path(backup)?;
        let invalidations = [CachedRows::Keys, CachedRows::Models].map(|rows| self.caches.invalidate(rows));
        self.exclusively(move |db| {
            let replaced = replace(db, &backup);
            drop(invalidations);
            replaced
        })
        .await
    }

    #[cfg(test)]
    fn commits(&self) -> usize {
        self.writer.commits.load(std::sync::atomic::Ordering::SeqCst)
    }

    async fn close(&self, deadline: Instant) {
        self.readers.close(deadline).await;
        self.writer.close().await;
    }
}

/// Copies the database beside writes into a synced file that only its owner may read. Returns the blobs of its rows.
fn backup(db: &Connection, file: &Path) -> Result<Vec<String>> {
    let failed = |cause| Error::keeping(format!("writing the backup {}", file.display()), cause);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let copy = options.open(file).map_err(failed)?;
    let written = path(file).and_then(|path| Ok(db.run("VACUUM INTO ?", [path])?));
    let synced = written.and_then(|_| copy.sync_all().map_err(failed));
    let named = synced.and_then(|()| {
        let copy = connect(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        Ok(copy.all("SELECT blob FROM objects", [], column)?)
    });
    named.inspect_err(|_| {
        let _ = fs::remove_file(file);
    })
}
