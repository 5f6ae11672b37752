//! Endpoints: method, path, parameters, body and `data` of each, the key, and failures.

use super::{Differences, is_our_decision, name_in, spelled};
use inferstore_document::{Operation, document, members, operations};

type Endpoint = (&'static str, &'static [&'static str], &'static str, &'static str);

const NONE: &str = "none";

const ENDPOINTS: &[Endpoint] = &[
    ("GET /api-key/balance", &[], NONE, "AccountBalance"),
    // The body is the model's input object directly.
    ("POST /api-key/model/{id}/task", &["path id string"], "object", "TaskCreated"),
    ("POST /model/{model_id}/task", &["path model_id string"], "object", "TaskCreated"),
    ("GET /api-key/task/{id}/detail", &["path id string"], NONE, "TaskDetail"),
    ("GET /api-key/task/histories", &["query limit integer", "query offset integer"], NONE, "TaskPage"),
    ("DELETE /api-key/task/{id}/cancel", &["path id string"], NONE, NONE),
    ("POST /api-key/model/list", &[], "ModelListRequest", "ModelPage"),
    ("GET /api-key/model/{id}", &["path id string"], NONE, "ModelDetail"),
    ("GET /api-key/model/{id}/task/cost", &["path id string"], NONE, "TaskCost"),
    ("GET /api-key/model/{id}/serving", &["path id string"], NONE, "ServingStatus"),
    ("GET /api-key/model/{id}/versioning", &["path id string"], NONE, "ModelVersioning"),
    ("POST /api-key/storage/upload/create-presigned-url", &[], "PresignRequest", "PresignedUpload"),
    (
        "GET /api-key/storage/upload/{folder}",
        &["path folder string", "query page integer", "query pageSize integer", "query type MimeCategory"],
        NONE,
        "FileListing",
    ),
    ("GET /api-key/storage/upload/statistics", &[], NONE, "StorageStatistics"),
    ("DELETE /api-key/storage/store/url", &[], "FileUrl", NONE),
];

pub(super) fn call(operation: Operation) -> String {
    format!("{} {}", operation.method.to_uppercase(), operation.path)
}

fn envelope(operation: Operation) -> Vec<String> {
    let success = operation.responses().find(|(code, _)| *code == "2XX");
    let schema = success.map(|(_, content)| super::resolve(&content["schema"]));
    let fields = schema.into_iter().flat_map(|schema| members(&schema["properties"]));
    fields.map(|(name, field)| format!("{name} {}", spelled(field))).collect()
}

fn described_operations() -> impl Iterator<Item = Operation> {
    operations().filter(|operation| {
        let is_described = ENDPOINTS.iter().any(|row| row.0 == call(*operation));
        is_described || !is_our_decision(operation.value)
    })
}

#[test]
fn every_endpoint_is_there_with_its_parameters_its_body_and_its_data() {
    let mut differences = Differences::default();
    differences.between(
        "paths",
        ENDPOINTS.iter().map(|row| row.0.to_owned()),
        described_operations().map(call),
    );
    for (described, parameters, body, data) in ENDPOINTS {
        let Some(operation) = operations().find(|operation| call(*operation) == *described) else { continue };

        let promised = operation.parameters().filter(|parameter| {
            let name = parameter["name"].as_str().unwrap_or_default();
            let is_described = parameters.iter().any(|row| row.split(' ').nth(1) == Some(name));
            is_described || !is_our_decision(parameter)
        });
        let documented = promised.map(|parameter| {
            let (place, name) = (parameter["in"].as_str(), parameter["name"].as_str());
            let kind = spelled(&parameter["schema"]);
            format!("{} {} {kind}", place.unwrap_or_default(), name.unwrap_or_default())
        });
        let parameters = parameters.iter().map(ToString::to_string);
        differences.between(&format!("parameters of {described}"), parameters, documented);
        for parameter in operation.parameters() {
            let (must, is_path) = (parameter["required"] == true, parameter["in"] == "path");
            differences.unless(must == is_path, || {
                format!("{described}: {} is required: {must}", parameter["name"])
            });
        }

        let sent = operation.request().map_or(NONE.to_owned(), |content| spelled(&content["schema"]));
        differences.unless(sent == *body, || format!("body of {described}: {body} is described, not {sent}"));

        let shape = ["status EnvelopeStatus".to_owned(), "message string".to_owned()].into_iter();
        let shape = shape.chain((*data != NONE).then(|| format!("data {data}")));
        differences.between(&format!("answer to {described}"), shape, envelope(operation));
    }
    differences.none();
}

#[test]
fn every_endpoint_fails_with_401_4xx_or_5xx_and_always_in_the_one_shape() {
    let mut differences = Differences::default();
    for operation in operations() {
        let place = format!("answers to {}", call(operation));
        differences.between(
            &place,
            ["200", "2XX", "401", "4XX", "5XX"],
            operation.responses().map(|(code, _)| code),
        );
        for (code, content) in operation.responses().filter(|(code, _)| !code.starts_with('2')) {
            let shape = content["schema"]["$ref"].as_str().and_then(name_in);
            differences.unless(shape == Some("Failure"), || format!("{place}: {code} has {shape:?}"));
        }
    }
    differences.none();
}

#[test]
fn every_endpoint_needs_the_key_in_the_header_x_api_key() {
    let schemes: Vec<_> = members(&document()["components"]["securitySchemes"]).collect();
    let [(name, scheme)] = schemes[..] else {
        panic!("one way to authenticate is described, not {schemes:?}")
    };
    assert_eq!(
        (scheme["type"].as_str(), scheme["in"].as_str(), scheme["name"].as_str()),
        (Some("apiKey"), Some("header"), Some("x-api-key")),
    );
    assert_eq!(document()["security"], serde_json::json!([{ name: [] }]));
    let exceptions: Vec<_> =
        operations().filter(|operation| operation.value.get("security").is_some()).map(call).collect();
    assert!(exceptions.is_empty(), "{exceptions:?} have an authentication of their own");
}

#[test]
fn the_root_carries_its_version() {
    let servers: Vec<_> =
        document()["servers"].as_array().into_iter().flatten().map(|server| server["url"].as_str()).collect();
    assert!(!servers.is_empty());
    for root in servers {
        assert!(root.is_some_and(|root| root.ends_with("/api/v1")), "{root:?}");
    }
}
