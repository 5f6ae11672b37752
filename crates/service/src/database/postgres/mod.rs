//! The database in PostgreSQL, shared by any number of processes: nothing is decided in the memory of one of them,
//! and every transaction may meet others.

mod accounts;
mod admin;
mod audit;
mod catalog;
mod changes;
mod connect;
mod consolidate;
mod failure;
mod files;
mod ledger;
mod maintenance;
mod migrations;
mod movements;
mod nodes;
mod queue;
mod sharing;
mod statements;
mod tls;
mod values;

#[cfg(all(test, feature = "test-postgres"))]
mod tests;

use std::sync::Arc;

use deadpool_postgres::Pool;
use tokio::sync::Semaphore;
use tokio_util::sync::DropGuard;

use super::cache::Caches;
use crate::database::Database;
use crate::{Error, Result};
use changes::Changes;
use failure::Outcome;
use queue::create::Creates;
use tls::Tls;

/// The database in PostgreSQL. Clones share its connections.
#[derive(Clone)]
pub(crate) struct PostgresDatabase {
    pool: Pool,
    /// Permits of reads that may look at every row of a table: half of the connections are left to others.
    scans: Arc<Semaphore>,
    caches: Arc<Caches>,
    creates: Arc<Creates>,
    changes: Arc<Changes>,
    /// Ends what sends and receives changes with the last clone.
    _stop: Arc<DropGuard>,
}

impl Database for PostgresDatabase {}

impl PostgresDatabase {
    /// Connects to the database of this URL, and brings its schema up to date.
    pub(crate) async fn open(url: &str) -> Result<Self> {
        let config = connect::config(url)?;
        let tls = Tls::new().map_err(|cause| Error::new("preparing TLS to the database", cause))?;
        let pool = connect::pool(&config, tls.clone())?;
        migrations::migrate(&pool).await?;
        let caches = Arc::<Caches>::default();
        let changes = Changes::spawn(config, tls, pool.clone(), &caches);
        let stop = Arc::new(changes.stop_guard());
        let scans = Arc::new(Semaphore::new(connect::MAX_CONNECTIONS / 2));
        Ok(Self { pool, scans, caches, creates: Arc::default(), changes, _stop: stop })
    }

    async fn connection(&self) -> Outcome<deadpool_postgres::Client> {
        Ok(self.pool.get().await?)
    }
}
