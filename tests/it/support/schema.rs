//! Validates JSON against a schema of the document. OpenAPI 3.0 schemas are nearly JSON Schema; what
//! differs is translated here.

use serde_json::{Map, Value, json};

use super::document::document;

/// What is wrong with the value by a schema of the document, which may be a reference.
pub(crate) fn mistakes(schema: &Value, value: &Value) -> Vec<String> {
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "allOf": [translated(schema)],
        "components": {"schemas": translated(&document()["components"]["schemas"])},
    });
    let validator = jsonschema::options().should_validate_formats(true).build(&schema);
    let validator = validator.expect("a schema of the document becomes a JSON Schema");
    validator
        .iter_errors(value)
        .map(|error| format!("{error} at {:?}", error.instance_path().to_string()))
        .collect()
}

/// `nullable` becomes a type among types. Everything else that the document uses means the same.
fn translated(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            let mut members: Map<_, _> =
                members.iter().map(|(key, value)| (key.clone(), translated(value))).collect();
            if members.remove("nullable") == Some(Value::Bool(true)) {
                let kind = members["type"].take();
                members.insert("type".to_owned(), json!([kind, "null"]));
            }
            Value::Object(members)
        }
        Value::Array(items) => items.iter().map(translated).collect(),
        other => other.clone(),
    }
}
