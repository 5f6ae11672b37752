//! Storage of the service's types in all engines: identifiers, times and amounts as integers, states as strings.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::accounts::{AccountId, AccountState, Scope};
use crate::catalog::{ModelState, Visibility};
use crate::clock::Moment;
use crate::ledger::{Money, Purse, Reason};
use crate::queue::Status;

macro_rules! integers {
    ($($type:ty: $new:expr, $number:expr;)*) => { $(
        impl ToSql for $type {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok($number(*self).into())
            }
        }

        impl FromSql for $type {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                i64::column_result(value).map($new)
            }
        }
    )* };
}

integers! {
    AccountId: AccountId, |id: Self| id.0;
    Moment: Moment, |moment: Self| moment.0;
    Money: Money::from_smallest, Money::smallest;
}

macro_rules! string_columns {
    ($($type:ty: $what:literal;)*) => { $(
        impl ToSql for $type {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok(self.word().into())
            }
        }

        impl FromSql for $type {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                let word = value.as_str()?;
                let unknown = || FromSqlError::Other(format!(concat!("{:?} is no ", $what), word).into());
                Self::from_word(word).ok_or_else(unknown)
            }
        }
    )* };
}

string_columns! {
    ModelState: "state of a model";
    AccountState: "state of an account";
    Purse: "purse";
    Reason: "reason";
    Scope: "scope";
    Status: "status";
}

impl FromSql for Visibility {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(if bool::column_result(value)? { Self::Public } else { Self::Private })
    }
}

/// Value stored as a JSON text; by default the text itself.
pub(super) struct Json<T = Box<RawValue>>(pub(super) T);

impl<T: DeserializeOwned> FromSql for Json<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let read = serde_json::from_str(value.as_str()?);
        read.map(Self).map_err(|cause| FromSqlError::Other(Box::new(cause)))
    }
}

pub(super) fn json(items: &[impl Serialize]) -> String {
    serde_json::json!(items).to_string()
}

pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
