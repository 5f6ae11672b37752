//! Inputs of tasks, checked by the client and by the service. The first line is the descriptor of a
//! parameter, every further line a value as JSON.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use inferstore::{Error, InvalidInputs};
use inferstore_api::Decimal;
use inferstore_api::types::Descriptor;
use serde_json::{Value, json};

use inferstore_service::fuzzed::{complaints, is_publishable};

use crate::first_line;
use crate::wire;

/// Invariants: neither check panics. The client sends the given value; sending that again changes nothing,
/// and the service accepts it. A value that the service accepts unchanged is sent by the client. A rejection
/// names the input.
pub fn inputs(data: &[u8]) {
    let (descriptor, given) = first_line(data);
    let Ok(Value::Object(mut descriptor)) = serde_json::from_slice(descriptor) else { return };
    descriptor.entry("position").or_insert(json!(0));
    let declared = json!({ "p": descriptor }).to_string();
    if serde_json::from_str::<BTreeMap<String, Descriptor>>(&declared).is_err() {
        assert!(!is_publishable(&declared), "the client cannot read what the service publishes: {declared}");
        return;
    }
    let is_publishable = is_publishable(&declared);
    for line in given.split(|byte| *byte == b'\n') {
        if let Ok(value) = serde_json::from_slice::<Value>(line) {
            judge(&declared, is_publishable, &value);
        }
    }
}

/// Checks one value by the client, and by the service if it would publish such a model.
fn judge(declared: &str, is_publishable: bool, given: &Value) {
    let complaints = |value: &Value| {
        let declared = Some(declared).filter(|_| is_publishable)?;
        let complaints = complaints(declared, &json!({ "p": value }).to_string());
        let complaints = complaints.expect("what is published can be read, and so can JSON");
        assert!(complaints.iter().all(|complaint| complaint.starts_with("p ")), "{complaints:?}");
        Some(complaints)
    };
    match checked(declared, given) {
        Ok(None) => assert!(given.is_null(), "{given} was lost"),
        Ok(Some(sent)) => {
            assert!(means_the_same(given, &sent), "{given} became {sent}");
            assert_eq!(checked(declared, &sent), Ok(Some(sent.clone())), "{given}, given again");
            let is_refused = complaints(&sent).is_some_and(|complaints| !complaints.is_empty());
            if is_refused && !is_left_to_the_service(&sent) {
                panic!("{declared}\nthe client sends {sent} for {given}, and the service refuses it");
            }
        }
        Err(invalid) => {
            for violation in &invalid.violations {
                assert_eq!(violation.field, "p");
                assert!(violation.message.starts_with("p: "), "{violation}");
            }
            assert!(!invalid.to_string().contains(char::is_control), "{invalid}");
            let is_taken = complaints(given).is_some_and(|complaints| complaints.is_empty());
            assert!(!is_taken, "{declared}\nthe client refuses {given}: {invalid}");
        }
    }
}

fn checked(declared: &str, value: &Value) -> Result<Option<Value>, InvalidInputs> {
    // A new identifier each time, because the client caches declarations.
    static MODELS: AtomicUsize = AtomicUsize::new(0);
    let model = format!("m{}", MODELS.fetch_add(1, Ordering::Relaxed));
    let inputs = inferstore::Inputs::new().set("p", value);
    let declared: Value = serde_json::from_str(declared).expect("it was JSON before");
    let record = wire::success(json!({ "model_id": model, "input_format": declared }));
    match wire::call(0, [record], |client| client.model(&model).run(inputs).check()).0 {
        Ok(mut values) => Ok(values.remove("p")),
        Err(Error::Inputs(invalid)) => Err(invalid),
        Err(error) => panic!("{declared}: {error}"),
    }
}

fn means_the_same(given: &Value, sent: &Value) -> bool {
    let number = |value: &Value| match value {
        Value::Number(number) => number.to_string().parse::<Decimal>().ok(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    given == sent
        || text(given) == text(sent)
        || number(given).is_some_and(|given| number(sent) == Some(given))
}

/// Returns true for values that the client accepts because another service may: numbers with more digits than
/// ours or a JSON number keeps, and URLs with a space.
fn is_left_to_the_service(sent: &Value) -> bool {
    let text = sent.as_str().map_or_else(|| sent.to_string(), str::to_owned);
    let Ok(number) = text.parse::<Decimal>() else {
        return text.contains(char::is_whitespace) && text.contains("://");
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let is_beyond_ours =
        text.contains(['e', 'E']) || whole.len() + fraction.len() > 28 || fraction.len() > 18;
    let as_float =
        text.parse::<f64>().ok().and_then(|float| json!(float).to_string().parse::<Decimal>().ok());
    is_beyond_ours || as_float != Some(number)
}
