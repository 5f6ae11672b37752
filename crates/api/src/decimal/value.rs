//! The value of a decimal without its spelling: comparison, plain notation and sums, digit by digit.

use std::cmp::Ordering;
use std::fmt;

/// An exponent that would become more zeros than this stays an exponent.
const MAX_ZEROS: usize = 40;

/// How many digits integer types hold.
const MAX_INTEGER_DIGITS: i64 = 20;

/// How many digits the operands of a sum may be apart.
const MAX_SUM_DIGITS: usize = 10_000;

/// A decimal without its spelling: `sign × 0.digits × 10^magnitude`, where the digits begin and end
/// with something other than 0. Equal values have equal fields, and nothing is ever expanded, so an
/// exponent of a billion costs no more than one of 2.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Value {
    pub(super) sign: i8,
    pub(super) magnitude: i64,
    digits: String,
}

impl Value {
    pub(super) fn of(text: &str) -> Option<Self> {
        let spelling = Spelling::of(text)?;
        let digits = format!("{}{}", spelling.whole, spelling.fraction);
        let significant = digits.trim_start_matches('0');
        let leading_zeros = digits.len() - significant.len();
        let magnitude =
            i64::from(spelling.exponent) + length(spelling.whole) - i64::try_from(leading_zeros).ok()?;
        let significant = significant.trim_end_matches('0');
        Some(match (significant, spelling.is_negative) {
            ("", _) => Self::default(),
            (digits, true) => Self { sign: -1, magnitude, digits: digits.to_owned() },
            (digits, false) => Self { sign: 1, magnitude, digits: digits.to_owned() },
        })
    }

    /// The power of ten of the last digit.
    fn exponent(&self) -> i64 {
        self.magnitude.saturating_sub(length(&self.digits))
    }

    pub(super) fn is_integer(&self) -> bool {
        self.exponent() >= 0
    }

    pub(super) fn to_plain_string(&self) -> Option<String> {
        let zeros = |count: i64| {
            let count = usize::try_from(count).ok().filter(|count| *count <= MAX_ZEROS)?;
            Some("0".repeat(count))
        };
        let sign = if self.sign < 0 { "-" } else { "" };
        let digits = &self.digits;
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

    /// The exact sum, if it has no more than [`MAX_SUM_DIGITS`] digits more than the operands.
    pub(super) fn checked_add(&self, other: &Self) -> Option<Self> {
        if self.sign == 0 || other.sign == 0 {
            return Some(if self.sign == 0 { other.clone() } else { self.clone() });
        }
        let lowest = self.exponent().min(other.exponent());
        // How many digits each operand has, and how many zeros it needs behind them.
        let shift = |value: &Self| usize::try_from(value.exponent() - lowest).ok();
        let (own_shift, other_shift) = (shift(self)?, shift(other)?);
        if own_shift.max(other_shift) > MAX_SUM_DIGITS + self.digits.len().max(other.digits.len()) {
            return None;
        }
        let ones = self.reversed_digits(own_shift);
        let others = other.reversed_digits(other_shift);
        let is_larger = (self.magnitude, &self.digits) >= (other.magnitude, &other.digits);
        let (sign, sum) = if self.sign == other.sign {
            (self.sign, sum_of(&ones, &others, 1))
        } else if is_larger {
            (self.sign, sum_of(&ones, &others, -1))
        } else {
            (other.sign, sum_of(&others, &ones, -1))
        };
        Some(Self::from_reversed(sign, &sum, lowest))
    }

    /// The digits from the last to the first, with zeros behind the last.
    fn reversed_digits(&self, shift: usize) -> Vec<i8> {
        let digits = self.digits.bytes().rev().map(|byte| i8::try_from(byte - b'0').unwrap_or_default());
        std::iter::repeat_n(0, shift).chain(digits).collect()
    }

    fn from_reversed(sign: i8, digits: &[i8], exponent: i64) -> Self {
        let text: String = digits.iter().rev().map(|digit| char::from(b'0' + digit.unsigned_abs())).collect();
        let text = text.trim_start_matches('0');
        let magnitude = exponent.saturating_add(length(text));
        match text.trim_end_matches('0') {
            "" => Self::default(),
            significant => Self { sign, magnitude, digits: significant.to_owned() },
        }
    }
}

/// `larger ± smaller`, digit by digit from the last.
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

/// The plain spelling, or else one with an exponent.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_plain_string() {
            Some(text) => f.write_str(&text),
            None => {
                let sign = if self.sign < 0 { "-" } else { "" };
                write!(f, "{sign}{}e{}", self.digits, self.exponent())
            }
        }
    }
}

/// The parts of a text that is a decimal: `±whole.fraction × 10^exponent`.
pub(super) struct Spelling<'a> {
    is_negative: bool,
    whole: &'a str,
    fraction: &'a str,
    /// `i32`, so that adding a length to it cannot overflow.
    exponent: i32,
}

impl<'a> Spelling<'a> {
    pub(super) fn of(text: &'a str) -> Option<Self> {
        let (is_negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (mantissa, exponent) = match split(rest, |byte| matches!(byte, b'e' | b'E')) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse().ok()?),
            None => (rest, 0),
        };
        let (whole, fraction) = split(mantissa, |byte| byte == b'.').unwrap_or((mantissa, ""));
        let is_all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let is_empty = whole.is_empty() && fraction.is_empty();
        let is_decimal = !is_empty && is_all_digits(whole) && is_all_digits(fraction);
        is_decimal.then_some(Self { is_negative, whole, fraction, exponent })
    }
}

/// What stands before and behind an ASCII character. On the few bytes of an amount, `split_once` is slower.
fn split(text: &str, is_between: impl Fn(u8) -> bool) -> Option<(&str, &str)> {
    let place = text.bytes().position(is_between)?;
    Some((&text[..place], &text[place + 1..]))
}

/// The digits of a whole number, however it is spelled: `30` of `3.0e1`. None of any other, and of one that
/// no integer type holds.
pub(crate) fn whole(text: &str) -> Option<String> {
    Value::of(text)
        .filter(|value| value.is_integer() && value.magnitude <= MAX_INTEGER_DIGITS)?
        .to_plain_string()
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
