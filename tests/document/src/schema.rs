//! Validation of JSON by schemas of the document. OpenAPI 3.0 schemas are nearly JSON Schema; the differences
//! are translated here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use jsonschema::Validator;
use serde_json::{Map, Value, json};

use crate::document;

/// Returns the violations of a schema of the document, which may be a reference.
pub fn mistakes(schema: &Value, value: &Value) -> Vec<String> {
    judged(schema, false, value)
}

/// Like `mistakes`, and rejects fields and words that the schema does not name: readers of the document
/// accept them, but our own service must not send undocumented ones.
pub fn mistakes_of_our_own(schema: &Value, value: &Value) -> Vec<String> {
    judged(schema, true, value)
}

fn judged(schema: &Value, is_closed: bool, value: &Value) -> Vec<String> {
    judge(schema, is_closed)
        .iter_errors(value)
        .map(|error| format!("{error} at {:?}", error.instance_path().to_string()))
        .collect()
}

/// Validators are cached, because compiling one takes longer than validating.
fn judge(schema: &Value, is_closed: bool) -> Arc<Validator> {
    static JUDGES: Mutex<BTreeMap<(bool, String), Arc<Validator>>> = Mutex::new(BTreeMap::new());
    let mut judges = JUDGES.lock().expect("making a judge does not panic");
    let judge = judges.entry((is_closed, schema.to_string())).or_insert_with(|| {
        let read = |schema| if is_closed { closed(translated(schema)) } else { translated(schema) };
        let schema = json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "allOf": [read(schema)],
            "components": {"schemas": read(&document()["components"]["schemas"])},
        });
        let validator = jsonschema::options().should_validate_formats(true).build(&schema);
        Arc::new(validator.expect("a schema of the document becomes a JSON Schema"))
    });
    Arc::clone(judge)
}

/// Translates `nullable` to a type. All other keywords of the document mean the same.
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

fn closed(schema: Value) -> Value {
    match schema {
        Value::Object(members) => {
            let lists_properties = members.get("properties").is_some_and(Value::is_object)
                && members.get("type").is_some_and(|kind| kind.is_string() || kind.is_array());
            let mut members: Map<_, _> =
                members.into_iter().map(|(key, value)| (key, closed(value))).collect();
            if lists_properties {
                members.insert("additionalProperties".to_owned(), Value::Bool(false));
            }
            if let Some(Value::Array(words)) = members.get("x-extensible-enum") {
                let words = words.iter().cloned().chain([Value::Null]).collect();
                members.insert("enum".to_owned(), words);
            }
            Value::Object(members)
        }
        Value::Array(items) => items.into_iter().map(closed).collect(),
        other => other,
    }
}
