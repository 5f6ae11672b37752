//! Coordination of several processes over one PostgreSQL: a shared clock, one run of each job at a time, notifications.

use std::time::Duration;

use async_trait::async_trait;

use super::PostgresDatabase;
use super::changes::Change;
use super::failure::{read, statement};
use super::statements::{is_there, one, run};
use crate::Result;
use crate::clock::Moment;
use crate::database::records::{column, pair};
use crate::database::{JOB_LEASE, QueueChange, Sharing};
use crate::metrics::{ConnectionLoad, DatabaseMetrics};

#[async_trait]
impl Sharing for PostgresDatabase {
    fn is_shared(&self) -> bool {
        true
    }

    async fn time(&self) -> Result<Option<Moment>> {
        let now = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
        read!(self, |db| one(db, now, &[], column)).map(Some)
    }

    async fn begin_job(&self, name: &str, interval: Duration, now: Moment) -> Result<bool> {
        // Timers of processes differ; nine tenths of the interval are enough.
        let pause = i64::try_from(interval.as_millis() * 9 / 10).unwrap_or(i64::MAX / 2);
        let begin = "INSERT INTO jobs (name, began_at, holder, held_until) VALUES ($1, $2, $4, $5) \
                     ON CONFLICT (name) DO UPDATE SET began_at = $2, holder = $4, held_until = $5 \
                     WHERE jobs.began_at NOT BETWEEN $2 - $3::bigint + 1 AND $2 + $3::bigint \
                       AND (jobs.holder = $4 OR jobs.held_until NOT BETWEEN $2 AND $5) RETURNING 1";
        let until = now.after(JOB_LEASE);
        statement!(self, |db| is_there(db, begin, &[&name, &now, &pause, &self.changes.origin, &until]))
    }

    async fn hold_job(&self, name: &str, now: Moment) -> Result<()> {
        let hold = "UPDATE jobs SET held_until = $3 WHERE name = $1 AND holder = $2";
        statement!(self, |db| run(db, hold, &[&name, &self.changes.origin, &now.after(JOB_LEASE)]))
            .map(|_| ())
    }

    async fn end_job(&self, name: &str) -> Result<()> {
        let end = "UPDATE jobs SET held_until = 0 WHERE name = $1 AND holder = $2";
        statement!(self, |db| run(db, end, &[&name, &self.changes.origin])).map(|_| ())
    }

    async fn consolidate(&self) -> Result<()> {
        self.add_up().await
    }

    fn metrics(&self) -> Option<&DatabaseMetrics> {
        Some(&self.metrics)
    }

    async fn measure(&self) -> Result<()> {
        let status = self.pool.status();
        self.metrics.set_connections(&ConnectionLoad {
            busy: status.size.saturating_sub(status.available),
            idle: status.available,
            waiting: status.waiting,
        });
        let locks = "SELECT count(*), coalesce(extract(epoch FROM max(clock_timestamp() - query_start)) * 1000, 0)::bigint \
             FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let (waiting, longest): (u64, i64) = read!(self, |db| one(db, locks, &[], pair))?;
        self.metrics.set_locks(waiting, Duration::from_millis(longest.try_into().unwrap_or_default()));
        Ok(())
    }

    fn announce_queued(&self, model: &str) {
        self.changes.announce(Change::Queued(model.to_owned()));
    }

    async fn queue_changed(&self) -> QueueChange {
        self.changes.next().await
    }
}
