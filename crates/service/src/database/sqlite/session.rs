//! Sessions of SQLite: shared work runs on a connection, on the thread of the connection, and never waits.

use async_trait::async_trait;
use futures_util::FutureExt as _;
use parking_lot::{Mutex, MutexGuard};
use rusqlite::Connection;

use super::SqliteDatabase;
use super::dialect::SQLITE;
use super::movements::{move_money, purses};
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::database::cache::Caches;
use crate::database::dialect::Dialect;
use crate::database::engine::{self, EachRow, Engine, How, Params, Work};
use crate::ledger::{Movement, Origin, Purses};
use crate::{Error, Result};

/// Connection that futures may hold. Only one thread uses it at a time, so that the lock is free.
pub(super) struct Session(Mutex<Connection>);

impl Session {
    pub(super) const fn new(connection: Connection) -> Self {
        Self(Mutex::new(connection))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Connection> {
        self.0.lock()
    }
}

/// Prepares a statement and passes it on with its parameters. SQLite numbers `$1` by its first occurrence, like a name.
fn prepared<T>(
    db: &Connection,
    sql: &str,
    params: Params<'_>,
    run: impl FnOnce(&mut rusqlite::Statement<'_>) -> rusqlite::Result<T>,
) -> Result<T> {
    let mut statement = db.prepare_cached(sql)?;
    for index in 1..=statement.parameter_count() {
        let name = statement.parameter_name(index).and_then(|name| name.get(1..)?.parse().ok());
        let number: usize = name.unwrap_or(index);
        let param = params
            .get(number.wrapping_sub(1))
            .ok_or(rusqlite::Error::InvalidParameterCount(params.len(), number))?;
        statement.raw_bind_parameter(index, param)?;
    }
    Ok(run(&mut statement)?)
}

#[async_trait]
impl engine::Session for Session {
    fn dialect(&self) -> &'static Dialect {
        &SQLITE
    }

    async fn run(&self, sql: &str, params: Params<'_>) -> Result<u64> {
        let changed = prepared(&self.lock(), sql, params, |statement| statement.raw_execute())?;
        Ok(changed as u64)
    }

    async fn each(&self, sql: &str, params: Params<'_>, read: EachRow<'_>) -> Result<()> {
        prepared(&self.lock(), sql, params, |statement| {
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next()? {
                read(row)?;
            }
            Ok(())
        })
    }

    async fn purses(&self, account: AccountId) -> Result<Purses> {
        purses(&self.lock(), account)
    }

    async fn move_all(&self, movements: &[Movement], origin: Origin<&str>, now: Moment) -> Result<()> {
        let db = self.lock();
        movements.iter().try_for_each(|movement| move_money(&db, *movement, origin, now))
    }
}

#[async_trait]
impl Engine for SqliteDatabase {
    const DIALECT: &'static Dialect = &SQLITE;

    fn caches(&self) -> &Caches {
        &self.caches
    }

    async fn perform<A: Send + Sync + 'static, T: Send + 'static>(
        &self,
        how: How,
        args: A,
        work: Work<A, T>,
    ) -> Result<T> {
        let waited = || Err(Error::new("using the database", "work in SQLite waited for something else"));
        let run = move |session: &Session| work(session, &args).now_or_never().unwrap_or_else(waited);
        match how {
            How::Read => self.read_in_session(run).await,
            How::Idempotent | How::Statement | How::Transaction => self.write_in_session(run).await,
            How::Change(rows) => {
                // The guard is dropped after the commit, even if the caller was dropped.
                let guard = self.caches.invalidate(rows);
                let written = self.write_in_session(move |session| Ok((run(session)?, guard)));
                Ok(written.await?.0)
            }
        }
    }
}
