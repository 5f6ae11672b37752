//! Prepared statements, kept by their connection: one method for each number of rows, and the same for a
//! statement that is a read or a write of its own.

use rusqlite::{Connection, OptionalExtension as _, Params, Result, Row};

use super::SqliteDatabase;
use crate::Error;

/// Runs statements that are prepared once for each connection.
pub(super) trait Statements {
    /// Runs a statement that returns no rows; returns how many it changed.
    fn run(&self, sql: &str, params: impl Params) -> Result<usize>;
    /// Returns the one row that there must be.
    fn one<T>(&self, sql: &str, params: impl Params, read: fn(&Row<'_>) -> Result<T>) -> Result<T>;
    /// Returns the first row, if there is one.
    fn first<T>(&self, sql: &str, params: impl Params, read: fn(&Row<'_>) -> Result<T>) -> Result<Option<T>>;
    /// Returns all rows.
    fn all<T>(&self, sql: &str, params: impl Params, read: fn(&Row<'_>) -> Result<T>) -> Result<Vec<T>>;
    /// Whether there is a row.
    fn is_there(&self, sql: &str, params: impl Params) -> Result<bool>;
}

impl Statements for Connection {
    fn run(&self, sql: &str, params: impl Params) -> Result<usize> {
        self.prepare_cached(sql)?.execute(params)
    }

    fn one<T>(&self, sql: &str, params: impl Params, read: fn(&Row<'_>) -> Result<T>) -> Result<T> {
        self.prepare_cached(sql)?.query_row(params, read)
    }

    fn first<T>(&self, sql: &str, params: impl Params, read: fn(&Row<'_>) -> Result<T>) -> Result<Option<T>> {
        self.one(sql, params, read).optional()
    }

    fn all<T>(&self, sql: &str, params: impl Params, read: fn(&Row<'_>) -> Result<T>) -> Result<Vec<T>> {
        self.prepare_cached(sql)?.query_map(params, read)?.collect()
    }

    fn is_there(&self, sql: &str, params: impl Params) -> Result<bool> {
        self.prepare_cached(sql)?.exists(params)
    }
}

/// Reads the first column.
pub(super) fn column<T: rusqlite::types::FromSql>(row: &Row<'_>) -> Result<T> {
    row.get(0)
}

/// Parameters that are sent to another thread.
pub(super) trait Owned: Params + Send + 'static {}

impl<P: Params + Send + 'static> Owned for P {}

/// One statement as a read or a write of its own.
impl SqliteDatabase {
    pub(super) async fn run(&self, sql: &'static str, params: impl Owned) -> Result<usize, Error> {
        self.write(move |db| Ok(db.run(sql, params)?)).await
    }

    pub(super) async fn first<T: Send + 'static>(
        &self,
        sql: &'static str,
        params: impl Owned,
        read: fn(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>, Error> {
        self.read(move |db| Ok(db.first(sql, params, read)?)).await
    }

    pub(super) async fn all<T: Send + 'static>(
        &self,
        sql: &'static str,
        params: impl Owned,
        read: fn(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>, Error> {
        self.read(move |db| Ok(db.all(sql, params, read)?)).await
    }
}
