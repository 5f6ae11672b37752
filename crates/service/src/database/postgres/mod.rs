//! PostgreSQL engine, shared by any number of processes: no decision depends on the memory of a process, and every
//! transaction may conflict with others.

mod audit;
mod catalog;
mod changes;
mod connect;
mod consolidate;
mod dialect;
mod failure;
mod files;
mod ledger;
mod maintenance;
mod migrations;
mod movements;
mod nodes;
mod primary;
mod purse_queues;
mod queue;
mod session;
mod sharing;
mod statements;
mod tls;
mod transfer;
mod values;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Instant;

use deadpool_postgres::Pool;
use tokio::sync::Semaphore;
use tokio_util::sync::DropGuard;

use super::cache::Caches;
use crate::database::Database;
use crate::metrics::DatabaseMetrics;
use crate::{Error, Result};
use changes::Changes;
#[cfg(test)]
pub(crate) use connect::MAX_CONNECTIONS;
use failure::PostgresResult;
use primary::Primary;
use purse_queues::PurseQueues;
use queue::create::Creates;
use tls::Tls;

#[derive(Clone)]
pub(crate) struct PostgresDatabase {
    pool: Pool,
    /// Permits of reads that may scan a whole table: half of the connections stay free for others.
    scans: Arc<Semaphore>,
    caches: Arc<Caches>,
    creates: Arc<Creates>,
    purse_queues: Arc<PurseQueues>,
    changes: Arc<Changes>,
    metrics: DatabaseMetrics,
    /// Stops the tasks of `changes` when the last clone is dropped.
    _stop: Arc<DropGuard>,
}

impl Database for PostgresDatabase {}

impl PostgresDatabase {
    pub(crate) async fn open(url: &str) -> Result<Self> {
        let servers = connect::servers(url)?;
        let tls = Tls::new().map_err(|cause| Error::new("preparing TLS to the database", cause))?;
        let primary = Primary::new(servers, tls);
        let pool = connect::pool(primary.clone())?;
        let caches = Arc::<Caches>::default();
        let changes = Changes::spawn(primary, pool.clone(), &caches);
        let stop = Arc::new(changes.stop_guard());
        // The probe of the primary must run by now: with several servers, connections without probes would soon stall.
        migrations::migrate(&pool, migrations::SCHEMA).await?;
        let scans = Arc::new(Semaphore::new(connect::MAX_CONNECTIONS / 2));
        Ok(Self {
            pool,
            scans,
            caches,
            creates: Arc::default(),
            purse_queues: Arc::default(),
            changes,
            metrics: DatabaseMetrics::new(),
            _stop: stop,
        })
    }

    async fn connection(&self) -> PostgresResult<deadpool_postgres::Client> {
        let begun = Instant::now();
        let connection = self.pool.get().await;
        self.metrics.connection_waits.observe(begun.elapsed().as_secs_f64());
        Ok(connection?)
    }
}
