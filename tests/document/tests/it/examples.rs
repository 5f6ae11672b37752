//! Examples of the document: complete, valid, and unchanged by a round trip through the generated types.

use serde_json::{Value, json};

use inferstore_document::schema::mistakes;
use inferstore_document::types::rewritten;
use inferstore_document::{items, members, operations, schema};

fn body_examples() -> impl Iterator<Item = (String, &'static Value, &'static Value)> {
    operations().flat_map(|operation| {
        let request = operation.request().map(|content| ("request", content));
        request.into_iter().chain(operation.responses()).flat_map(move |(place, content)| {
            members(&content["examples"]).map(move |(name, example)| {
                (format!("{} {place} {name}", operation.id()), content, &example["value"])
            })
        })
    })
}

#[test]
fn every_operation_shows_its_request_its_success_and_a_failure() {
    for operation in operations() {
        let id = operation.id();
        for parameter in operation.parameters() {
            assert!(
                parameter.get("example").is_some(),
                "{id}: no example of the parameter {}",
                parameter["name"]
            );
        }
        if let Some(content) = operation.request() {
            assert!(members(&content["examples"]).next().is_some(), "{id}: no example of the body");
        }
        let shell = items(&operation.value["x-codeSamples"]).find(|sample| sample["lang"] == "Shell");
        let source = shell.and_then(|sample| sample["source"].as_str()).unwrap_or_default();
        assert!(
            source.starts_with("curl ") && source.to_lowercase().contains("x-api-key: $api_key"),
            "{id}: no complete call: {source}"
        );
        for (code, content) in operation.responses() {
            assert!(members(&content["examples"]).next().is_some(), "{id}: no example of {code}");
        }
    }
}

#[test]
fn every_example_is_valid_against_its_schema() {
    let bodies = body_examples().map(|(place, content, value)| (place, &content["schema"], value));
    let parameters = operations().flat_map(|operation| {
        operation.parameters().map(move |parameter| {
            (
                format!("{} parameter {}", operation.id(), parameter["name"]),
                &parameter["schema"],
                &parameter["example"],
            )
        })
    });
    let found: Vec<_> = bodies
        .chain(parameters)
        .map(|(place, schema, value)| (place, mistakes(schema, value)))
        .filter(|(_, mistakes)| !mistakes.is_empty())
        .collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn the_schemas_refuse_what_they_forbid() {
    let presign = schema("PresignRequest");
    let good = json!({"folder": "samples", "mime": "image/png", "name": "a.png", "size": 1});
    assert_eq!(mistakes(presign, &good), Vec::<String>::new());
    for (field, value) in
        [("folder", json!("attic")), ("size", json!(0)), ("size", json!(104_857_601)), ("name", json!(null))]
    {
        let mut bad = good.clone();
        bad[field] = value;
        assert_eq!(mistakes(presign, &bad).len(), 1, "{bad}");
    }
    assert_eq!(
        mistakes(schema("TaskPage"), &json!({"records": null})),
        Vec::<String>::new(),
        "records may be null"
    );
}

#[test]
fn every_example_of_a_body_decodes_and_encodes_back_to_the_same_json() {
    let mut seen = 0;
    for (place, content, value) in body_examples() {
        let name = content["schema"]["$ref"].as_str().and_then(|reference| reference.rsplit('/').next());
        let again = rewritten(name.unwrap_or_default(), &value.to_string());
        let again = again.unwrap_or_else(|error| panic!("{place}: {error}"));
        let again = serde_json::from_str(&again).expect("it is JSON");
        assert_eq!(without_nulls(again), without_nulls(value.clone()), "{place}");
        seen += 1;
    }
    assert!(seen > 60, "only {seen} examples were seen");
}

/// Null and absent members are equivalent (rule 4 of the document).
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => members
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name, without_nulls(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}
