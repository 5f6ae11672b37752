//! Amounts are exact, in any length and JSON form.

use std::collections::HashSet;

use inferstore_api::{Decimal, types};
use proptest::prelude::*;

const FORTY_DIGITS: &str = "1234567890123456789012.345678901234567890";

fn decimal(text: &str) -> Decimal {
    text.parse().unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

#[test]
fn forty_digits_survive_as_a_string_and_as_a_number() {
    let balance = format!(r#"{{"balance":"{FORTY_DIGITS}"}}"#);
    let read: types::AccountBalance = serde_json::from_str(&balance).expect("it is a balance");
    assert_eq!(read.balance.as_ref().map(Decimal::as_str), Some(FORTY_DIGITS));
    assert_eq!(serde_json::to_string(&read).expect("it is JSON"), balance);

    let cost = format!(r#"{{"cost":{FORTY_DIGITS}}}"#);
    let read: types::TaskCost = serde_json::from_str(&cost).expect("it is a cost");
    assert_eq!(read.cost.as_ref().map(Decimal::as_str), Some(FORTY_DIGITS));
    assert_eq!(serde_json::to_string(&read).expect("it is JSON"), cost);
}

#[test]
fn decimals_compare_by_value() {
    let ascending = [
        "-1e400",
        "-10",
        "-9.99",
        "-0.1",
        "0",
        "1e-400",
        "0.09",
        "0.1",
        "1",
        "1.000000000000000000000000000001",
        "9",
        "10",
        "1e400",
    ];
    for pair in ascending.windows(2) {
        assert!(decimal(pair[0]) < decimal(pair[1]), "{} < {}", pair[0], pair[1]);
    }
    for (one, other) in
        [("1.50", "1.5"), ("0", "-0.000"), ("1e3", "1000"), ("+7", "007"), (".5", "0.5"), ("5.", "5")]
    {
        assert_eq!(decimal(one), decimal(other));
        assert_eq!(HashSet::from([decimal(one), decimal(other)]).len(), 1, "equal values hash alike");
    }
    assert!(decimal("-0.00").is_zero() && !decimal("-0.00").is_negative());
    assert!(decimal("-0.01").is_negative());
}

#[test]
fn what_is_not_a_decimal_is_refused_with_a_reason() {
    for text in ["", ".", "-", "1.2.3", "1,5", "0x10", "NaN", "Infinity", "1e", "1e99999999999", " 1", "١"] {
        assert!(text.parse::<Decimal>().is_err(), "{text:?}");
    }
    let error = serde_json::from_str::<types::TaskCost>(r#"{"cost":"free"}"#).expect_err("it is no amount");
    assert!(error.to_string().contains("not a decimal"), "{error}");
}

mod properties {
    use super::*;

    proptest! {
        #[test]
        fn whole_numbers_compare_as_numbers_do(one in any::<i64>(), other in any::<i64>()) {
            prop_assert_eq!(decimal(&one.to_string()).cmp(&decimal(&other.to_string())), one.cmp(&other));
        }

        #[test]
        fn any_spelling_survives_both_forms(text in "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?") {
            for json in [text.clone(), format!("\"{text}\"")] {
                let read: Decimal = serde_json::from_str(&json).expect("it is a decimal");
                prop_assert_eq!(read.as_str(), &text);
                prop_assert_eq!(serde_json::to_string(&read).expect("it is JSON"), json);
            }
        }

        #[test]
        fn trailing_zeros_and_exponents_do_not_change_a_value(digits in "[1-9][0-9]{0,20}", zeros in 0_usize..20) {
            let plain = decimal(&digits);
            prop_assert_eq!(&plain, &decimal(&format!("{digits}.{}", "0".repeat(zeros))));
            prop_assert_eq!(&plain, &decimal(&format!("0{digits}{}e-{zeros}", "0".repeat(zeros))));
        }
    }
}
