//! Storage of the service's own types in PostgreSQL: identifiers, times and amounts as integers, states as strings.

use std::error::Error as StdError;

use bytes::BytesMut;
use rusqlite::types::{FromSqlError, FromSqlResult, ValueRef};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::accounts::{AccountId, AccountState, Scope};
use crate::catalog::ModelState;
use crate::clock::Moment;
use crate::database::records::Row;
use crate::ledger::{Money, Purse, Reason};
use crate::queue::Status;

type EncodingResult<T> = Result<T, Box<dyn StdError + Sync + Send>>;

macro_rules! kept {
    ($($type:ty: $kept:ty, $value:expr;)*) => { $(
        impl ToSql for $type {
            fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> EncodingResult<IsNull> {
                ToSql::to_sql(&$value(*self), kind, out)
            }

            fn accepts(kind: &Type) -> bool {
                <$kept as ToSql>::accepts(kind)
            }

            to_sql_checked!();
        }
    )* };
}

kept! {
    AccountId: i64, |id: Self| id.0;
    AccountState: &str, Self::word;
    ModelState: &str, Self::word;
    Moment: i64, |moment: Self| moment.0;
    Money: i64, Self::smallest;
    Purse: &str, Self::word;
    Reason: &str, Self::word;
    Scope: &str, Self::word;
    Status: &str, Self::word;
}

struct Value<'a>(ValueRef<'a>);

impl<'a> FromSql<'a> for Value<'a> {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> EncodingResult<Self> {
        Ok(Self(match *kind {
            Type::INT8 => ValueRef::Integer(i64::from_sql(kind, raw)?),
            Type::BOOL => ValueRef::Integer(bool::from_sql(kind, raw)?.into()),
            Type::BYTEA => ValueRef::Blob(raw),
            _ => ValueRef::Text(raw),
        }))
    }

    fn from_sql_null(_: &Type) -> EncodingResult<Self> {
        Ok(Self(ValueRef::Null))
    }

    fn accepts(kind: &Type) -> bool {
        matches!(*kind, Type::INT8 | Type::BOOL | Type::BYTEA | Type::TEXT)
    }
}

impl Row for tokio_postgres::Row {
    fn value(&self, index: usize) -> FromSqlResult<ValueRef<'_>> {
        let value = self.try_get(index).map_err(FromSqlError::other);
        value.map(|Value(value)| value)
    }
}
