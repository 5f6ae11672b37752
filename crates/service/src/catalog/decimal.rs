//! Numbers of inputs as exact decimals: a step of 0.1 means 0.1, which no binary float is.

/// How many digits a number may have behind the point.
const DECIMALS: usize = 18;
/// How many digits it may have before the point: every 64-bit number fits.
const WHOLE_DIGITS: usize = 20;

/// An exact decimal, counted in 10^-18. With 20 digits before the point it fits and can be subtracted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Decimal(i128);

impl Decimal {
    pub(crate) const ZERO: Self = Self(0);

    /// Reads a plain number: a sign perhaps, digits, and perhaps a point with digits behind it. No
    /// exponent, no spaces, no words such as "inf".
    pub(crate) fn plain(text: &str) -> Option<Self> {
        let (sign, digits) = match text.strip_prefix('-') {
            Some(digits) => (-1, digits),
            None => (1, text),
        };
        let (whole, fraction) = match digits.split_once('.') {
            Some((_, "")) => return None,
            Some(parts) => parts,
            None => (digits, ""),
        };
        let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
            return None;
        }
        Self::of(sign, whole, fraction)
    }

    /// Reads a number as JSON spells it, perhaps with an exponent.
    pub(crate) fn json(text: &str) -> Option<Self> {
        let Some((digits, exponent)) = text.split_once(['e', 'E']) else { return Self::plain(text) };
        let exponent: i32 = exponent.parse().ok()?;
        let shift = usize::try_from(exponent.unsigned_abs()).ok()?;
        if shift > DECIMALS + WHOLE_DIGITS {
            return None;
        }
        Self::plain(digits)?;
        let (sign, digits) = match digits.strip_prefix('-') {
            Some(digits) => (-1, digits),
            None => (1, digits),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if exponent < 0 {
            let padded = format!("{}{whole}", "0".repeat(shift));
            let (whole, moved) = padded.split_at_checked(padded.len().checked_sub(shift)?)?;
            Self::of(sign, whole, &format!("{moved}{fraction}"))
        } else {
            let padded = format!("{fraction}{}", "0".repeat(shift));
            let (moved, fraction) = padded.split_at_checked(shift)?;
            Self::of(sign, &format!("{whole}{moved}"), fraction)
        }
    }

    fn of(sign: i128, whole: &str, fraction: &str) -> Option<Self> {
        let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
        if whole.len() > WHOLE_DIGITS || fraction.len() > DECIMALS {
            return None;
        }
        let units: i128 = format!("0{whole}{fraction:0<DECIMALS$}").parse().ok()?;
        Some(Self(sign * units))
    }

    /// Whether the number lies on the grid that starts at `base` and has this step. A step that is not
    /// above zero makes no grid.
    pub(crate) fn is_on_grid(self, base: Self, step: Self) -> bool {
        step.0 <= 0 || self.0.checked_sub(base.0).is_some_and(|distance| distance % step.0 == 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_exact() {
        let on_grid = |value, base, step| {
            let [value, base, step] = [value, base, step].map(Decimal::plain);
            value.zip(base).zip(step).is_some_and(|((value, base), step)| value.is_on_grid(base, step))
        };
        assert!(on_grid("0.3", "0", "0.1"), "a float would say 2.9999999999999996 steps");
        assert!(on_grid("1.15", "0.05", "0.1"));
        assert!(!on_grid("0.30000000000000001", "0", "0.1"));
        assert!(on_grid("5", "0", "0"));
        assert!(!on_grid("99999999999999999999", "-99999999999999999999", "7"));
    }

    #[test]
    fn what_is_no_plain_number_is_not_read() {
        for text in ["", "-", ".5", "5.", "+5", "1e3", " 5", "5 ", "inf", "NaN", "0x10", "1,5", "٣", "--1"] {
            assert_eq!(Decimal::plain(text), None, "{text:?}");
        }
        assert_eq!(Decimal::plain("100000000000000000000"), None, "21 digits");
        assert_eq!(Decimal::plain("0.0000000000000000001"), None, "19 digits behind the point");
        assert_eq!(Decimal::json("1e400"), None);
        assert_eq!(Decimal::json("1e99999999999"), None);
    }

    mod properties {
        use super::*;

        proptest! {
            #[test]
            fn an_exponent_is_another_spelling(units in -1_000_000_000_i64..1_000_000_000, places in 0_usize..10) {
                let digits = format!("{:0>11}", units.unsigned_abs());
                let (whole, fraction) = digits.split_at(digits.len() - places);
                let sign = if units < 0 { "-" } else { "" };
                let plain = if places == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") };
                let value = Decimal::plain(&plain);
                prop_assert!(value.is_some());
                prop_assert_eq!(Decimal::json(&format!("{units}e-{places}")), value);
                prop_assert_eq!(Decimal::json(&format!("{units}.0E+0")), Decimal::plain(&units.to_string()));
            }

            #[test]
            fn the_order_is_that_of_the_numbers(a in any::<i64>(), b in any::<i64>()) {
                let read = |number: i64| Decimal::plain(&number.to_string());
                prop_assert_eq!(read(a).cmp(&read(b)), a.cmp(&b));
            }

            #[test]
            fn nothing_makes_the_reader_fail(text in "[-+0-9.eE]{0,60}") {
                let _ = (Decimal::plain(&text), Decimal::json(&text));
            }
        }
    }
}
