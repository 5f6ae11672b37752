//! Prepared statements, kept by their connection: one method for each number of rows, and the same for a
//! statement that is a read or a write of its own.

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
    /// Runs a statement that returns no rows; returns how many it changed.
    fn run(&self, sql: &str, params: impl Params) -> Result<usize>;
    /// Returns the one row that there must be.
    fn one<T>(&self, sql: &str, params: impl Params, read: Read<T>) -> Result<T>;
    /// Returns the first row, if there is one.
    fn first<T>(&self, sql: &str, params: impl Params, read: Read<T>) -> Result<Option<T>>;
    /// Returns all rows.
    fn all<T>(&self, sql: &str, params: impl Params, read: Read<T>) -> Result<Vec<T>>;
    /// Whether there is a row.
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

/// Parameters that are sent to another thread.
pub(super) trait Owned: Params + Send + 'static {}

impl<P: Params + Send + 'static> Owned for P {}

/// A statement that is sent to another thread.
pub(super) trait Sql: AsRef<str> + Send + 'static {}

impl<S: AsRef<str> + Send + 'static> Sql for S {}

/// One statement as a read or a write of its own.
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
