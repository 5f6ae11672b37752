//! Checks and shutdown of the database.

use std::path::Path;
use std::time::Instant;

use async_trait::async_trait;

use super::PostgresDatabase;
use super::failure::read;
use super::statements::one;
use crate::database::Maintenance;
use crate::database::records;
use crate::metrics::Totals;
use crate::{Error, Result};

#[async_trait]
impl Maintenance for PostgresDatabase {
    async fn totals(&self) -> Result<Totals> {
        let totals = "SELECT coalesce(sum(stored_bytes), 0)::bigint, coalesce(sum(held), 0)::bigint, \
             (SELECT count(*) FROM upload_targets WHERE NOT is_used AND NOT is_void) FROM purses";
        read!(self, |db| one(db, totals, &[], records::totals))
    }

    async fn backup_to(&self, _: &Path) -> Result<Vec<String>> {
        Err(left_to_postgres("writing a backup"))
    }

    async fn replace_from(&self, _: &Path) -> Result<Vec<String>> {
        Err(left_to_postgres("going back to a backup"))
    }

    async fn close(&self, _: Instant) {
        self.changes.stop();
        self.pool.close();
    }
}

fn left_to_postgres(doing: &str) -> Error {
    let cause = "the database is in PostgreSQL, which has its own tools for that";
    Error::new(doing, cause).with_hint("pg_dump, pg_basebackup or the backups of the provider of the server")
}
