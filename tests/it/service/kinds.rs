//! The model kinds: what the service declares and what the document says are two readings of one
//! catalog, and must agree.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::start;
use crate::support::document::{document, members, resolve, schema};

/// What the document says that a descriptor has to say.
fn expected(property: &'static Value) -> BTreeMap<&'static str, Value> {
    let property = resolve(property);
    let mut told = BTreeMap::new();
    if let Some(words) = property.get("enum") {
        told.insert("type", json!("options"));
        told.insert("samples", words.clone());
        return told;
    }
    let kind = match (property["type"].as_str(), property["format"].as_str()) {
        (Some("integer"), _) => "int",
        (Some("number"), _) => "float",
        (_, Some("uri")) => "file",
        _ => "string",
    };
    told.insert("type", json!(kind));
    for (ours, theirs) in [("min", "minimum"), ("max", "maximum")] {
        if let Some(bound) = property.get(theirs) {
            told.insert(ours, bound.clone());
        }
    }
    told
}

/// What a descriptor says, in the same words.
fn declared(descriptor: &Value) -> BTreeMap<&'static str, Value> {
    let mut told = BTreeMap::from([("type", descriptor["type"].clone())]);
    if descriptor["type"] == "options" {
        told.insert("samples", descriptor["samples"].clone());
    }
    for bound in ["min", "max"] {
        if let Some(value) = descriptor["num_config"].get(bound) {
            told.insert(bound, value.clone());
        }
    }
    told
}

#[tokio::test]
async fn the_catalog_declares_the_kinds_as_the_document_describes_them() {
    let (_service, caller) = start().await;
    let mut seen = 0;
    for (_, input) in members(&document()["components"]["schemas"]) {
        let Some(name) = input["x-model-kind"]["name"].as_str() else { continue };
        let output = schema(input["x-model-kind"]["output"].as_str().expect("a kind has an output"));
        let version = caller.get(&format!("/api-key/model/{name}/versioning")).await.data().clone();
        assert_eq!((&version["model_id"], &version["is_active"]), (&json!(name), &json!(true)));
        assert_eq!(version["commit_hash"].as_str().map(str::len), Some(16));
        for (format, schema) in [("input_format", input), ("output_format", output)] {
            let format = version[format].as_object().expect("a format");
            let theirs: BTreeMap<&str, _> =
                members(&schema["properties"]).map(|(name, property)| (name, expected(property))).collect();
            let ours: BTreeMap<&str, _> =
                format.iter().map(|(name, descriptor)| (&**name, declared(descriptor))).collect();
            assert_eq!(ours, theirs, "{name}");
            let mut positions: Vec<_> = format.values().map(|it| it["position"].as_u64()).collect();
            positions.sort_unstable();
            assert_eq!(positions, (0..format.len() as u64).map(Some).collect::<Vec<_>>(), "{name}");
        }
        let inputs = version["input_format"].as_object().expect("a format");
        let required = input["required"].as_array().expect("inputs of kinds are required");
        for (parameter, descriptor) in inputs {
            assert_eq!(descriptor["required"], required.contains(&json!(parameter)), "{name} {parameter}");
            let samples = descriptor["samples"].as_array().expect("every input has samples");
            assert!(!samples.is_empty() && samples.iter().all(Value::is_string), "{name} {parameter}");
        }
        seen += 1;
    }
    assert_eq!(seen, 15);
}
