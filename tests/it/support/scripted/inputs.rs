//! Whether the inputs of a task are as its model declares them, and spelled as its samples are.

use serde_json::{Map, Value};

/// What is wrong with the inputs, if anything is.
pub(super) fn mistake(inputs: &Map<String, Value>, format: &Value) -> Option<String> {
    format.as_object()?.iter().find_map(|(name, descriptor)| match inputs.get(name) {
        None | Some(Value::Null) => (descriptor["required"] == true).then(|| format!("{name} is required")),
        Some(value) => mistake_in(value, descriptor).map(|rule| format!("{name} must be {rule}")),
    })
}

fn mistake_in(value: &Value, descriptor: &Value) -> Option<String> {
    let samples = descriptor["samples"].as_array().map(Vec::as_slice).unwrap_or_default();
    match descriptor["type"].as_str()? {
        "file" => {
            let is_url = value.as_str().is_some_and(|text| text.starts_with("http"));
            (!is_url).then(|| "the URL of a file".to_owned())
        }
        "options" => (!samples.contains(value)).then(|| "one of the options".to_owned()),
        "string" => (!value.is_string()).then(|| "a text".to_owned()),
        kind @ ("int" | "float") => match samples.first() {
            Some(Value::String(_)) if !value.is_string() => Some("sent as a string".to_owned()),
            Some(Value::Number(_)) if !value.is_number() => Some("sent as a number".to_owned()),
            _ => mistake_in_number(value, kind, &descriptor["num_config"]),
        },
        _ => None,
    }
}

fn mistake_in_number(value: &Value, kind: &str, range: &Value) -> Option<String> {
    let number = match value {
        Value::String(text) => text.parse().ok(),
        other => other.as_f64(),
    };
    let Some(number) = number.filter(|number: &f64| kind == "float" || number.fract() == 0.0) else {
        return Some(format!("of type {kind}"));
    };
    let (min, max) = (range["min"].as_f64(), range["max"].as_f64());
    if min.is_some_and(|min| number < min) || max.is_some_and(|max| number > max) {
        return Some(format!("from {} to {}", range["min"], range["max"]));
    }
    None
}
