//! Prepared statements, cached by connection: one method for each expected number of rows.

use rusqlite::types::{FromSqlError, FromSqlResult, ValueRef};
use rusqlite::{Connection, OptionalExtension as _, Params, Result};

use crate::database::records::{Read, Row};

impl Row for rusqlite::Row<'_> {
    fn value(&self, index: usize) -> FromSqlResult<ValueRef<'_>> {
        self.get_ref(index).map_err(FromSqlError::other)
    }
}

pub(super) trait Statements {
    fn run(&self, sql: &str, params: impl Params) -> Result<usize>;
    fn change_one(&self, sql: &str, params: impl Params) -> crate::Result<()>;
    fn one<T>(&self, sql: &str, params: impl Params, read: Read<T>) -> Result<T>;
    fn first<T>(&self, sql: &str, params: impl Params, read: Read<T>) -> Result<Option<T>>;
    fn all<T>(&self, sql: &str, params: impl Params, read: Read<T>) -> Result<Vec<T>>;
    fn is_there(&self, sql: &str, params: impl Params) -> Result<bool>;
}

impl Statements for Connection {
    fn run(&self, sql: &str, params: impl Params) -> Result<usize> {
        self.prepare_cached(sql)?.execute(params)
    }

    fn change_one(&self, sql: &str, params: impl Params) -> crate::Result<()> {
        let changed = self.run(sql, params)?;
        debug_assert_eq!(changed, 1, "a statement must change exactly one row: {sql}");
        Ok(())
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
