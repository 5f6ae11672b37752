//! Headers and texts that come with answers: a value of `Retry-After` on the first line, the key of the
//! client on the second, a text after them.

use std::time::{Duration, UNIX_EPOCH};

use inferstore::fuzzed::{redacted, retry_after, same_inputs};
use inferstore_api::{Decimal, Timestamp};
use serde_json::Value;

use crate::first_line;

/// No header makes the client panic. No text shows the key or a signature, whatever stands around it. Times
/// and amounts are kept as they came, and decimals are in one order.
pub fn messages(data: &[u8]) {
    let (header, rest) = first_line(data);
    let (key, text) = first_line(rest);
    let header = String::from_utf8_lossy(header);
    let now = UNIX_EPOCH + Duration::from_secs(1_767_225_600);
    if let (Some(pause), Ok(seconds)) = (retry_after(&header, now), header.trim().parse()) {
        assert_eq!(pause, Duration::from_secs(seconds));
    }
    assert_eq!(Timestamp::from(&*header).as_str(), header);
    let _ = Timestamp::from(&*header).to_system_time();
    let (key, text) = (String::from_utf8_lossy(key), String::from_utf8_lossy(text));
    masking(&key, &text);
    decimals(&header, &key);
    if let (Ok(one), Ok(other)) = (serde_json::from_str::<Value>(&key), serde_json::from_str::<Value>(&text))
    {
        assert!(same_inputs(&one, &one) && same_inputs(&other, &other));
        assert_eq!(same_inputs(&one, &other), same_inputs(&other, &one));
    }
}

fn masking(key: &str, text: &str) {
    let masked = redacted(text, key);
    assert!(!masked.contains(char::is_control), "{masked:?} moves a cursor");
    // Such a key is drawn from letters that the mask does not have.
    if key.len() >= 8 && key.is_ascii() {
        assert!(!masked.contains(key), "{masked}");
        assert!(!redacted(&format!("{text}{key}{text}"), key).contains(key));
    }
    let signature = "ZmluZSBwcmludA";
    if !text.contains(signature) {
        for shown in [
            format!("{text}&X-Amz-Signature={signature}&{text}"),
            format!("{text}\"policy\":\"{signature}\""),
        ] {
            let masked = redacted(&shown, "");
            assert!(!masked.contains(signature), "{shown} is shown as {masked}");
        }
    }
}

fn decimals(one: &str, other: &str) {
    let (Ok(one), Ok(other)) = (one.parse::<Decimal>(), other.parse::<Decimal>()) else { return };
    assert_eq!(one.cmp(&other), other.cmp(&one).reverse());
    assert_eq!(one.is_negative(), one < Decimal::from(0));
    assert_eq!(one.is_zero(), one == Decimal::from(0));
    // What a float holds for sure compares as floats do.
    if let (Ok(first), Ok(second)) = (one.as_str().parse::<f64>(), other.as_str().parse::<f64>())
        && (first - second).abs() > first.abs().max(second.abs()) * 1e-12
        && first.is_finite()
        && second.is_finite()
    {
        assert_eq!(one < other, first < second, "{one} {other}");
    }
    let again: Decimal = serde_json::from_value(Value::String(one.to_string())).expect("it is a decimal");
    assert_eq!(again.as_str(), one.as_str());
}
