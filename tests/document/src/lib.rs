//! The document as data, with the walks over it that tests share; its schemas as judges of JSON; and the generated type
//! of each body and of each model kind.

#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot go on says so by panicking")]

pub mod kinds;
pub mod schema;
pub mod types;

use std::sync::LazyLock;

use serde_json::{Map, Value};

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    serde_saphyr::from_str(include_str!("../../../openapi/inferstore.yaml")).expect("the document is YAML")
});

/// The whole document.
pub fn document() -> &'static Value {
    &DOCUMENT
}

/// One operation of the document.
#[derive(Clone, Copy)]
pub struct Operation {
    /// Its path, with the names of parameters in braces.
    pub path: &'static str,
    /// Its method in small letters.
    pub method: &'static str,
    /// The operation as the document has it.
    pub value: &'static Value,
    shared_parameters: &'static Value,
}

impl Operation {
    /// Its `operationId`.
    pub fn id(self) -> &'static str {
        self.value["operationId"].as_str().expect("every operation has an operationId")
    }

    /// Its parameters, those of the path first, with references followed.
    pub fn parameters(self) -> impl Iterator<Item = &'static Value> {
        items(self.shared_parameters).chain(items(&self.value["parameters"])).map(resolve)
    }

    /// The JSON content of its request body, if it has one.
    pub fn request(self) -> Option<&'static Value> {
        let body = self.value.get("requestBody")?;
        Some(&resolve(body)["content"]["application/json"])
    }

    /// Its responses by status: `200`, `2XX`, `401`, `4XX`, `5XX`.
    pub fn responses(self) -> impl Iterator<Item = (&'static str, &'static Value)> {
        members(&self.value["responses"])
            .map(|(code, response)| (code, &resolve(response)["content"]["application/json"]))
    }
}

/// All operations of the document.
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

/// A schema under `components`, by name.
pub fn schema(name: &str) -> &'static Value {
    document()["components"]["schemas"]
        .get(name)
        .unwrap_or_else(|| panic!("the document has no schema {name}"))
}

/// The target of a `$ref`, or the value itself.
pub fn resolve(value: &'static Value) -> &'static Value {
    match value["$ref"].as_str() {
        Some(reference) => document()
            .pointer(reference.trim_start_matches('#'))
            .unwrap_or_else(|| panic!("{reference} leads nowhere")),
        None => value,
    }
}

/// The members of an object; none for anything else.
pub fn members(value: &'static Value) -> impl Iterator<Item = (&'static str, &'static Value)> {
    value.as_object().into_iter().flat_map(Map::iter).map(|(key, value)| (key.as_str(), value))
}

/// The items of an array; none for anything else.
pub fn items(value: &'static Value) -> impl Iterator<Item = &'static Value> {
    value.as_array().into_iter().flatten()
}

/// The name of the schema of a success of an operation, if there is the operation.
pub fn success_schema(operation: &str) -> Option<&'static str> {
    let operation = operations().find(|known| known.id() == operation)?;
    let (_, content) = operation.responses().find(|(code, _)| *code == "2XX")?;
    content["schema"]["$ref"].as_str()?.rsplit('/').next()
}
