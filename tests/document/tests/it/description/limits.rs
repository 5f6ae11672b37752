//! Limits and defaults: every described one is declared, and every other one is marked as our decision.

use serde_json::Value;

use super::{DECISION, Differences};
use inferstore_document::{document, members, operations};

/// Place, keyword and value of each limit. Defaults of bodies are in prose: generators would send declared
/// ones with every call.
const LIMITS: &[(&str, &str, i64)] = &[
    ("GET /api-key/task/histories limit", "default", 10),
    ("GET /api-key/task/histories limit", "maximum", 100),
    ("GET /api-key/task/histories offset", "default", 0),
    ("GET /api-key/storage/upload/{folder} page", "minimum", 1),
    ("PresignRequest.size", "minimum", 1),
    ("PresignRequest.size", "maximum", 104_857_600),
    // Sent as strings with an equivalent pattern: see the kinds of the service.
    ("ColorHarmonizationInput.angle.x-number", "minimum", 1),
    ("ColorHarmonizationInput.angle.x-number", "maximum", 90),
    ("FaceDetectionInput.confidence.x-number", "minimum", 0),
    ("FaceDetectionInput.confidence.x-number", "maximum", 1),
];

const KEYWORDS: &[&str] = &[
    "default",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
];

struct Limit {
    place: String,
    keyword: &'static str,
    value: &'static Value,
    description: &'static str,
}

impl Limit {
    fn is(&self, (place, keyword, value): &(&str, &str, i64)) -> bool {
        self.place == *place && self.keyword == *keyword && *self.value == *value
    }

    /// Returns true if the description beside the limit has the sign of a decision, followed by the value.
    fn is_our_decision(&self) -> bool {
        let decision = self.description.split_once(DECISION).map_or("", |(_, decision)| decision);
        let value = self.value.to_string();
        decision.split(|char: char| !char.is_alphanumeric()).any(|word| word == value)
    }
}

fn limits() -> Vec<Limit> {
    let mut found = Vec::new();
    for operation in operations() {
        for parameter in operation.parameters() {
            let place = format!(
                "{} {} {}",
                operation.method.to_uppercase(),
                operation.path,
                parameter["name"].as_str().unwrap_or_default()
            );
            collect(&place, &parameter["schema"], &parameter["description"], &mut found);
        }
    }
    for (name, schema) in members(&document()["components"]["schemas"]) {
        collect(name, schema, &schema["description"], &mut found);
    }
    found
}

fn collect(place: &str, schema: &'static Value, description: &'static Value, found: &mut Vec<Limit>) {
    let declared = KEYWORDS.iter().filter_map(|keyword| Some((*keyword, schema.get(keyword)?)));
    found.extend(declared.map(|(keyword, value)| Limit {
        place: place.to_owned(),
        keyword,
        value,
        description: description.as_str().unwrap_or_default(),
    }));
    let inner = ["items", "additionalProperties", "x-number"]
        .into_iter()
        .filter_map(|key| Some((key, schema.get(key)?)));
    for (name, inner) in members(&schema["properties"]).chain(inner) {
        collect(&format!("{place}.{name}"), inner, &inner["description"], found);
    }
}

#[test]
fn every_described_limit_is_declared() {
    let limits = limits();
    let mut differences = Differences::default();
    for described in LIMITS {
        let is_there = limits.iter().any(|limit| limit.is(described));
        differences.unless(is_there, || format!("{described:?} is described, but not declared"));
    }
    differences.none();
}

#[test]
fn a_limit_that_is_not_described_is_reported_as_our_decision() {
    let mut differences = Differences::default();
    for limit in limits() {
        let is_described = LIMITS.iter().any(|described| limit.is(described));
        differences.unless(is_described || limit.is_our_decision(), || {
            let Limit { place, keyword, value, .. } = &limit;
            format!("{place}: `{keyword}: {value}` is neither described nor marked as our decision")
        });
    }
    differences.none();
}
