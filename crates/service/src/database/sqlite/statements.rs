//! Prepared statements, kept by their connection: one method for each number of rows.

use rusqlite::{Connection, OptionalExtension as _, Params, Result, Row};

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
