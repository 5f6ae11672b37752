//! The document as data for tests: traversal, validation by its schemas, and the generated type of each body
//! and model kind.

#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot go on says so by panicking")]

pub mod kinds;
pub mod schema;
pub mod types;

use std::sync::LazyLock;

use serde_json::{Map, Value};

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    serde_saphyr::from_str(include_str!("../../../openapi/inferstore.yaml")).expect("the document is YAML")
});

/// Returns the whole document.
pub fn document() -> &'static Value {
    &DOCUMENT
}

/// Operation of the document.
#[derive(Clone, Copy)]
pub struct Operation {
    /// Path with parameters in braces.
    pub path: &'static str,
    /// Method in lower case.
    pub method: &'static str,
    /// Operation as in the document.
    pub value: &'static Value,
    shared_parameters: &'static Value,
}

impl Operation {
    /// Returns the `operationId`.
    pub fn id(self) -> &'static str {
        self.value["operationId"].as_str().expect("every operation has an operationId")
    }

    /// Returns the parameters, those of the path first, with references resolved.
    pub fn parameters(self) -> impl Iterator<Item = &'static Value> {
        items(self.shared_parameters).chain(items(&self.value["parameters"])).map(resolve)
    }

    /// Returns the JSON content of the request body, if any.
    pub fn request(self) -> Option<&'static Value> {
        let body = self.value.get("requestBody")?;
        Some(&resolve(body)["content"]["application/json"])
    }

    /// Returns the responses by status: `200`, `2XX`, `401`, `4XX`, `5XX`.
    pub fn responses(self) -> impl Iterator<Item = (&'static str, &'static Value)> {
        members(&self.value["responses"])
            .map(|(code, response)| (code, &resolve(response)["content"]["application/json"]))
    }
}

/// Returns all operations of the document.
pub fn operations() -> impl Iterator<Item = Operation> {
    members(&document()["paths"]).flat_map(|(path, item)| {
        members(item).filter(|(key, _)| *key != "parameters").map(move |(method, value)| Operation {
            path,
            method,
            value,
            shared_parameters: &item["parameters"],
        })
    })
}

/// Returns a schema under `components`.
pub fn schema(name: &str) -> &'static Value {
    document()["components"]["schemas"]
        .get(name)
        .unwrap_or_else(|| panic!("the document has no schema {name}"))
}

/// Resolves a `$ref`; returns other values unchanged.
pub fn resolve(value: &'static Value) -> &'static Value {
    match value["$ref"].as_str() {
        Some(reference) => document()
            .pointer(reference.trim_start_matches('#'))
            .unwrap_or_else(|| panic!("{reference} leads nowhere")),
        None => value,
    }
}

/// Returns the members of an object; none of other values.
pub fn members(value: &'static Value) -> impl Iterator<Item = (&'static str, &'static Value)> {
    value.as_object().into_iter().flat_map(Map::iter).map(|(key, value)| (key.as_str(), value))
}

/// Returns the items of an array; none of other values.
pub fn items(value: &'static Value) -> impl Iterator<Item = &'static Value> {
    value.as_array().into_iter().flatten()
}

/// Returns the name of the success schema of an operation.
pub fn success_schema(operation: &str) -> Option<&'static str> {
    let operation = operations().find(|known| known.id() == operation)?;
    let (_, content) = operation.responses().find(|(code, _)| *code == "2XX")?;
    content["schema"]["$ref"].as_str()?.rsplit('/').next()
}
