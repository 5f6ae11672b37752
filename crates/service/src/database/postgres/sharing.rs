//! What several processes over one PostgreSQL need of it: its clock, one run of each job at a time, changes.

use std::time::Duration;

use async_trait::async_trait;

use super::PostgresDatabase;
use super::changes::Change;
use super::failure::{read, statement};
use super::statements::{is_there, one};
use crate::Result;
use crate::clock::Moment;
use crate::database::records::column;
use crate::database::{QueueChange, Sharing};

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
        // Each process has a timer of its own; a little less than the interval is late enough.
        let pause = i64::try_from(interval.as_millis() * 9 / 10).unwrap_or(i64::MAX / 2);
        let begin = "INSERT INTO jobs (name, began_at) VALUES ($1, $2) \
                     ON CONFLICT (name) DO UPDATE SET began_at = $2 \
                     WHERE jobs.began_at NOT BETWEEN $2 - $3::bigint + 1 AND $2 + $3::bigint RETURNING 1";
        statement!(self, |db| is_there(db, begin, &[&name, &now, &pause]))
    }

    async fn consolidate(&self) -> Result<()> {
        self.add_up().await
    }

    fn announce_queued(&self, model: &str) {
        self.changes.announce(Change::Queued(model.to_owned()));
    }

    async fn queue_changed(&self) -> QueueChange {
        self.changes.next().await
    }
}
