//! Exact decimals: money that never passes through a binary float.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer};
use serde::{Serialize, Serializer};

use crate::scalar::{self, Scalar};

/// An exact decimal of any length, with the digits as they came.
///
/// ```
/// use inferstore_api::Decimal;
///
/// let price: Decimal = "0.30000000000000000001".parse()?;
/// assert!(price > "0.3".parse()?);
/// assert_eq!(price.to_string(), "0.30000000000000000001");
/// # Ok::<(), inferstore_api::ParseDecimalError>(())
/// ```
///
/// The service writes balances as strings and prices as JSON numbers; a `Decimal` is read from
/// either and written back in the form, and with the digits, in which it came. Two decimals are
/// equal when their values are, whatever the digits: `1.50` equals `1.5`.
///
/// For arithmetic, hand [`as_str`](Self::as_str) to a decimal library of your choice.
#[derive(Clone)]
pub struct Decimal(Scalar);

impl Decimal {
    /// The digits as they came.
    pub fn as_str(&self) -> &str {
        self.0.text()
    }

    /// Whether the value is zero, with whatever sign and however many digits.
    pub fn is_zero(&self) -> bool {
        self.value().sign == 0
    }

    /// Whether the value is below zero.
    pub fn is_negative(&self) -> bool {
        self.value().sign < 0
    }

    fn value(&self) -> Value {
        // Only texts that have a value become decimals.
        Value::of(self.as_str()).unwrap_or_default()
    }
}

impl FromStr for Decimal {
    type Err = ParseDecimalError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Value::of(text).map(|_| Self(Scalar::quoted(text))).ok_or(ParseDecimalError(()))
    }
}

/// A text that is not a decimal: an optional sign, digits with at most one point among them, and an
/// optional exponent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseDecimalError(());

impl std::error::Error for ParseDecimalError {}

impl fmt::Display for ParseDecimalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a decimal: expected digits such as \"12.50\"")
    }
}

impl From<u64> for Decimal {
    fn from(number: u64) -> Self {
        Self(Scalar::unquoted(number.to_string()))
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Decimal {}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        self.value().cmp(&other.value())
    }
}

impl Hash for Decimal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value().hash(state);
    }
}

impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar::read(deserializer, |token| match Spelling::of(token.text()) {
            Some(_) => Ok(Self(token.into_scalar())),
            None => Err(ParseDecimalError(())),
        })
    }
}

/// A decimal without its spelling: `sign × 0.digits × 10^magnitude`, where the digits begin and end
/// with something other than 0. Equal values have equal fields, and nothing is ever expanded, so an
/// exponent of a billion costs no more than one of 2.
#[derive(Default, PartialEq, Eq, Hash)]
struct Value {
    sign: i8,
    magnitude: i64,
    digits: String,
}

impl Value {
    fn of(text: &str) -> Option<Self> {
        let spelling = Spelling::of(text)?;
        let digits = format!("{}{}", spelling.whole, spelling.fraction);
        let significant = digits.trim_start_matches('0');
        let leading_zeros = digits.len() - significant.len();
        let magnitude = i64::from(spelling.exponent) + i64::try_from(spelling.whole.len()).ok()?
            - i64::try_from(leading_zeros).ok()?;
        let significant = significant.trim_end_matches('0');
        Some(match (significant, spelling.is_negative) {
            ("", _) => Self::default(),
            (digits, true) => Self { sign: -1, magnitude, digits: digits.to_owned() },
            (digits, false) => Self { sign: 1, magnitude, digits: digits.to_owned() },
        })
    }
}

/// The parts of a text that is a decimal: `±whole.fraction × 10^exponent`.
struct Spelling<'a> {
    is_negative: bool,
    whole: &'a str,
    fraction: &'a str,
    /// `i32`, so that adding a length to it cannot overflow.
    exponent: i32,
}

impl<'a> Spelling<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let (is_negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse().ok()?),
            None => (rest, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let is_all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let is_empty = whole.is_empty() && fraction.is_empty();
        let is_decimal = !is_empty && is_all_digits(whole) && is_all_digits(fraction);
        is_decimal.then_some(Self { is_negative, whole, fraction, exponent })
    }
}

/// The digits of a whole number, however it is spelled: `30` of `3.0e1`. None of any other, and of one that
/// no integer holds.
pub(crate) fn whole(text: &str) -> Option<String> {
    const MOST_DIGITS: i64 = 20;
    let value = Value::of(text).filter(|value| value.magnitude <= MOST_DIGITS)?;
    let zeros = usize::try_from(value.magnitude).ok()?.checked_sub(value.digits.len())?;
    let sign = if value.sign < 0 { "-" } else { "" };
    Some(match value.sign {
        0 => "0".to_owned(),
        _ => format!("{sign}{}{}", value.digits, "0".repeat(zeros)),
    })
}

impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        self.sign.cmp(&other.sign).then_with(|| {
            let sizes = self.magnitude.cmp(&other.magnitude).then_with(|| self.digits.cmp(&other.digits));
            if self.sign < 0 { sizes.reverse() } else { sizes }
        })
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
