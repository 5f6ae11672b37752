//! Exact decimals: money that never passes through a binary float.

mod value;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Neg, Sub};
use std::str::FromStr;

use serde::Serialize;
use serde::de::{Deserialize, Deserializer, Error as _};

use value::Value;
pub(crate) use value::whole;

use crate::scalar::Scalar;

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
/// The service writes balances as strings and prices as JSON numbers; a `Decimal` deserializes from either, and
/// serializes with the same JSON type and digits. Decimals are equal if their values are: `1.50` equals `1.5`.
///
/// Sums and differences are exact:
///
/// ```
/// use inferstore_api::Decimal;
///
/// let costs = ["0.1", "0.2", "1e-20"].map(Decimal::try_from);
/// let total: Decimal = costs.into_iter().sum::<Result<_, _>>()?;
/// assert_eq!(total.to_string(), "0.30000000000000000001");
/// assert_eq!((total - Decimal::from(1)).to_string(), "-0.69999999999999999999");
/// # Ok::<(), inferstore_api::ParseDecimalError>(())
/// ```
///
/// The result has the shortest spelling, and the JSON form of the left operand. Only operands that are more
/// than 10,000 digits apart, and results with an exponent beyond 32 bits, are not exact: there the smaller
/// operand is dropped; [`checked_add`](Self::checked_add) returns `None` instead. For other arithmetic, hand
/// [`as_str`](Self::as_str) to a decimal library of your choice.
#[derive(Clone, Serialize)]
#[serde(transparent)]
pub struct Decimal(Scalar);

impl Decimal {
    /// Returns the digits as received.
    pub fn as_str(&self) -> &str {
        self.0.text()
    }

    /// Returns true for zero, with any sign and any number of digits.
    pub fn is_zero(&self) -> bool {
        self.value().sign == 0
    }

    /// Returns true if the value is below zero.
    pub fn is_negative(&self) -> bool {
        self.value().sign < 0
    }

    /// Returns true if the value is an integer in any spelling, such as `30.0` or `3e1`.
    pub fn is_integer(&self) -> bool {
        self.value().is_integer()
    }

    /// Returns the shortest spelling without an exponent, such as `12.5` for `1.250E+1`. `None`: an exponent
    /// would become more than 40 zeros.
    pub fn to_plain_string(&self) -> Option<String> {
        self.value().to_plain_string()
    }

    /// Returns the exact sum. `None`: the operands are more than 10,000 digits apart, or the exponent of the
    /// result exceeds 32 bits.
    pub fn checked_add(&self, other: &Self) -> Option<Self> {
        let text = self.value().checked_add(other.value())?;
        Some(Self(self.0.with_text(text)))
    }

    /// Returns the exact difference. `None`: the operands are more than 10,000 digits apart, or the exponent
    /// of the result exceeds 32 bits.
    pub fn checked_sub(&self, other: &Self) -> Option<Self> {
        self.checked_add(&-other)
    }

    fn value(&self) -> Value<'_> {
        // Every `Decimal` was parsed, so it has a value.
        Value::of(self.as_str()).unwrap_or_default()
    }
}

impl FromStr for Decimal {
    type Err = ParseDecimalError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Value::of(text).map(|_| Self(Scalar::quoted(text))).ok_or(ParseDecimalError(()))
    }
}

/// Text that is not a decimal: an optional sign, digits with at most one point, and an optional exponent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseDecimalError(());

impl std::error::Error for ParseDecimalError {}

impl fmt::Display for ParseDecimalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a decimal: expected digits such as \"12.50\"")
    }
}

impl TryFrom<&str> for Decimal {
    type Error = ParseDecimalError;

