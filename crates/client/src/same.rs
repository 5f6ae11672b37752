//! Whether two pieces of JSON say the same: numbers by value, and objects without regard to order or
//! to members that are null.

use serde_json::Value;

/// Whether a stored input is the one that was sent.
pub(crate) fn same_json(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => one.keys().chain(other.keys()).all(|name| {
            same_json(one.get(name).unwrap_or(&Value::Null), other.get(name).unwrap_or(&Value::Null))
        }),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same_json(one, other))
        }
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::same_json;

    #[test]
    fn spelling_order_and_nulls_do_not_matter_and_everything_else_does() {
        let sent = json!({"a": 1, "b": ["x", {"c": 0.5}]});
        for stored in [
            json!({"b": ["x", {"c": 0.5, "d": null}], "a": 1.0}),
            json!({"a": 1, "b": ["x", {"c": 5e-1}], "e": null}),
        ] {
            assert!(same_json(&sent, &stored), "{stored}");
        }
        for stored in [
            json!({"a": "1", "b": ["x", {"c": 0.5}]}),
            json!({"a": 1, "b": ["x"]}),
            json!({"a": 1}),
            json!(null),
        ] {
            assert!(!same_json(&sent, &stored), "{stored}");
        }
    }
}
