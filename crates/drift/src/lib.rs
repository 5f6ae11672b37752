//! Comparison of the responses of an installation with the OpenAPI document.
//!
#![doc = include_str!("../README.md")]
//!
//! # Invariants
//!
//! A [`Finding`] holds no value of a response. The names of new fields and the words of vocabularies are shown only when
//! they are short identifiers, so a finding can stand in a log, on a terminal or in the label of a metric.

mod compare;
mod survey;

use std::sync::LazyLock;

use serde_json::Value;

pub use compare::{Difference, Finding};
pub use survey::{Call, Survey};

/// The responses of the document alone, written by `cargo xtask generate`.
const EMBEDDED: &str = include_str!("document.json");

/// An OpenAPI document whose responses are compared.
#[derive(Debug)]
pub struct Document(Value);

#[derive(Debug)]
struct Operation<'a> {
    id: &'a str,
    method: &'a str,
    path: &'a str,
    parameters: Vec<&'a Value>,
    value: &'a Value,
}

impl Document {
    /// Takes a document as JSON.
    pub fn new(document: Value) -> Self {
        Self(document)
    }

    /// Returns the document that this version of the crates is generated from. It is parsed at the first call.
    pub fn embedded() -> &'static Self {
        static DOCUMENT: LazyLock<Document> =
            LazyLock::new(|| Document(serde_json::from_str(EMBEDDED).unwrap_or_default()));
        &DOCUMENT
    }

    /// Returns the identifier of the operation that a request reaches; `path` is relative to the base URL.
    ///
    /// ```
    /// let document = inferstore_drift::Document::embedded();
    /// assert_eq!(document.operation("GET", "/api-key/task/4711/detail"), Some("getTask"));
    /// assert_eq!(document.operation("GET", "/elsewhere"), None);
    /// ```
    pub fn operation(&self, method: &str, path: &str) -> Option<&str> {
        let fitting = self.operations().filter(|operation| {
            operation.method.eq_ignore_ascii_case(method) && is_path_of(operation.path, path)
        });
        // A fixed segment comes before a parameter.
        let nearest = fitting.min_by_key(|operation| operation.path.matches('{').count());
        nearest.map(|operation| operation.id)
    }

    /// Returns each difference between the body of a successful response and its schema once.
    pub fn compare(&self, operation: &str, body: &Value) -> Vec<Finding> {
        let mut findings = Vec::new();
        if let Some(operation) = self.operations().find(|known| known.id == operation) {
            let response = self.resolved(&operation.value["responses"]["2XX"]);
            compare::compare(self, &response["content"]["application/json"]["schema"], body, &mut findings);
        }
        findings
    }

    fn operations(&self) -> impl Iterator<Item = Operation<'_>> {
        members(&self.0["paths"]).flat_map(move |(path, item)| {
            members(item).filter_map(move |(method, value)| {
                let parameters = items(&item["parameters"]).chain(items(&value["parameters"]));
                Some(Operation {
                    id: value["operationId"].as_str()?,
                    method,
                    path,
                    parameters: parameters.map(|parameter| self.resolved(parameter)).collect(),
                    value,
                })
            })
        })
    }

    fn resolved<'a>(&'a self, value: &'a Value) -> &'a Value {
        value["$ref"].as_str().map_or(value, |reference| self.target(reference))
    }

    fn target(&self, reference: &str) -> &Value {
        self.0.pointer(reference.trim_start_matches('#')).unwrap_or(&Value::Null)
    }
}

fn is_path_of(template: &str, path: &str) -> bool {
    let mut segments = path.split('/');
    template
        .split('/')
        .all(|part| segments.next().is_some_and(|segment| part == segment || is_parameter(part)))
        && segments.next().is_none()
}

fn is_parameter(segment: &str) -> bool {
    segment.starts_with('{')
}

fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(name, member)| (name.as_str(), member))
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
