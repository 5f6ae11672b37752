//! Value of a decimal apart from its spelling: comparison, plain notation and sums, digit by digit.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

/// Maximum number of zeros in plain notation; a larger exponent stays an exponent.
const MAX_ZEROS: usize = 40;

/// Maximum distance of the operands of a sum, in digits.
const MAX_SUM_DIGITS: usize = 10_000;

/// Value of a decimal: `sign × 0.digits × 10^magnitude`, where the first and the last digit are not 0. Digits
/// are never expanded, so an exponent of a billion costs no more than one of 2.
#[derive(Clone, Copy, Default)]
pub(super) struct Value<'a> {
    pub(super) sign: i8,
    pub(super) magnitude: i64,
    /// Digits before and after the point in the text.
    digits: [&'a str; 2],
}

impl<'a> Value<'a> {
    /// Parses an optional sign, digits with at most one point, and an optional exponent.
    pub(super) fn of(text: &'a str) -> Option<Self> {
        let (sign, rest) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text.strip_prefix('+').unwrap_or(text)),
        };
        // `i32`, so that adding a length cannot overflow.
        let (mantissa, exponent) = match split(rest, |byte| matches!(byte, b'e' | b'E')) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
            None => (rest, 0),
        };
        let (whole, fraction) = split(mantissa, |byte| byte == b'.').unwrap_or((mantissa, ""));
        let is_all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let is_empty = whole.is_empty() && fraction.is_empty();
        if is_empty || !is_all_digits(whole) || !is_all_digits(fraction) {
            return None;
        }
        let whole = whole.trim_start_matches('0');
        let fraction = fraction.trim_end_matches('0');
        let magnitude = i64::from(exponent) + length(whole);
        Some(match (whole, fraction) {
            ("", "") => Self::default(),
            ("", _) => {
                let digits = fraction.trim_start_matches('0');
                Self { sign, magnitude: magnitude + length(digits) - length(fraction), digits: ["", digits] }
            }
            (_, "") => Self { sign, magnitude, digits: [whole.trim_end_matches('0'), ""] },
            _ => Self { sign, magnitude, digits: [whole, fraction] },
        })
    }

    fn digits(&self) -> impl DoubleEndedIterator<Item = u8> {
        self.digits[0].bytes().chain(self.digits[1].bytes())
    }

    fn length(&self) -> i64 {
        length(self.digits[0]) + length(self.digits[1])
    }

    fn exponent(&self) -> i64 {
        self.magnitude - self.length()
    }

    pub(super) fn is_integer(&self) -> bool {
        self.exponent() >= 0
    }

    pub(super) fn to_plain_string(self) -> Option<String> {
        let zeros = |count: i64| {
            let count = usize::try_from(count).ok().filter(|count| *count <= MAX_ZEROS)?;
            Some("0".repeat(count))
        };
        let sign = if self.sign < 0 { "-" } else { "" };
        let digits = self.digits.concat();
        Some(if self.sign == 0 {
            "0".to_owned()
        } else if self.is_integer() {
            format!("{sign}{digits}{}", zeros(self.exponent())?)
        } else if self.magnitude <= 0 {
            format!("{sign}0.{}{digits}", zeros(-self.magnitude)?)
        } else {
            let (whole, fraction) = digits.split_at_checked(usize::try_from(self.magnitude).ok()?)?;
            format!("{sign}{whole}.{fraction}")
        })
    }

    /// Returns the plain spelling, or one with an exponent if that can be parsed again.
    fn shortest(self) -> Option<String> {
        self.to_plain_string().or_else(|| {
            let sign = if self.sign < 0 { "-" } else { "" };
            let exponent = i32::try_from(self.exponent()).ok()?;
            Some(format!("{sign}{}e{exponent}", self.digits.concat()))
        })
    }

    /// Returns the exact sum in its shortest spelling, if it has at most [`MAX_SUM_DIGITS`] digits more than
    /// the operands.
    pub(super) fn checked_add(self, other: Self) -> Option<String> {
        if self.sign == 0 || other.sign == 0 {
            return if self.sign == 0 { other.shortest() } else { self.shortest() };
        }
        let lowest = self.exponent().min(other.exponent());
        // Number of zeros to append to each operand.
        let shift = |value: Self| usize::try_from(value.exponent() - lowest).ok();
        let (own_shift, other_shift) = (shift(self)?, shift(other)?);
        let longest = usize::try_from(self.length().max(other.length())).ok()?;
        if own_shift.max(other_shift) > MAX_SUM_DIGITS + longest {
            return None;
        }
        let ones = self.reversed_digits(own_shift);
        let others = other.reversed_digits(other_shift);
        let (sign, sum) = if self.sign == other.sign {
            (self.sign, sum_of(&ones, &others, 1))
        } else if self.cmp_size(&other).is_ge() {
            (self.sign, sum_of(&ones, &others, -1))
        } else {
            (other.sign, sum_of(&others, &ones, -1))
        };
        let text: String = sum.iter().rev().map(|digit| char::from(b'0' + digit.unsigned_abs())).collect();
        let text = text.trim_start_matches('0');
        let digits = text.trim_end_matches('0');
        let sign = if digits.is_empty() { 0 } else { sign };
        Value { sign, magnitude: lowest + length(text), digits: [digits, ""] }.shortest()
    }

    /// Returns the digits from last to first, after `shift` zeros.
    fn reversed_digits(&self, shift: usize) -> Vec<i8> {
        let digits = self.digits().rev().map(|byte| i8::try_from(byte - b'0').unwrap_or_default());
        std::iter::repeat_n(0, shift).chain(digits).collect()
    }

    pub(super) fn cmp_size(&self, other: &Self) -> Ordering {
        self.magnitude.cmp(&other.magnitude).then_with(|| self.digits().cmp(other.digits()))
    }

    pub(super) fn cmp(&self, other: &Self) -> Ordering {
        self.sign.cmp(&other.sign).then_with(|| {
            let sizes = self.cmp_size(other);
            if self.sign < 0 { sizes.reverse() } else { sizes }
        })
    }
}

/// Equal values have equal hashes, wherever the point is in their digits.
impl Hash for Value<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.sign, self.magnitude, self.length()).hash(state);
        self.digits().for_each(|digit| state.write_u8(digit));
    }
}

/// Returns `larger ± smaller`, from the last digit on.
fn sum_of(larger: &[i8], smaller: &[i8], sign: i8) -> Vec<i8> {
    let length = larger.len().max(smaller.len());
    let digit = |digits: &[i8], place: usize| digits.get(place).copied().unwrap_or_default();
    let mut carry = 0;
    let mut sum = Vec::with_capacity(length + 1);
    for place in 0..length {
        let digit = digit(larger, place) + sign * digit(smaller, place) + carry;
        carry = digit.div_euclid(10);
        sum.push(digit.rem_euclid(10));
    }
    sum.push(carry);
    sum
}

fn length(digits: &str) -> i64 {
    i64::try_from(digits.len()).unwrap_or(i64::MAX)
}

/// Splits at an ASCII character. Faster than `split_once` on the few bytes of an amount.
fn split(text: &str, is_between: impl Fn(u8) -> bool) -> Option<(&str, &str)> {
    let place = text.bytes().position(is_between)?;
    Some((&text[..place], &text[place + 1..]))
}

/// Returns the digits of an integer in any spelling: `30` for `3.0e1`. `None` for other numbers.
pub(crate) fn whole(text: &str) -> Option<String> {
    Value::of(text).filter(Value::is_integer)?.to_plain_string()
}
