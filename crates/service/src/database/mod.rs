//! The seam between the service and its database: traits, each written down by the part of the service that
//! needs it. An engine is a folder here that implements them all and passes `conformance`; what is the same in each
//! (records, lists, audits, refunds) is written once beside them.

mod audits;
mod cache;
#[cfg(test)]
pub(crate) mod conformance;
mod lists;
#[cfg(feature = "postgres")]
mod postgres;
mod records;
mod refund;
mod shared_sql;
mod sqlite;
mod values;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;

use crate::Result;
use crate::accounts::{Account, Accounts, KeptKey, NewAccount};
use crate::admin::AdminDatabase;
use crate::catalog::Catalog;
use crate::clock::Moment;
use crate::ledger::{Ledger, Money};
use crate::nodes::Registry;
use crate::object_storage::Files;
use crate::operations::metrics::DatabaseMetrics;
use crate::operations::totals::Totals;
use crate::queue::Queue;

/// Everything that the service keeps, in any engine.
pub(crate) trait Database:
    Accounts + AdminDatabase + Catalog + Files + Ledger + Maintenance + Queue + Registry + Settings + Sharing
{
}

/// Whether an acknowledged write survives the loss of power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Every write is synced to the disk before it is acknowledged.
    Full,
    /// Nothing is synced: the data go with the process anyway.
    None,
}

/// The file of the embedded database, in the data folder.
pub(crate) const FILE: &str = "inferstore.db";

/// Opens the database of a data folder, creates it if it is missing, and brings its schema up to date.
pub(crate) async fn open(folder: &Path, durability: Durability) -> Result<Arc<dyn Database>> {
    Ok(Arc::new(sqlite::SqliteDatabase::open(&folder.join(FILE), durability).await?))
}

#[cfg(all(test, feature = "postgres"))]
pub(crate) use postgres::MAX_CONNECTIONS;

/// Connects to a database that others keep, and brings its schema up to date.
#[cfg(feature = "postgres")]
pub(crate) async fn connect(url: &str) -> Result<Arc<dyn Database>> {
    Ok(Arc::new(postgres::PostgresDatabase::open(url).await?))
}

/// Without the feature `postgres`, there is no engine that others keep.
#[cfg(not(feature = "postgres"))]
pub(crate) async fn connect(_: &str) -> Result<Arc<dyn Database>> {
    let cause = "this program was built without PostgreSQL";
    Err(crate::Error::new("opening the database", cause).with_hint("build it with `--features postgres`"))
}

/// The time for which a process that says nothing more keeps others from a job that it has begun.
pub(crate) const JOB_LEASE: Duration = Duration::from_secs(30);

/// What several processes over one database need of it. The engine of one process needs nothing.
#[async_trait]
pub(crate) trait Sharing: Send + Sync {
    /// Whether other processes may use the database at the same time.
    fn is_shared(&self) -> bool {
        false
    }
    /// The time by the clock that all processes share; None when that is the system's.
    async fn time(&self) -> Result<Option<Moment>> {
        Ok(None)
    }
    /// Begins a run of a job in this process; false when one began in any process less than an interval ago, or goes on in
    /// another one, which holds it.
    async fn begin_job(&self, _name: &str, _interval: Duration, _now: Moment) -> Result<bool> {
        Ok(true)
    }
    /// Holds a job that this process has begun for `JOB_LEASE` from now on, as its beginning does.
    async fn hold_job(&self, _name: &str, _now: Moment) -> Result<()> {
        Ok(())
    }
    /// Lets other processes begin the next run of a job.
    async fn end_job(&self, _name: &str) -> Result<()> {
        Ok(())
    }
    /// Adds up what writes have left to be added up, so that they share no row.
    async fn consolidate(&self) -> Result<()> {
        Ok(())
    }
    /// The metrics of a database on a server.
    fn metrics(&self) -> Option<&DatabaseMetrics> {
        None
    }
    /// Brings the gauges of these metrics up to date.
    async fn measure(&self) -> Result<()> {
        Ok(())
    }
    /// Lets other processes know that a task of the model was queued: a hint, which may be lost.
    fn announce_queued(&self, _model: &str) {}
    /// Waits for such a hint of another process.
    async fn queue_changed(&self) -> QueueChange {
        std::future::pending().await
    }
}

/// What another process has done to the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "only processes of a cluster have others"))]
pub(crate) enum QueueChange {
    /// A task of this model was queued.
    Queued(String),
    /// Anything: hints were lost.
    Any,
}

/// What the service must know again after a restart, such as the secret that signs upload targets.
#[async_trait]
pub(crate) trait Settings: Send + Sync {
    /// The value of a setting, if there is one.
    async fn setting(&self, name: &str) -> Result<Option<String>>;
    /// The value of a setting; the given one is kept and returned when there is none yet.
    async fn setting_or(&self, name: &str, value: &str) -> Result<String>;
    /// Sets a setting, whatever it was.
    async fn set_setting(&self, name: &str, value: &str) -> Result<()>;
}

/// The setting that names the first account, once it was made.
pub(crate) const FIRST_ACCOUNT: &str = "first account";

/// The setting that names a key of the first account which may not have been shown.
pub(crate) const UNSHOWN_KEY: &str = "unshown key";

/// Beginning, checking, copying and closing a database.
#[async_trait]
pub(crate) trait Maintenance: Settings {
    /// Makes sure of everything that a service begins with, in one transaction: of several starts at once,
    /// one credits the first account. The key is added when the database is fresh, and as long as no key of
    /// an earlier start is known to have been shown. A key that was revoked was known, and stays revoked.
    async fn bootstrap(&self, begin: &Bootstrap, now: Moment) -> Result<Bootstrapped>;
    /// Notes that the key which `bootstrap` added was shown, so that no later start adds another.
    async fn first_key_shown(&self, id: &str) -> Result<()>;
    /// Fails when writes are not committed.
    async fn check_writer(&self) -> Result<()> {
        // An empty transaction would not touch the disk, and a read would succeed on a standby.
        self.set_setting("health check", "").await
    }
    /// Sums stored bytes, held money and unused upload targets over all accounts.
    async fn totals(&self) -> Result<Totals>;
    /// Writes a copy, as of one moment, into a file that must not exist yet. Reads and writes go on. Returns the blobs
    /// that it names.
    async fn backup_to(&self, file: &Path) -> Result<Vec<String>>;
    /// Replaces everything but files by the contents of a backup, for testers. Tasks that were computing can be
    /// claimed. Returns the blobs of the files that were there.
    async fn replace_from(&self, backup: &Path) -> Result<Vec<String>>;
    /// Closes the database in order; later calls fail. So do reads that still run at the deadline.
    async fn close(&self, deadline: Instant);
    /// How many transactions were committed, where the engine counts them.
    #[cfg(test)]
    fn commits(&self) -> usize {
        0
    }
}

/// What a service begins with.
#[derive(Clone)]
pub(crate) struct Bootstrap {
    /// Publishes the official models, and is paid for storage.
    pub(crate) operator: NewAccount,
    /// The first customer, and what it begins with.
    pub(crate) first: NewAccount,
    pub(crate) balance: Money,
    pub(crate) free_balance: Money,
    pub(crate) key: KeptKey,
}

/// What `bootstrap` found or made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bootstrapped {
    pub(crate) operator: Account,
    /// Whether the key was added.
    pub(crate) is_key_new: bool,
}
