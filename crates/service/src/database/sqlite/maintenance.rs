//! Bootstrap, checks, backup and shutdown of the SQLite database.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::time::Instant;

use async_trait::async_trait;
use rusqlite::{Connection, OpenFlags};

use super::accounts::{add_account, add_key};
use super::ledger::adjust;
use super::replacement::replace;
use super::statements::Statements as _;
use super::{SqliteDatabase, connect, path};
use crate::clock::Moment;
use crate::database::records::{self, column};
use crate::database::shared_sql::{MAY_ADD_KEY, SET_SETTING};
use crate::database::{Bootstrap, Bootstrapped, FIRST_ACCOUNT, Maintenance, Settings, Sharing, UNSHOWN_KEY};
use crate::ledger::Credit;
use crate::metrics::Totals;
use crate::{Error, Result};

#[async_trait]
impl Settings for SqliteDatabase {
    async fn setting(&self, name: &str) -> Result<Option<String>> {
        self.first(SETTING, [name.to_owned()], column).await
    }

    async fn setting_or(&self, name: &str, value: &str) -> Result<String> {
        let (name, value) = (name.to_owned(), value.to_owned());
        self.write(move |db| {
            let insert = "INSERT INTO settings (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING";
            db.run(insert, [&name, &value])?;
            Ok(setting(db, &name)?.unwrap_or(value))
        })
        .await
    }

    async fn set_setting(&self, name: &str, value: &str) -> Result<()> {
        self.run(SET_SETTING, (name.to_owned(), value.to_owned())).await.map(drop)
    }
}

impl Sharing for SqliteDatabase {}

#[async_trait]
impl Maintenance for SqliteDatabase {
    async fn bootstrap(&self, begin: &Bootstrap, now: Moment) -> Result<Bootstrapped> {
        let begin = begin.clone();
        self.write(move |db| bootstrap(db, &begin, now)).await
    }

    async fn first_key_shown(&self, id: &str) -> Result<()> {
        let delete = "DELETE FROM settings WHERE name = ? AND value = ?";
        self.run(delete, (UNSHOWN_KEY, id.to_owned())).await.map(drop)
    }

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
        let invalidations = (self.caches.keys.invalidate(), self.caches.invalidate_models());
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

const SETTING: &str = "SELECT value FROM settings WHERE name = ?";

fn setting(db: &Connection, name: &str) -> Result<Option<String>> {
    Ok(db.first(SETTING, [name], column)?)
}

fn bootstrap(db: &Connection, begin: &Bootstrap, now: Moment) -> Result<Bootstrapped> {
    let operator = add_account(db, &begin.operator, now)?;
    let earlier = setting(db, FIRST_ACCOUNT)?;
    let is_key_new = earlier.is_none() || db.is_there(MAY_ADD_KEY, [UNSHOWN_KEY, &begin.key.id])?;
    let username = earlier.as_ref().unwrap_or(&begin.first.username);
    if earlier.is_none() {
        let first = add_account(db, &begin.first, now)?.id;
        adjust(db, first, &Credit::Paid(begin.balance).into(), now)?;
        adjust(db, first, &Credit::Free(begin.free_balance).into(), now)?;
        db.run("INSERT INTO settings (name, value) VALUES (?, ?)", [FIRST_ACCOUNT, username])?;
    }
    if is_key_new {
        let owner = db.one("SELECT id FROM accounts WHERE username = ?", [username], column)?;
        add_key(db, owner, &begin.key, now)?;
        db.run(SET_SETTING, [UNSHOWN_KEY, &begin.key.id])?;
    }
    Ok(Bootstrapped { operator, is_key_new })
}

/// Copies the database on a reader connection, so that writes continue. The copy is synced before this function
/// returns, and only its owner may read the file. Returns the blobs of its rows.
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
        // Deletes an incomplete backup.
        let _ = fs::remove_file(file);
    })
}
