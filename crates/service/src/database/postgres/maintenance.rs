//! Settings, bootstrap, checks and shutdown of the database.

use std::path::Path;
use std::time::Instant;

use async_trait::async_trait;
use deadpool_postgres::{GenericClient, Transaction};

use super::PostgresDatabase;
use super::accounts::{add_account, add_key};
use super::failure::{Outcome, read, statement, transaction};
use super::ledger::adjust;
use super::statements::{first, is_there, one, run};
use crate::clock::Moment;
use crate::database::records::{self, column};
use crate::database::shared_sql::{MAY_ADD_KEY, SET_SETTING};
use crate::database::{Bootstrap, Bootstrapped, FIRST_ACCOUNT, Maintenance, Settings, UNSHOWN_KEY};
use crate::ledger::Credit;
use crate::metrics::Totals;
use crate::{Error, Result};

#[async_trait]
impl Settings for PostgresDatabase {
    async fn setting(&self, name: &str) -> Result<Option<String>> {
        read!(self, |db| setting(db, name))
    }

    async fn setting_or(&self, name: &str, value: &str) -> Result<String> {
        // Two statements, so that the second one sees a concurrent write of another process.
        let insert = "INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        statement!(self, |db| run(db, insert, &[&name, &value]))?;
        Ok(self.setting(name).await?.unwrap_or_else(|| value.to_owned()))
    }

    async fn set_setting(&self, name: &str, value: &str) -> Result<()> {
        statement!(self, |db| run(db, SET_SETTING, &[&name, &value])).map(|_| ())
    }
}

#[async_trait]
impl Maintenance for PostgresDatabase {
    async fn bootstrap(&self, begin: &Bootstrap, now: Moment) -> Result<Bootstrapped> {
        transaction!(self, |tx| bootstrap(tx, begin, now))
    }

    async fn first_key_shown(&self, id: &str) -> Result<()> {
        let delete = "DELETE FROM settings WHERE name = $1 AND value = $2";
        statement!(self, |db| run(db, delete, &[&UNSHOWN_KEY, &id])).map(|_| ())
    }

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

async fn setting(db: &impl GenericClient, name: &str) -> Outcome<Option<String>> {
    first(db, "SELECT value FROM settings WHERE name = $1", &[&name], column).await
}

async fn bootstrap(tx: &Transaction<'_>, begin: &Bootstrap, now: Moment) -> Outcome<Bootstrapped> {
    // The locks serialize starts, and prevent the revocation of a key between its check and its insertion.
    tx.batch_execute("LOCK TABLE settings, api_keys IN SHARE ROW EXCLUSIVE MODE").await?;
    let operator = add_account(tx, &begin.operator, now).await?;
    let earlier = setting(tx, FIRST_ACCOUNT).await?;
    let is_key_new = earlier.is_none() || is_there(tx, MAY_ADD_KEY, &[&UNSHOWN_KEY, &begin.key.id]).await?;
    let username = earlier.as_ref().unwrap_or(&begin.first.username);
    if earlier.is_none() {
        let first = add_account(tx, &begin.first, now).await?.id;
        adjust(tx, first, &Credit::Paid(begin.balance).into(), now).await?;
        adjust(tx, first, &Credit::Free(begin.free_balance).into(), now).await?;
        let insert = "INSERT INTO settings (name, value) VALUES ($1, $2)";
        run(tx, insert, &[&FIRST_ACCOUNT, username]).await?;
    }
    if is_key_new {
        let owner = one(tx, "SELECT id FROM accounts WHERE username = $1", &[username], column).await?;
        add_key(tx, owner, &begin.key, now).await?;
        run(tx, SET_SETTING, &[&UNSHOWN_KEY, &begin.key.id]).await?;
    }
    Ok(Bootstrapped { operator, is_key_new })
}
