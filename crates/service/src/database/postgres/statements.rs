//! Prepared statements, cached by connection: a function for each number of rows. A text in PostgreSQL cannot contain
//! NUL, which callers may send: SUBSTITUTE replaces NUL in stored and searched texts. JSON has NUL only as an escape.

use std::error::Error as StdError;

use bytes::BytesMut;
use deadpool_postgres::GenericClient;
use futures_util::TryStreamExt as _;
use rusqlite::types::ValueRef;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::failure::PostgresResult;
use crate::Error;
use crate::database::engine::EachRow;
use crate::database::records::{Read, Row, RowFrom};

pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

const SUBSTITUTE: u8 = 0x1a;

#[derive(Debug)]
struct Param<'a>(&'a (dyn ToSql + Sync));

impl ToSql for Param<'_> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        let from = out.len();
        let is_null = self.0.to_sql_checked(kind, out)?;
        if *kind == Type::TEXT {
            for byte in out.iter_mut().skip(from).filter(|byte| **byte == 0) {
                *byte = SUBSTITUTE;
            }
        }
        Ok(is_null)
    }

    /// The wrapped parameter checks the type itself.
    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

fn without_nul<'a>(params: Params<'a>) -> Vec<Param<'a>> {
    params.iter().map(|param| Param(*param)).collect()
}

async fn rows(
    db: &impl GenericClient,
    sql: &str,
    params: Params<'_>,
) -> PostgresResult<Vec<tokio_postgres::Row>> {
    let statement = db.prepare_cached(sql).await?;
    Ok(db.query_raw(&statement, without_nul(params)).await?.try_collect().await?)
}

pub(super) async fn run(db: &impl GenericClient, sql: &str, params: Params<'_>) -> PostgresResult<u64> {
    let statement = db.prepare_cached(sql).await?;
    Ok(db.execute_raw(&statement, without_nul(params)).await?)
}

pub(super) async fn first<T>(
    db: &impl GenericClient,
    sql: &str,
    params: Params<'_>,
    read: Read<T>,
) -> PostgresResult<Option<T>> {
    Ok(rows(db, sql, params).await?.first().map(|row| read(row)).transpose()?)
}

pub(super) async fn one<T>(
    db: &impl GenericClient,
    sql: &str,
    params: Params<'_>,
    read: Read<T>,
) -> PostgresResult<T> {
    let missing = || Error::new("using the database", "a statement returned no row");
    Ok(first(db, sql, params, read).await?.ok_or_else(missing)?)
}

pub(super) async fn all<T>(
    db: &impl GenericClient,
    sql: &str,
    params: Params<'_>,
    read: Read<T>,
) -> PostgresResult<Vec<T>> {
    Ok(rows(db, sql, params).await?.iter().map(|row| read(row)).collect::<Result<_, _>>()?)
}

pub(super) async fn each(
    db: &impl GenericClient,
    sql: &str,
    params: Params<'_>,
    read: EachRow<'_>,
) -> PostgresResult {
    Ok(rows(db, sql, params).await?.iter().try_for_each(|row| read(row))?)
}

/// Returns the records of a page and the total. Each row has the total before its record, if there is one.
pub(super) async fn page<T>(
    db: &impl GenericClient,
    sql: &str,
    params: Params<'_>,
    read: Read<T>,
) -> PostgresResult<(Vec<T>, u64)> {
    let mut total = 0;
    let mut records = Vec::new();
    for row in &rows(db, sql, params).await? {
        let row: &dyn Row = row;
        total = row.get(0)?;
        if row.value(1)? != ValueRef::Null {
            records.push(read(&RowFrom { first: 1, row })?);
        }
    }
    Ok((records, total))
}

pub(super) async fn is_there(db: &impl GenericClient, sql: &str, params: Params<'_>) -> PostgresResult<bool> {
    Ok(first(db, sql, params, |_| Ok(())).await?.is_some())
}
