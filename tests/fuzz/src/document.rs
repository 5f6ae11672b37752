//! Oracle for the generated types: responses that the document requires readers to accept, under the most
//! lenient lossless reading.

use inferstore_api::Decimal;
use inferstore_document::{resolve, schema};
use serde_json::Value;

/// Returns true if the type of this name must accept a response: its identifiers are there, and no deviation
/// changes its meaning.
pub(crate) fn must_be_read(name: &str, answer: &Value) -> bool {
    is_reported(schema(name), answer)
}

/// Returns true if a present value has the meaning that its schema requires.
fn is_reported(schema: &'static Value, value: &Value) -> bool {
    let schema = resolve(schema);
    let format = schema["format"].as_str().unwrap_or_default();
    match (schema["type"].as_str(), value) {
        (Some("object"), Value::Object(members)) => {
            let is_required = |name: &str| {
                schema["required"].as_array().is_some_and(|required| required.contains(&name.into()))
            };
            let properties = schema["properties"].as_object().into_iter().flatten();
            let known = properties.into_iter().all(|(name, property)| match members.get(name) {
                None | Some(Value::Null) => !is_required(name),
                Some(value)
                    if is_required(name)
                        && property.get("$ref").is_some()
                        && resolve(property)["type"] == "string" =>
                {
                    value.is_string()
                }
                Some(value) => resolve(property)["x-advisory"] == true || is_reported(property, value),
            });
            let others = &schema["additionalProperties"];
            known
                && (!others.is_object()
                    || members.values().all(|value| value.is_null() || is_reported(others, value)))
        }
        (Some("array"), Value::Array(items)) => {
            items.iter().all(|item| item.is_null() || is_reported(&schema["items"], item))
        }
        // A timestamp is kept with any text.
        (Some("string"), _) if format == "date-time" => true,
        (Some("string" | "number"), _) if schema["x-decimal"] == true => decimal(value).is_some(),
        (Some("string"), Value::String(_) | Value::Number(_) | Value::Bool(_)) => true,
        (Some("integer"), Value::Number(_) | Value::String(_)) => {
            // Integers of 64 bits; a negative count has no meaning.
            let range = 0..=i64::MAX;
            decimal(value).is_some_and(|number| {
                value.as_i64().is_some_and(|whole| range.contains(&whole))
                    || (Decimal::from(0)..=Decimal::from(i64::MAX.unsigned_abs())).contains(&number)
                        && is_whole(&number)
            })
        }
        (Some("boolean"), Value::Bool(_)) => true,
        (Some("boolean"), Value::String(text)) => matches!(text.as_str(), "true" | "false"),
        (None, _) => true,
        _ => false,
    }
}

fn decimal(value: &Value) -> Option<Decimal> {
    match value {
        Value::Number(number) => number.to_string().parse().ok(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

fn is_whole(number: &Decimal) -> bool {
    let plain = number
        .as_str()
        .split_once('.')
        .is_none_or(|(_, fraction)| fraction.bytes().all(|digit| digit == b'0'));
    plain && !number.as_str().contains(['e', 'E'])
}
