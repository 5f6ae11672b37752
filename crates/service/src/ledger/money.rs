//! Exact amounts of money, in whole billionths.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

pub(crate) const UNIT: &str = "USD";

const DECIMALS: usize = 9;
const ONE: i64 = 1_000_000_000;

/// An exact amount, counted in billionths of the currency's unit.
///
/// ```
/// use inferstore_service::Money;
///
/// let price: Money = "0.05".parse()?;
/// assert_eq!(price.to_string(), "0.05");
/// assert_eq!(price.checked_add(price).map(|sum| sum.to_string()), Some("0.1".to_owned()));
/// # Ok::<(), inferstore_service::NotMoney>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Money(i64);

impl Money {
    /// Zero.
    pub const ZERO: Self = Self(0);

    /// Creates an amount from a number of smallest units (billionths).
    pub const fn from_smallest(units: i64) -> Self {
        Self(units)
    }

    /// Returns the amount in smallest units (billionths).
    pub const fn smallest(self) -> i64 {
        self.0
    }

    /// Returns the sum; None on overflow.
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// Returns the difference; None on overflow.
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        match self.0.checked_sub(other.0) {
            Some(difference) => Some(Self(difference)),
            None => None,
        }
    }

    /// Returns true if the amount is greater than zero.
    pub const fn is_positive(self) -> bool {
        self.0 > 0
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let magnitude = self.0.unsigned_abs();
        let whole = magnitude / ONE.unsigned_abs();
        let fraction = format!("{:0DECIMALS$}", magnitude % ONE.unsigned_abs());
        match fraction.trim_end_matches('0') {
            "" => write!(f, "{sign}{whole}"),
            digits => write!(f, "{sign}{whole}.{digits}"),
        }
    }
}

impl FromStr for Money {
    type Err = NotMoney;

    fn from_str(text: &str) -> Result<Self, NotMoney> {
        let no = || NotMoney(text.chars().take(40).collect());
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let complete = !whole.is_empty() && (!fraction.is_empty() || !digits.contains('.'));
        if !complete || !plain(whole) || !plain(fraction) || fraction.len() > DECIMALS {
            return Err(no());
        }
        let sign = if negative { "-" } else { "" };
        format!("{sign}{whole}{fraction:0<DECIMALS$}").parse().map(Self).map_err(|_| no())
    }
}

/// Error: the text is no amount. An amount has at most nine decimal digits and lies within the range of [`Money`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no amount; write one up to {most} in digits, at most {DECIMALS} of them behind the point",
    most = Money(i64::MAX)
)]
pub struct NotMoney(String);

impl Serialize for Money {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Money {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Serializes an amount as a JSON number without loss of digits.
pub(crate) fn as_number<S: Serializer>(money: &Money, serializer: S) -> Result<S::Ok, S::Error> {
    RawValue::from_string(money.to_string()).map_err(serde::ser::Error::custom)?.serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_come_back_as_they_were_written() {
        for text in ["0", "1", "0.05", "128.5073", "9223372036.854775807", "-3.5", "0.000000001"] {
            assert_eq!(text.parse::<Money>().map(|money| money.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("7.50".parse::<Money>().map(|money| money.to_string()), Ok("7.5".to_owned()));
    }

    #[test]
    fn what_is_no_exact_amount_is_refused() {
        for text in ["", ".", "1.", ".5", "1e3", "+1", "0.0000000001", "9223372036.854775808", "1,5", "--1"] {
            assert!(text.parse::<Money>().is_err(), "{text} was taken for an amount");
        }
    }

    mod properties {
        use proptest::prelude::*;

        use super::*;

        proptest! {
            #[test]
            fn every_amount_is_written_as_it_is_read(units in prop_oneof![any::<i64>(), Just(i64::MIN), Just(i64::MAX)]) {
                let amount = Money::from_smallest(units);
                prop_assert_eq!(amount.to_string().parse(), Ok(amount));
                let number = as_number(&amount, serde_json::value::Serializer).map_err(|cause| TestCaseError::fail(cause.to_string()));
                prop_assert!(number.is_ok());
            }

            #[test]
            fn sums_and_differences_are_exact_or_not_there(one in any::<i64>(), other in any::<i64>()) {
                let (first, second) = (Money::from_smallest(one), Money::from_smallest(other));
                let exact = |units: i128| i64::try_from(units).ok().map(Money::from_smallest);
                prop_assert_eq!(first.checked_add(second), exact(i128::from(one) + i128::from(other)));
                prop_assert_eq!(first.checked_sub(second), exact(i128::from(one) - i128::from(other)));
                prop_assert_eq!(first.cmp(&second), one.cmp(&other));
            }

            #[test]
            fn a_text_is_an_amount_only_if_it_says_exactly_that(text in "-?[0-9]{0,12}(\\.[0-9]{0,11})?|[-+0-9.eE]{0,20}") {
                if let Ok(amount) = text.parse::<Money>() {
                    let canonical = text.trim_start_matches('-').trim_start_matches('0');
                    let (whole, fraction) = canonical.split_once('.').unwrap_or((canonical, ""));
                    let shown = amount.to_string();
                    let shown = shown.trim_start_matches('-');
                    let (shown_whole, shown_fraction) = shown.split_once('.').unwrap_or((shown, ""));
                    prop_assert_eq!(shown_whole.trim_start_matches('0'), whole);
                    prop_assert_eq!(shown_fraction, fraction.trim_end_matches('0'));
                }
            }
        }
    }
}
