//! Sessions of PostgreSQL: shared work runs on a client, or in a transaction, and is repeated like other work.

use std::error::Error as StdError;
use std::fmt;

use async_trait::async_trait;
use bytes::BytesMut;
use deadpool_postgres::GenericClient;
use rusqlite::types::ValueRef;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::PostgresDatabase;
use super::changes::Change;
use super::dialect::POSTGRES;
use super::failure::{Failure, PostgresResult, read, statement, transaction};
use super::movements::{add_changes, lock, move_all, purses};
use super::statements::{each, run};
use crate::Result;
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::database::cache::Caches;
use crate::database::dialect::Dialect;
use crate::database::engine::{self, EachRow, Engine, How, Params, Turn, Work, value};
use crate::files::Files as _;
use crate::ledger::{Movement, Origin, Purses};

struct Converted<'a>(&'a (dyn rusqlite::ToSql + Sync));

impl fmt::Debug for Converted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a parameter")
    }
}

impl ToSql for Converted<'_> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        let output = rusqlite::ToSql::to_sql(self.0)?;
        match (value(&output)?, kind) {
            (ValueRef::Null, _) => Ok(IsNull::Yes),
            (ValueRef::Integer(number), &Type::BOOL) => (number != 0).to_sql(kind, out),
            (ValueRef::Integer(number), &Type::INT8) => number.to_sql(kind, out),
            (ValueRef::Text(json), &Type::TEXT_ARRAY) => {
                serde_json::from_slice::<Vec<String>>(json)?.to_sql(kind, out)
            }
            (ValueRef::Text(text), &Type::TEXT) => str::from_utf8(text)?.to_sql(kind, out),
            (ValueRef::Blob(bytes), &Type::BYTEA) => bytes.to_sql(kind, out),
            (value, _) => Err(format!("{:?} is no value of the type {kind}", value.data_type()).into()),
        }
    }

    /// Conversion checks the type.
    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

struct Session<'a, C>(&'a C);

fn converted<'a>(params: Params<'a>) -> Vec<Converted<'a>> {
    params.iter().map(|param| Converted(*param)).collect()
}

fn dynamic<'a>(params: &'a [Converted<'a>]) -> Vec<&'a (dyn ToSql + Sync)> {
    params.iter().map(|param| param as _).collect()
}

#[async_trait]
impl<C: GenericClient> engine::Session for Session<'_, C> {
    fn dialect(&self) -> &'static Dialect {
        &POSTGRES
    }

    async fn run(&self, sql: &str, params: Params<'_>) -> Result<u64> {
        run(self.0, sql, &dynamic(&converted(params))).await.map_err(Failure::carried)
    }

    async fn each(&self, sql: &str, params: Params<'_>, read: EachRow<'_>) -> Result<()> {
        each(self.0, sql, &dynamic(&converted(params)), read).await.map_err(Failure::carried)
    }

    async fn lock_tables(&self, names: &str) -> Result<()> {
        let lock = format!("LOCK TABLE {names} IN SHARE ROW EXCLUSIVE MODE");
        self.0.batch_execute(&lock).await.map_err(|cause| Failure::from(cause).carried())
    }

    async fn lock_purses(&self, accounts: &[AccountId]) -> Result<()> {
        lock(self.0, accounts).await.map_err(Failure::carried)
    }

    async fn purses(&self, account: AccountId) -> Result<Purses> {
        purses(self.0, account).await.map_err(Failure::carried)
    }

    async fn spendable_purses(&self, account: AccountId) -> Result<Purses> {
        add_changes(self.0, account).await.map_err(Failure::carried)
    }

    async fn move_all(&self, movements: &[Movement], origin: Origin<&str>, now: Moment) -> Result<()> {
        move_all(self.0, movements, origin, now).await.map_err(Failure::carried)
    }
}

async fn run_on<A: Sync, T>(db: &impl GenericClient, args: &A, work: Work<A, T>) -> PostgresResult<T> {
    Ok(work(&Session(db), args).await?)
}

#[async_trait]
impl Engine for PostgresDatabase {
    const DIALECT: &'static Dialect = &POSTGRES;

    fn caches(&self) -> &Caches {
        &self.caches
    }

    async fn perform<A: Send + Sync + 'static, T: Send + 'static>(
        &self,
        how: How,
        args: A,
        work: Work<A, T>,
    ) -> Result<T> {
        match how {
            How::Read | How::Idempotent => read!(self, |db| run_on(db, &args, work)),
            How::Statement => statement!(self, |db| run_on(db, &args, work)),
            How::Transaction => transaction!(self, |tx| run_on(tx, &args, work)),
            How::Change(rows) => {
                self.write_and_announce(Change::Rows(rows), async move |database| {
                    transaction!(database, |tx| run_on(tx, &args, work))
                })
                .await
            }
        }
    }

    async fn enter(&self, account: AccountId) -> Result<Turn> {
        Ok(Some(self.purse_queues.enter(account).await?))
    }

    async fn enter_of_target(&self, id: &str) -> Result<Turn> {
        match self.target(id).await? {
            Some(target) => self.enter(target.payer).await,
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(param: &(dyn rusqlite::ToSql + Sync), kind: &Type) -> Result<(bool, Vec<u8>), String> {
        let mut out = BytesMut::new();
        let sent = Converted(param).to_sql(kind, &mut out).map_err(|cause| cause.to_string())?;
        Ok((matches!(sent, IsNull::Yes), out.to_vec()))
    }

    #[test]
    fn a_parameter_is_sent_as_the_type_of_its_column_or_refused() {
        assert_eq!(sent(&true, &Type::BOOL), Ok((false, vec![1])));
        assert_eq!(sent(&2_i64, &Type::INT8), Ok((false, vec![0, 0, 0, 0, 0, 0, 0, 2])));
        assert_eq!(sent(&"text", &Type::TEXT), Ok((false, b"text".to_vec())));
        assert_eq!(sent(&None::<String>, &Type::TEXT), Ok((true, Vec::new())));
        assert!(sent(&"[\"a\"]", &Type::TEXT_ARRAY).is_ok_and(|(_, bytes)| bytes.ends_with(b"\0\0\0\x01a")));
        assert_eq!(sent(&"text", &Type::INT8), Err("Text is no value of the type int8".to_owned()));
    }
}
