//! Database traits, one per module; a method of a trait is one transaction, unless its comment says otherwise. Most are
//! implemented once, for any `Engine`: a submodule with sessions, a dialect of SQL and a queue of its own, which passes
//! `conformance`.

mod accounts;
mod admin;
mod audits;
mod cache;
mod catalog;
#[cfg(test)]
pub(crate) mod conformance;
mod dialect;
mod engine;
mod files;
mod ledger;
mod lists;
mod nodes;
#[cfg(feature = "postgres")]
mod postgres;
mod records;
mod refund;
mod settings;
mod shared_sql;
mod sqlite;
pub(crate) mod tables;
mod values;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;

use crate::accounts::{Account, Accounts, NewAccount, StoredKey};
use crate::catalog::{Catalog, ModelPages};
use crate::clock::Moment;
use crate::files::{FilePages, Files};
use crate::ledger::{Ledger, Money, MovementSums};
use crate::metrics::DatabaseMetrics;
use crate::metrics::Totals;
use crate::operator::AdminDatabase;
use crate::queue::Queue;
use crate::registry::{Heartbeats, Registry};
use crate::{Error, Result};
use tables::TableFile;

pub(crate) trait Database:
    Accounts
    + AdminDatabase
    + Catalog
    + FilePages
    + Files
    + Heartbeats
    + Ledger
    + Maintenance
    + ModelPages
    + MovementSums
    + Queue
    + Registry
    + Settings
    + Sharing
    + Transfer
{
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Every write is synced to the disk before its acknowledgment.
    Full,
    /// Nothing is synced, because the data are deleted with the process.
    None,
}

pub(crate) const FILE: &str = "inferstore.db";

pub(crate) async fn open(folder: &Path, durability: Durability) -> Result<Arc<dyn Database>> {
    Ok(Arc::new(sqlite::SqliteDatabase::open(&folder.join(FILE), durability).await?))
}

#[cfg(all(test, feature = "postgres"))]
pub(crate) use postgres::MAX_CONNECTIONS;

#[cfg(feature = "postgres")]
pub(crate) async fn connect(url: &str) -> Result<Arc<dyn Database>> {
    Ok(Arc::new(postgres::PostgresDatabase::open(url).await?))
}

#[cfg(not(feature = "postgres"))]
pub(crate) async fn connect(_: &str) -> Result<Arc<dyn Database>> {
    let cause = "this program was built without PostgreSQL";
    Err(Error::new("opening the database", cause).with_hint("build it with `--features postgres`"))
}

/// Lease of a job: time without an extension after which other processes may start the job.
pub(crate) const JOB_LEASE: Duration = Duration::from_secs(30);

/// Database operations of several processes over one database. The defaults suit an engine for a single process.
#[async_trait]
pub(crate) trait Sharing: Send + Sync {
    fn is_shared(&self) -> bool {
        false
    }
    /// Returns the time of the clock that all processes share; None if that is the system's clock.
    async fn time(&self) -> Result<Option<Moment>> {
        Ok(None)
    }
    /// Starts a run of a job; false if a process started one less than `_interval` ago, or another process holds it.
    async fn begin_job(&self, _name: &str, _interval: Duration, _now: Moment) -> Result<bool> {
        Ok(true)
    }
    async fn hold_job(&self, _name: &str, _now: Moment) -> Result<()> {
        Ok(())
    }
    async fn end_job(&self, _name: &str) -> Result<()> {
        Ok(())
    }
    /// Folds pending deltas into totals. Writes append deltas, so that concurrent writes share no row.
    async fn consolidate(&self) -> Result<()> {
        Ok(())
    }
    fn metrics(&self) -> Option<&DatabaseMetrics> {
        None
    }
    async fn measure(&self) -> Result<()> {
        Ok(())
    }
    /// Announces a queued task of the model to other processes. The hint may be lost.
    fn announce_queued(&self, _model: &str) {}
    async fn queue_changed(&self) -> QueueChange {
        std::future::pending().await
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "only processes of a cluster have others"))]
pub(crate) enum QueueChange {
    Queued(String),
    Any,
}

/// State of the service across restarts, such as the secret that signs upload targets, and its initial data.
#[async_trait]
pub(crate) trait Settings: Send + Sync {
    async fn setting(&self, name: &str) -> Result<Option<String>>;
    async fn setting_or(&self, name: &str, value: &str) -> Result<String>;
    async fn set_setting(&self, name: &str, value: &str) -> Result<()>;
    /// Ensures the initial data in one transaction, so that only one of concurrent starts credits the first account.
    /// Adds the key to a new database, and again until one is known to have been shown; a revoked one stays revoked.
    async fn bootstrap(&self, begin: &Bootstrap, now: Moment) -> Result<Bootstrapped>;
    /// Records that the key of `bootstrap` was shown, so that no later start adds another.
    async fn first_key_shown(&self, id: &str) -> Result<()>;
}

pub(crate) const FIRST_ACCOUNT: &str = "first account";

/// Setting with the identifier of a first account's key that may not have been shown.
pub(crate) const UNSHOWN_KEY: &str = "unshown key";

#[async_trait]
pub(crate) trait Maintenance: Settings {
    async fn check_writer(&self) -> Result<()> {
        // An empty transaction would not touch the disk, and a read would succeed on a standby.
        self.set_setting("health check", "").await
    }
    async fn totals(&self) -> Result<Totals>;
    /// Writes a consistent copy into a new file, while reads and writes continue. Returns the blobs of its rows.
    async fn backup_to(&self, file: &Path) -> Result<Vec<String>>;
    /// Replaces everything but files by a backup, for tests; returns the blobs of the deleted files.
    async fn replace_from(&self, backup: &Path) -> Result<Vec<String>>;
    /// Closes the database gracefully; later calls fail. Reads still running at the deadline fail too.
    async fn close(&self, deadline: Instant);
    #[cfg(test)]
    fn commits(&self) -> usize {
        0
    }
}

#[async_trait]
pub(crate) trait Transfer: Send + Sync {
    /// Writes every table, as of one moment, to files in a folder.
    async fn export_tables(&self, folder: &Path) -> Result<Vec<TableFile>>;
    async fn is_empty(&self) -> Result<bool>;
    /// Imports tables and settings in one transaction; fails unless the database is empty and exports the same files.
    async fn import_tables(
        &self,
        folder: &Path,
        tables: &[TableFile],
        settings: Vec<(String, String)>,
    ) -> Result<()>;
}

pub(crate) fn not_empty() -> Error {
    Error::new("importing", "the database is not empty").with_hint("name a new database or data folder")
}

#[derive(Clone)]
pub(crate) struct Bootstrap {
    pub(crate) operator: NewAccount,
    pub(crate) first: NewAccount,
    pub(crate) balance: Money,
    pub(crate) free_balance: Money,
    pub(crate) key: StoredKey,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bootstrapped {
    pub(crate) operator: Account,
    pub(crate) is_key_new: bool,
}
