//! The digits of a decimal and exact arithmetic on them, as far as steps need it.

use std::ops::RangeInclusive;

use inferstore_api::Decimal;

/// Plain notation writes at most so many zeros for an exponent: `1e300` is shorter as it is.
const MOST_ZEROS: u64 = 40;

/// A fraction with this many digits was not typed: it has been through a binary float, as the
/// 0.30000000000000004 that 0.1 and 0.2 add up to.
const DIGITS_OF_FLOATS: RangeInclusive<usize> = 15..=17;

/// What floats may lose on the way to a step, as a part of the numbers they reckoned with: some
/// hundred roundings.
const PRECISION_OF_FLOATS: i128 = 1_000_000_000_000;

/// A decimal taken apart: `±digits × 10^exponent`, where the digits begin and end with something
/// other than 0. Zero has no digits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Digits {
    negative: bool,
    digits: String,
    exponent: i64,
}

impl Digits {
    pub(super) fn of(decimal: &Decimal) -> Option<Self> {
        let text = decimal.as_str();
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{}{fraction}", whole.trim_start_matches(['+', '-']));
        let exponent = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?;
        Self { negative: decimal.is_negative(), digits, exponent }.trimmed()
    }

    fn trimmed(mut self) -> Option<Self> {
        let significant = self.digits.trim_end_matches('0');
        if significant.is_empty() {
            return Some(Self::default());
        }
        let dropped = i64::try_from(self.digits.len() - significant.len()).ok()?;
        self.exponent = self.exponent.checked_add(dropped)?;
        self.digits = significant.trim_start_matches('0').to_owned();
        Some(self)
    }

    pub(super) fn is_whole(&self) -> bool {
        self.exponent >= 0
    }

    /// The shortest spelling without an exponent, if there is one of reasonable length.
    pub(super) fn plain(&self) -> Option<String> {
        let length = i64::try_from(self.digits.len()).ok()?;
        let zeros = |count: i64| {
            let count = count.unsigned_abs();
            (count <= MOST_ZEROS).then(|| "0".repeat(usize::try_from(count).unwrap_or_default()))
        };
        let point = length.checked_add(self.exponent)?;
        let sign = if self.negative { "-" } else { "" };
        Some(if self.digits.is_empty() {
            "0".to_owned()
        } else if self.is_whole() {
            format!("{sign}{}{}", self.digits, zeros(self.exponent)?)
        } else if point <= 0 {
            format!("{sign}0.{}{}", zeros(point)?, self.digits)
        } else {
            let (whole, fraction) = self.digits.split_at_checked(usize::try_from(point).ok()?)?;
            format!("{sign}{whole}.{fraction}")
        })
    }

    /// The value as a multiple of `10^exponent`.
    fn scaled(&self, exponent: i64) -> Option<i128> {
        if self.digits.is_empty() {
            return Some(0);
        }
        let power = u32::try_from(self.exponent.checked_sub(exponent)?).ok()?;
        let size = self.digits.parse::<i128>().ok()?.checked_mul(10_i128.checked_pow(power)?)?;
        Some(if self.negative { -size } else { size })
    }

    fn is_from_a_float(&self) -> bool {
        !self.is_whole() && DIGITS_OF_FLOATS.contains(&self.digits.len())
    }
}

/// Whether a value is a whole number of steps away from the base: exactly, or as near as binary
/// floats come to it if the value is from one. `None` where that is beyond 128 bits, or where base or
/// step are from a binary float themselves.
pub(super) fn is_on_step(value: &Digits, base: &Digits, step: &Digits) -> Option<bool> {
    if base.is_from_a_float() || step.is_from_a_float() {
        return None;
    }
    let exponent = value.exponent.min(base.exponent).min(step.exponent);
    let (scaled_value, scaled_base) = (value.scaled(exponent)?, base.scaled(exponent)?);
    let step = step.scaled(exponent)?;
    let beyond = scaled_value.checked_sub(scaled_base)?.checked_rem_euclid(step)?;
    if beyond == 0 || !value.is_from_a_float() {
        return Some(beyond == 0);
    }
    let off = beyond.min(step - beyond);
    Some(off.checked_mul(PRECISION_OF_FLOATS)? <= scaled_value.abs().max(scaled_base.abs()))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::{Digits, is_on_step};

    fn digits(text: &str) -> Digits {
        Digits::of(&text.parse().unwrap()).unwrap()
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
            assert_eq!(digits(text).plain().as_deref(), Some(plain), "{text}");
        }
        for text in ["1e300", "1e-300", "1e2000000000", "-1e-2000000000"] {
            assert_eq!(digits(text).plain(), None, "{text}");
        }
    }

    #[test]
    fn whole_numbers_are_told_by_their_digits() {
        for text in ["0", "30", "30.0", "1e2", "12.50e2", "-7", "1e2000000000"] {
            assert!(digits(text).is_whole(), "{text}");
        }
        for text in ["30.5", "1e-1", "12.55e1", "9007199254740993.0000000000000000000000001"] {
            assert!(!digits(text).is_whole(), "{text}");
        }
    }

    #[test]
    fn steps_are_exact() {
        for (value, base, step, expected) in [
            ("0.3", "0", "0.1", Some(true)),
            ("0.3", "0.1", "0.1", Some(true)),
            ("0.7", "0.1", "0.2", Some(true)),
            ("0.35", "0", "0.1", Some(false)),
            ("-3", "-9", "2", Some(true)),
            ("1e30", "0", "3", Some(false)),
            ("10000000000000001", "0", "2", Some(false)),
            // What floats make of 0.1 + 0.2, of 1.1 × 3, of 0.7 − 0.1, of ten and of a thousand
            // times 0.1, and of −33.45 + 287 × 0.12.
            ("0.30000000000000004", "0", "0.1", Some(true)),
            ("3.3000000000000003", "0", "0.1", Some(true)),
            ("0.6", "0", "0.1", Some(true)),
            ("0.5999999999999999", "0", "0.1", Some(true)),
            ("0.9999999999999999", "0", "1", Some(true)),
            ("99.9999999999986", "0", "0.1", Some(true)),
            ("0.9899999999999949", "-33.45", "0.12", Some(true)),
            ("0.3000000000000000000004", "0", "0.1", Some(false)),
            ("0.30000000001", "0", "0.1", Some(false)),
            ("0.333333333333333333333", "0", "0.1", Some(false)),
            ("0.3333333333333333", "0", "0.1", Some(false)),
            // Beyond 128 bits, and steps that a float has spoiled.
            ("1e50", "0", "0.1", None),
            ("0.3", "0", "0.10000000149011612", None),
        ] {
            assert_eq!(
                is_on_step(&digits(value), &digits(base), &digits(step)),
                expected,
                "{value} {base} {step}"
            );
        }
    }
}
