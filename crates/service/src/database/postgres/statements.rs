//! Prepared statements, kept by their connection: one function for each number of rows.

use deadpool_postgres::GenericClient;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSqlOwned, ToSql};

use super::failure::Outcome;

pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];
/// Reads a value from a row.
pub(super) type Read<T> = fn(&Row) -> Result<T, tokio_postgres::Error>;

/// Runs a statement that returns no rows; returns how many it changed.
pub(super) async fn run(db: &impl GenericClient, sql: &str, params: Params<'_>) -> Outcome<u64> {
    let statement = db.prepare_cached(sql).await?;
    Ok(db.execute(&statement, params).await?)
}

/// Returns the first row, if there is one.
pub(super) async fn first<T>(
    db: &impl GenericClient,
    sql: &str,
    params: Params<'_>,
    read: Read<T>,
) -> Outcome<Option<T>> {
    let statement = db.prepare_cached(sql).await?;
    let rows = db.query(&statement, params).await?;
    Ok(rows.first().map(read).transpose()?)
}

/// Returns the one row that there must be.
pub(super) async fn one<T>(
    db: &impl GenericClient,
    sql: &str,
    params: Params<'_>,
    read: Read<T>,
) -> Outcome<T> {
    let statement = db.prepare_cached(sql).await?;
    Ok(read(&db.query_one(&statement, params).await?)?)
}

/// Returns all rows.
pub(super) async fn all<T>(
    db: &impl GenericClient,
    sql: &str,
    params: Params<'_>,
    read: Read<T>,
) -> Outcome<Vec<T>> {
    let statement = db.prepare_cached(sql).await?;
    let rows = db.query(&statement, params).await?;
    Ok(rows.iter().map(read).collect::<Result<_, _>>()?)
}

/// Whether there is a row.
pub(super) async fn is_there(db: &impl GenericClient, sql: &str, params: Params<'_>) -> Outcome<bool> {
    Ok(first(db, sql, params, |_| Ok(())).await?.is_some())
}

/// Reads the first column.
pub(super) fn column<T: FromSqlOwned>(row: &Row) -> Result<T, tokio_postgres::Error> {
    row.try_get(0)
}
