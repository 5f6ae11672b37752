//! Model kinds: the service's declarations and the document agree.

use std::collections::BTreeMap;

use inferstore_document::kinds::kinds;
use inferstore_document::schema::mistakes;
use inferstore_document::{members, operations, resolve};
use serde_json::{Value, json};

use super::start;

fn expected(property: &'static Value) -> BTreeMap<&'static str, Value> {
    let property = resolve(property);
    let mut reported = BTreeMap::new();
    if let Some(words) = property.get("enum") {
        reported.insert("type", json!("options"));
        reported.insert("samples", words.clone());
        return reported;
    }
    let kind = match (property["x-number"]["type"].as_str(), property["format"].as_str()) {
        (Some("integer"), _) => "int",
        (Some(_), _) => "float",
        (None, Some("uri")) => "file",
        _ => "string",
    };
    reported.insert("type", json!(kind));
    if let Some(number) = property.get("x-number") {
        reported.insert("num_config", json!({ "min": number["minimum"], "max": number["maximum"] }));
    }
    if kind == "file" {
        let description = property["description"].as_str().unwrap_or_default().to_lowercase();
        let family = if description.contains("video") { "video" } else { "image" };
        reported.insert("media", json!(family));
    }
    reported
}

fn declared(descriptor: &Value) -> BTreeMap<&'static str, Value> {
    let mut reported = BTreeMap::from([("type", descriptor["type"].clone())]);
    if descriptor["type"] == "options" {
        reported.insert("samples", descriptor["samples"].clone());
    }
    if let Some(range) = descriptor.get("num_config") {
        reported.insert("num_config", range.clone());
    }
    // The first type is that of the description; a built-in model may accept or make further types.
    if let Some(first) = descriptor["mime_type"][0].as_str() {
        reported.insert("media", json!(first.split('/').next()));
    }
    reported
}

#[tokio::test]
async fn the_catalog_declares_the_kinds_as_the_document_describes_them() {
    let (_service, caller) = start().await;
    for kind in kinds() {
        let (name, input, output) = (kind.name, kind.input, kind.output);
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
    }
}

#[tokio::test]
async fn every_input_that_the_document_allows_is_taken() {
    let (service, caller) = start().await;
    for kind in kinds() {
        for input in kind.legal_inputs() {
            assert_eq!(mistakes(kind.input, &input), Vec::<String>::new(), "{}", kind.input_name);
            let path = format!("/api-key/model/{}/task", kind.name);
            let created = caller.post(&path, &input).await;
            assert!(created.data()["data"].is_string(), "{}: {input}", kind.name);
        }
    }
    super::audited(&service).await;
}

#[tokio::test]
async fn every_input_that_the_document_forbids_is_refused() {
    let (_service, caller) = start().await;
    for kind in kinds() {
        let legal = kind.legal_inputs().remove(0);
        for (name, property) in members(&kind.input["properties"]) {
            let property = resolve(property);
            let wrong = match property["x-number"]["type"].as_str() {
                Some("integer") => {
                    vec![
                        json!(30),
                        json!("0"),
                        json!("91"),
                        json!("30.5"),
                        json!("+1"),
                        json!("030"),
                        json!(""),
                    ]
                }
                Some(_) => {
                    vec![
                        json!(0.5),
                        json!("-0.1"),
                        json!("1.01"),
                        json!("5e-1"),
                        json!(".5"),
                        json!("00.5"),
                        json!("-0"),
                        json!("2"),
                    ]
                }
                None => vec![json!(1), json!("poisson"), json!(null)],
            };
            for value in wrong {
                let mut input = legal.clone();
                input[name] = value;
                let is_url = property["format"] == "uri" && input[name].is_string();
                assert!(is_url || !mistakes(kind.input, &input).is_empty(), "{}: {input}", kind.name);
                caller.post(&format!("/api-key/model/{}/task", kind.name), &input).await.refusal(422);
            }
        }
    }
}

#[tokio::test]
async fn every_example_of_create_task_is_an_input_of_its_kind_and_is_taken() {
    let (_service, caller) = start().await;
    let mut seen = 0;
    for operation in operations().filter(|operation| operation.id().starts_with("createTask")) {
        let content = operation.request().expect("creating has a body");
        for (name, example) in members(&content["examples"]) {
            let found = kinds().find(|kind| kind.name == name);
            let kind = found.unwrap_or_else(|| panic!("the example {name} is named after no kind"));
            assert_eq!(mistakes(kind.input, &example["value"]), Vec::<String>::new(), "{name}");
            caller.post(&format!("/api-key/model/{name}/task"), &example["value"]).await.data();
            seen += 1;
        }
    }
    assert!(seen >= 4, "only {seen} examples were seen");
}
