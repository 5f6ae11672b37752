//! Engine interface: sessions, and ways of running work on them. Operations that all engines share are asynchronous
//! functions over a session. SQLite runs such a function on its own thread, where the function never waits.

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use rusqlite::ToSql;
use rusqlite::types::{FromSql as _, FromSqlResult, ToSqlOutput, Value, ValueRef};
use tokio::sync::OwnedMutexGuard;

use super::cache::{CachedRows, Caches};
use super::dialect::Dialect;
use super::records::{Read, Row};
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::ledger::{Movement, Origin, Purses};
use crate::queue::Queue;
use crate::{Error, Result};

pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

macro_rules! params {
    ($($value:expr),* $(,)?) => { &[$(&$value as &(dyn rusqlite::ToSql + Sync)),*] };
}

pub(super) use params;

pub(super) type EachRow<'a> = &'a mut (dyn FnMut(&dyn Row) -> FromSqlResult<()> + Send);

/// Connection of an engine, inside or outside of a transaction. Statements are prepared once for each connection.
#[async_trait]
pub(super) trait Session: Sync {
    fn dialect(&self) -> &'static Dialect;
    async fn run(&self, sql: &str, params: Params<'_>) -> Result<u64>;
    async fn change_one(&self, sql: &str, params: Params<'_>) -> Result<()> {
        let changed = self.run(sql, params).await?;
        debug_assert_eq!(changed, 1, "a statement must change exactly one row: {sql}");
        Ok(())
    }
    async fn each(&self, sql: &str, params: Params<'_>, read: EachRow<'_>) -> Result<()>;
    /// Locks tables against other writers until the end of the transaction, unless all transactions take turns.
    async fn lock_tables(&self, _names: &str) -> Result<()> {
        Ok(())
    }
    async fn lock_purses(&self, _accounts: &[AccountId]) -> Result<()> {
        Ok(())
    }
    async fn purses(&self, account: AccountId) -> Result<Purses>;
    /// Returns the purses of an account, of which every amount can be moved in this transaction.
    async fn spendable_purses(&self, account: AccountId) -> Result<Purses> {
        self.purses(account).await
    }
    async fn move_all(&self, movements: &[Movement], origin: Origin<&str>, now: Moment) -> Result<()>;
}

#[async_trait]
pub(super) trait Rows: Sync {
    async fn all<T: Send + 'static>(&self, sql: &str, params: Params<'_>, read: Read<T>) -> Result<Vec<T>>;

    async fn first<T: Send + 'static>(
        &self,
        sql: &str,
        params: Params<'_>,
        read: Read<T>,
    ) -> Result<Option<T>> {
        Ok(self.all(sql, params, read).await?.into_iter().next())
    }

    async fn one<T: Send + 'static>(&self, sql: &str, params: Params<'_>, read: Read<T>) -> Result<T> {
        let missing = || Error::new("using the database", "a statement returned no row");
        self.first(sql, params, read).await?.ok_or_else(missing)
    }

    async fn is_there(&self, sql: &str, params: Params<'_>) -> Result<bool> {
        Ok(self.first(sql, params, |_| Ok(())).await?.is_some())
    }
}

#[async_trait]
impl Rows for dyn Session + '_ {
    async fn all<T: Send + 'static>(&self, sql: &str, params: Params<'_>, read: Read<T>) -> Result<Vec<T>> {
        let mut records = Vec::new();
        let mut each = |row: &dyn Row| read(row).map(|record| records.push(record));
        self.each(sql, params, &mut each).await?;
        Ok(records)
    }
}

#[async_trait]
impl<E: Engine> Rows for E {
    async fn all<T: Send + 'static>(&self, sql: &str, params: Params<'_>, read: Read<T>) -> Result<Vec<T>> {
        self.all_as(How::Read, sql, params, read).await
    }
}

/// Work on a session with arguments, which an engine may repeat.
pub(super) type Work<A, T> = for<'a> fn(&'a dyn Session, &'a A) -> BoxFuture<'a, Result<T>>;

/// Runs work on a session with copies of the arguments: `work!(self, How::Transaction, |db, id, now| …)`.
macro_rules! work {
    ($engine:expr, $how:expr, |$db:ident, $($arg:ident),*| $work:expr) => {
        $engine.perform($how, ($($arg.to_owned(),)*), |$db, ($($arg,)*)| Box::pin(async move { $work })).await
    };
}

pub(super) use work;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Read,
    /// Write of one statement, which may run twice without a further effect.
    Idempotent,
    Statement,
    Transaction,
    /// Transaction after which cached rows are read again, here and in other processes.
    Change(CachedRows),
}

/// Turn of a process's work to wait for the purses of an account; None in an engine whose purses need no lock.
pub(super) type Turn = Option<OwnedMutexGuard<()>>;

/// Database of an engine. The traits of the service are implemented for each engine at once, but for the queue.
#[async_trait]
pub(super) trait Engine: Queue + Clone + 'static {
    const DIALECT: &'static Dialect;

    fn caches(&self) -> &Caches;

    async fn perform<A: Send + Sync + 'static, T: Send + 'static>(
        &self,
        how: How,
        args: A,
        work: Work<A, T>,
    ) -> Result<T>;

    async fn run(&self, sql: &str, params: Params<'_>) -> Result<u64> {
        self.run_as(How::Statement, sql, params).await
    }

    async fn run_as(&self, how: How, sql: &str, params: Params<'_>) -> Result<u64> {
        let statement = Statement::new(sql, params)?;
        let run: Work<Statement, u64> =
            |db, run| Box::pin(async move { db.run(&run.sql, &run.params()).await });
        self.perform(how, statement, run).await
    }

    async fn all_as<T: Send + 'static>(
        &self,
        how: How,
        sql: &str,
        params: Params<'_>,
        read: Read<T>,
    ) -> Result<Vec<T>> {
        let statement = Statement::new(sql, params)?;
        let all: Work<(Statement, Read<T>), Vec<T>> =
            |db, (all, read)| Box::pin(async move { db.all(&all.sql, &all.params(), *read).await });
        self.perform(how, (statement, read), all).await
    }

    /// Waits until no other work of this process waits for the purses of an account.
    async fn enter(&self, _account: AccountId) -> Result<Turn> {
        Ok(None)
    }

    async fn enter_of_target(&self, _id: &str) -> Result<Turn> {
        Ok(None)
    }
}

pub(super) struct Statement {
    sql: String,
    values: Vec<Value>,
}

impl Statement {
    fn new(sql: &str, params: Params<'_>) -> Result<Self> {
        let values = params.iter().map(|param| Ok(Value::column_result(value(&param.to_sql()?)?)?));
        let values: rusqlite::Result<_> = values.collect();
        let values = values.map_err(|cause| Error::new("using the database", cause))?;
        Ok(Self { sql: sql.to_owned(), values })
    }

    fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.values.iter().map(|value| value as _).collect()
    }
}

pub(super) fn value<'a>(output: &'a ToSqlOutput<'_>) -> rusqlite::Result<ValueRef<'a>> {
    match output {
        ToSqlOutput::Borrowed(value) => Ok(*value),
        ToSqlOutput::Owned(value) => Ok(value.into()),
        _ => Err(rusqlite::Error::ToSqlConversionFailure("a parameter has no value".into())),
    }
}
