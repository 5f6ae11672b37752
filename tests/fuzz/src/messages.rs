//! Headers and error messages: a value of `Retry-After` on the first line, a decimal on the second, a text
//! after them.

use std::time::Duration;

use http::Response;
use inferstore::Error;
use inferstore_api::{Decimal, Timestamp};
use serde_json::{Value, json};

use crate::first_line;
use crate::wire::{self, KEYS};

const SIGNATURE: &str = "ZmluZSBwcmludA";

/// Invariants: no header makes the client panic. No error shows the key or a signature, in any context. Times
/// and amounts keep their text, and decimals have a total order.
pub fn messages(data: &[u8]) {
    let (header, rest) = first_line(data);
    let (other, text) = first_line(rest);
    retry_after(header);
    let header = String::from_utf8_lossy(header);
    assert_eq!(Timestamp::from(&*header).as_str(), header);
    let _ = Timestamp::from(&*header).to_system_time();
    let (other, text) = (String::from_utf8_lossy(other), String::from_utf8_lossy(text));
    masking(&text);
    decimals(&header, &other);
}

fn retry_after(header: &[u8]) {
    let Ok(response) = Response::builder().status(503).header("retry-after", header).body(String::new())
    else {
        return;
    };
    let error = failure(0, response);
    let seconds = std::str::from_utf8(header).ok().and_then(|text| text.trim().parse().ok());
    if let Some(seconds) = seconds.filter(|_| error.retry_after().is_some()) {
        assert_eq!(error.retry_after(), Some(Duration::from_secs(seconds)));
    }
}

fn failure(key: usize, response: Response<String>) -> Error {
    let (result, _) = wire::call(key, [response], |client| client.balance());
    result.err().unwrap_or_else(|| panic!("it succeeded"))
}

fn masking(text: &str) {
    for (number, key) in KEYS.iter().enumerate() {
        no_error_shows(number, &format!("{text}{key}{text}"), key);
    }
    if !text.contains(SIGNATURE) {
        no_error_shows(0, &format!("{text}&X-Amz-Signature={SIGNATURE}&{text}"), SIGNATURE);
        no_error_shows(0, &format!("{text}\"policy\":\"{SIGNATURE}\""), SIGNATURE);
    }
}

fn no_error_shows(key: usize, text: &str, secret: &str) {
    let refusal = json!({ "status": "fail", "message": text, "data": null }).to_string();
    for (status, body) in [(400, refusal.as_str()), (500, text), (200, text)] {
        let response = Response::builder().status(status).body(body.to_owned()).expect("a response");
        let error = failure(key, response);
        let context = error.context().expect("an error of a call");
        let shown = [context.message.clone(), context.excerpt.clone(), Some(error.to_string())];
        for shown in shown.into_iter().flatten() {
            assert!(!shown.contains(secret), "{text} is shown as {shown}");
            assert!(!shown.contains(char::is_control), "{shown:?} moves a cursor");
        }
        assert!(!format!("{error:?}").contains(secret), "{text} is shown as {error:?}");
    }
}

fn decimals(one: &str, other: &str) {
    let (Ok(one), Ok(other)) = (one.parse::<Decimal>(), other.parse::<Decimal>()) else { return };
    assert_eq!(one.cmp(&other), other.cmp(&one).reverse());
    assert_eq!(one.is_negative(), one < Decimal::from(0));
    assert_eq!(one.is_zero(), one == Decimal::from(0));
    // Clearly different floats compare like decimals.
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
