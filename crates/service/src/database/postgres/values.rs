//! How PostgreSQL keeps the service's own types: identifiers, moments and amounts as integers, states as words.

use std::error::Error as StdError;

use bytes::BytesMut;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::accounts::{AccountId, Scope};
use crate::catalog::Visibility;
use crate::clock::Moment;
use crate::ledger::{Money, Purse, Reason};
use crate::queue::Status;

type Outcome<T> = Result<T, Box<dyn StdError + Sync + Send>>;

macro_rules! integers {
    ($($type:ty: $new:expr, $number:expr;)*) => { $(
        impl ToSql for $type {
            fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Outcome<IsNull> {
                ToSql::to_sql(&$number(*self), kind, out)
            }

            fn accepts(kind: &Type) -> bool {
                <i64 as ToSql>::accepts(kind)
            }

            to_sql_checked!();
        }

        impl<'a> FromSql<'a> for $type {
            fn from_sql(kind: &Type, raw: &'a [u8]) -> Outcome<Self> {
                i64::from_sql(kind, raw).map($new)
            }

            fn accepts(kind: &Type) -> bool {
                <i64 as FromSql>::accepts(kind)
            }
        }
    )* };
}

integers! {
    AccountId: AccountId, |id: Self| id.0;
    Moment: Moment, |moment: Self| moment.0;
    Money: Money::from_smallest, Money::smallest;
}

macro_rules! words {
    ($($type:ty: $what:literal;)*) => { $(
        impl ToSql for $type {
            fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Outcome<IsNull> {
                ToSql::to_sql(&self.word(), kind, out)
            }

            fn accepts(kind: &Type) -> bool {
                <&str as ToSql>::accepts(kind)
            }

            to_sql_checked!();
        }

        impl<'a> FromSql<'a> for $type {
            fn from_sql(kind: &Type, raw: &'a [u8]) -> Outcome<Self> {
                let word = <&str>::from_sql(kind, raw)?;
                Self::from_word(word).ok_or_else(|| format!(concat!("{:?} is no ", $what), word).into())
            }

            fn accepts(kind: &Type) -> bool {
                <&str as FromSql>::accepts(kind)
            }
        }
    )* };
}

words! {
    Purse: "purse";
    Reason: "reason";
    Scope: "scope";
    Status: "status";
}

/// As the column `is_public`.
impl<'a> FromSql<'a> for Visibility {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Outcome<Self> {
        Ok(if bool::from_sql(kind, raw)? { Self::Public } else { Self::Private })
    }

    fn accepts(kind: &Type) -> bool {
        <bool as FromSql>::accepts(kind)
    }
}

/// A value that is kept as a JSON text; by default that text.
pub(super) struct Json<T = Box<RawValue>>(pub(super) T);

impl<'a, T: DeserializeOwned> FromSql<'a> for Json<T> {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Outcome<Self> {
        Ok(Self(serde_json::from_str(<&str>::from_sql(kind, raw)?)?))
    }

    fn accepts(kind: &Type) -> bool {
        <String as FromSql>::accepts(kind)
    }
}

/// A SHA-256.
pub(super) struct Hash(pub(super) [u8; 32]);

impl<'a> FromSql<'a> for Hash {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Outcome<Self> {
        Ok(Self(<&[u8]>::from_sql(kind, raw)?.try_into()?))
    }

    fn accepts(kind: &Type) -> bool {
        <&[u8] as FromSql>::accepts(kind)
    }
}

/// A count or size that the database keeps as a signed number.
pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// A count or size as the database keeps it.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Names as a JSON array.
pub(super) fn json(names: &[String]) -> String {
    serde_json::json!(names).to_string()
}