    fn try_from(text: &str) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl TryFrom<String> for Decimal {
    type Error = ParseDecimalError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

macro_rules! from_integers {
    ($($integer:ty),+) => {
        $(impl From<$integer> for Decimal {
            fn from(number: $integer) -> Self {
                Self(Scalar::unquoted(number.to_string()))
            }
        })+
    };
}

from_integers!(i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize);

impl Default for Decimal {
    fn default() -> Self {
        Self::from(0)
    }
}

impl Neg for &Decimal {
    type Output = Decimal;

    fn neg(self) -> Decimal {
        let text = self.as_str();
        let negated = match text.strip_prefix('-') {
            Some(rest) => rest.to_owned(),
            None => format!("-{}", text.trim_start_matches('+')),
        };
        Decimal(self.0.with_text(negated))
    }
}

impl Neg for Decimal {
    type Output = Decimal;

    fn neg(self) -> Decimal {
        -&self
    }
}

impl Add<&Decimal> for &Decimal {
    type Output = Decimal;

    fn add(self, other: &Decimal) -> Decimal {
        self.checked_add(other).unwrap_or_else(|| {
            let is_smaller = self.value().magnitude < other.value().magnitude;
            if is_smaller { other.clone() } else { self.clone() }
        })
    }
}

impl Sub<&Decimal> for &Decimal {
    type Output = Decimal;

    fn sub(self, other: &Decimal) -> Decimal {
        self + &-other
    }
}

impl Add for Decimal {
    type Output = Decimal;

    fn add(self, other: Decimal) -> Decimal {
        &self + &other
    }
}

impl Sub for Decimal {
    type Output = Decimal;

    fn sub(self, other: Decimal) -> Decimal {
        &self - &other
    }
}

impl AddAssign for Decimal {
    fn add_assign(&mut self, other: Decimal) {
        *self = &*self + &other;
    }
}

impl Sum for Decimal {
    fn sum<I: Iterator<Item = Self>>(decimals: I) -> Self {
        decimals.reduce(|sum, decimal| sum + decimal).unwrap_or_default()
    }
}

impl<'a> Sum<&'a Decimal> for Decimal {
    fn sum<I: Iterator<Item = &'a Self>>(mut decimals: I) -> Self {
        let first = decimals.next().cloned().unwrap_or_default();
        decimals.fold(first, |sum, decimal| &sum + decimal)
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

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let scalar = Scalar::deserialize(deserializer)?;
        match Value::of(scalar.text()) {
            Some(_) => Ok(Self(scalar)),
            None => Err(D::Error::custom(ParseDecimalError(()))),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::Decimal;

    fn decimal(text: &str) -> Decimal {
        text.parse().unwrap()
    }

    #[test]
    fn sums_and_differences_are_exact() {
        for (one, other, sum, difference) in [
            ("0.1", "0.2", "0.3", "-0.1"),
            ("1", "0.30000000000000000001", "1.30000000000000000001", "0.69999999999999999999"),
            ("999", "1", "1000", "998"),
            ("1000", "-0.001", "999.999", "1000.001"),
            ("-5", "5", "0", "-10"),
            ("5", "-5.0", "0", "10"),
            ("-7.5", "-2.5", "-10", "-5"),
            ("0", "-0.00", "0", "0"),
            ("0", "12.50", "12.5", "-12.5"),
            ("1e20", "1", "100000000000000000001", "99999999999999999999"),
            ("12e-3", "+.5", "0.512", "-0.488"),
            ("1e300", "1e300", "2e300", "0"),
        ] {
            assert_eq!((decimal(one) + decimal(other)).as_str(), sum, "{one} + {other}");
            assert_eq!((decimal(one) - decimal(other)).as_str(), difference, "{one} - {other}");
            assert_eq!(decimal(one).checked_add(&decimal(other)), Some(decimal(sum)));
            assert_eq!(decimal(one).checked_sub(&decimal(other)), Some(decimal(difference)));
        }
    }

    #[test]
    fn integers_add_as_integers_do() {
        let numbers = [-1_000_001, -999, -100, -10, -9, -1, 0, 1, 5, 9, 10, 99, 101, 12_345, 1_000_000];
        for one in numbers {
            for other in numbers {
                assert_eq!(Decimal::from(one) + Decimal::from(other), Decimal::from(one + other));
                assert_eq!(Decimal::from(one) - Decimal::from(other), Decimal::from(one - other));
            }
        }
    }

    #[test]
    fn operands_that_are_too_far_apart_are_not_expanded() {
        let (large, small) = (decimal("1e2000000000"), decimal("1e-2000000000"));
        assert_eq!((large.checked_add(&small), small.checked_sub(&large)), (None, None));
        assert_eq!((&large + &small, &small + &large), (large.clone(), large.clone()));
        assert_eq!((&small - &large).as_str(), "-1e2000000000");
        let largest = decimal("5e2147483647");
        assert_eq!((largest.checked_add(&largest), &largest + &largest), (None, largest.clone()));
        assert_eq!(decimal("1e9000").checked_add(&decimal("1")).unwrap().as_str().len(), 9001);
    }

    #[test]
    fn a_sum_has_the_form_of_its_first_operand() {
        let json = |decimal: &Decimal| serde_json::to_string(decimal).unwrap();
        assert_eq!(json(&(decimal("1.5") + Decimal::from(1))), r#""2.5""#);
        assert_eq!(json(&(Decimal::from(1) + decimal("1.5"))), "2.5");
        let costs = [decimal("0.1"), decimal("0.2")];
        assert_eq!(json(&costs.iter().sum()), r#""0.3""#);
        assert_eq!(json(&costs.into_iter().sum()), r#""0.3""#);
        assert_eq!(json(&std::iter::empty::<Decimal>().sum()), "0");
    }

    #[test]
    fn plain_notation_is_the_shortest() {
        for (text, plain) in [
            ("30", "30"),
            ("30.0", "30"),
            ("+030.50", "30.5"),
            ("1e2", "100"),
            ("1.25E+1", "12.5"),
            ("-0.0", "0"),
            ("-.5", "-0.5"),
            ("5.", "5"),
            ("1e-7", "0.0000001"),
            ("123e-2", "1.23"),
            ("0e999", "0"),
            ("100200e-1", "10020"),
        ] {
            assert_eq!(decimal(text).to_plain_string().as_deref(), Some(plain), "{text}");
        }
        for text in ["1e300", "1e-300", "1e2000000000", "-1e-2000000000"] {
            assert_eq!(decimal(text).to_plain_string(), None, "{text}");
        }
    }

    #[test]
    fn whole_numbers_are_recognized_by_their_value() {
        for text in ["0", "-0.0", "30", "30.0", "1e2", "12.50e2", "-7", "1e2000000000"] {
            assert!(decimal(text).is_integer(), "{text}");
        }
        for text in ["30.5", "1e-1", "12.55e1", "9007199254740993.0000000000000000000000001"] {
            assert!(!decimal(text).is_integer(), "{text}");
        }
    }

    #[test]
    fn integers_of_every_size_are_decimals() {
        assert_eq!(Decimal::from(i128::MIN).as_str(), i128::MIN.to_string());
        assert_eq!(Decimal::from(u64::MAX), u64::MAX.to_string().parse().unwrap());
        assert_eq!(Decimal::default(), Decimal::from(0_u8));
        assert_eq!(Decimal::try_from("1.50").unwrap().as_str(), "1.50");
        assert!(Decimal::try_from("1,50".to_owned()).is_err());
    }
}
