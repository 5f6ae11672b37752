//! Prepared statements, cached by connection: one method for each expected number of rows.

use rusqlite::types::{FromSqlError, FromSqlResult, ValueRef};
use rusqlite::{Connection, OptionalExtension as _, Params, Result};

use super::SqliteDatabase;
use crate::Error;
use crate::database::records::{Read, Row};

impl Row for rusqlite::Row<'_> {
    fn value(&self, index: usize) -> FromSqlResult<ValueRef<'_>> {
        self.get_ref(index).map_err(FromSqlError::other)
    }
}

/// Runs statements that are prepared once for each connection.
pub(super) trait Statements {
    /// Runs a statement without result rows; returns the number of changed rows.
    fn run(&self, sql: &str, params: impl Params) -> Result<usize>;
    /// Returns the single row, which must exist.
    fn one<T>(&self, sql: &str, params: impl Params, read: Read<T>) -> Result<T>;
    fn first<T>(&self, sql: &str, params: impl Params, read: Read<T>) -> Result<Option<T>>;
    fn all<T>(&self, sql: &str, params: impl Params, read: Read<T>) -> Result<Vec<T>>;
    fn is_there(&self, sql: &str, params: impl Params) -> Result<bool>;
}

impl Statements for Connection {
    fn run(&self, sql: &str, params: impl Params) -> Result<usize> {
        self.prepare_cached(sql)?.execute(params)
    }

    fn one<T>(&self, sql: &str, params: impl Params, read: Read<T>) -> Result<T> {
        self.prepare_cached(sql)?.query_row(params, |row| Ok(read(row)?))
    }

    fn first<T>(&self, sql: &str, params: impl Params, read: Read<T>) -> Result<Option<T>> {
        self.one(sql, params, read).optional()
    }

    fn all<T>(&self, sql: &str, params: impl Params, read: Read<T>) -> Result<Vec<T>> {
        self.prepare_cached(sql)?.query_map(params, |row| Ok(read(row)?))?.collect()
    }

    fn is_there(&self, sql: &str, params: impl Params) -> Result<bool> {
        self.prepare_cached(sql)?.exists(params)
    }
}

/// Parameters that can be sent to another thread.
pub(super) trait Owned: Params + Send + 'static {}

impl<P: Params + Send + 'static> Owned for P {}

/// Statement that can be sent to another thread.
pub(super) trait Sql: AsRef<str> + Send + 'static {}

impl<S: AsRef<str> + Send + 'static> Sql for S {}

/// Each statement runs as a read or a write of its own.
impl SqliteDatabase {
    pub(super) async fn run(&self, sql: impl Sql, params: impl Owned) -> Result<usize, Error> {
        self.write(move |db| Ok(db.run(sql.as_ref(), params)?)).await
    }

    pub(super) async fn first<T: Send + 'static>(
        &self,
        sql: impl Sql,
        params: impl Owned,
        read: Read<T>,
    ) -> Result<Option<T>, Error> {
        self.read(move |db| Ok(db.first(sql.as_ref(), params, read)?)).await
    }

    pub(super) async fn all<T: Send + 'static>(
        &self,
        sql: impl Sql,
        params: impl Owned,
        read: Read<T>,
    ) -> Result<Vec<T>, Error> {
        self.read(move |db| Ok(db.all(sql.as_ref(), params, read)?)).await
    }
}
