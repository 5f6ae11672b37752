//! A response beside its schema: every field, word, null and type that the schema does not have.

use std::fmt;

use serde_json::Value;

use crate::document::Place;
use crate::validate::{items, members, target};
use crate::words::OPEN;

/// Limit of the letters of a word that a report shows: anything longer is no word of a vocabulary.
const MAX_WORD: usize = 40;

/// A difference, at a place of the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) place: Place,
    pub(super) difference: Difference,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Difference {
    /// A property of an object, with the JSON type of its value.
    NewField(&'static str),
    /// A word of an open vocabulary; none if it is too long or too odd to be shown.
    NewWord(Option<String>),
    /// Null where a value was promised.
    Null,
    /// Another JSON type.
    Type(&'static str),
    /// A required property that is absent.
    Missing,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        match &self.difference {
            Difference::NewField(kind) => write!(f, "the document has no such field; its value is {kind}"),
            Difference::NewWord(Some(word)) => write!(f, "the document has no word `{word}`"),
            Difference::NewWord(None) => f.write_str("the document has no such word"),
            Difference::Null => f.write_str("is null, and the document promises a value"),
            Difference::Type(kind) => write!(f, "is {kind}, and the document says otherwise"),
            Difference::Missing => f.write_str("is absent, and the document requires it"),
        }
    }
}

/// Adds what differs between a value and a schema of the document, each difference once.
pub(super) fn compare<'a>(
    document: &'a Value,
    schema: &'a Value,
    value: &Value,
    findings: &mut Vec<Finding>,
) {
    Walk { document, findings }.schema(schema, Place::root(), value);
}

struct Walk<'a, 'f> {
    document: &'a Value,
    findings: &'f mut Vec<Finding>,
}

impl<'a> Walk<'a, '_> {
    fn found(&mut self, place: Place, difference: Difference) {
        let finding = Finding { place, difference };
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }

    /// Follows references, also those in an `allOf` of one, which may say that null is a value.
    fn schema(&mut self, mut schema: &'a Value, mut place: Place, value: &Value) {
        let mut is_nullable = schema["nullable"] == true;
        while let Some(reference) = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str()) {
            place = Place::of_reference(reference);
            schema = target(self.document, reference).unwrap_or(&Value::Null);
            is_nullable |= schema["nullable"] == true;
        }
        match value {
            Value::Null if is_nullable || schema.get("type").is_none() => {}
            Value::Null => self.found(place, Difference::Null),
            value => self.value(schema, &place, value),
        }
    }

    fn value(&mut self, schema: &'a Value, place: &Place, value: &Value) {
        let Some(kind) = schema["type"].as_str() else { return };
        if !fits(schema, kind, value) {
            return self.found(place.clone(), Difference::Type(type_name(value)));
        }
        if let (Some(word), true) = (value.as_str(), schema[OPEN].is_array())
            && !items(&schema[OPEN]).any(|known| known == word)
        {
            let is_shown = word.len() <= MAX_WORD
                && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            self.found(place.at(OPEN), Difference::NewWord(is_shown.then(|| word.to_owned())));
        }
        for item in items(value) {
            self.schema(&schema["items"], place.at("items"), item);
        }
        let properties = &schema["properties"];
        for (name, member) in members(value) {
            if let Some(property) = properties.get(name) {
                self.schema(property, place.at("properties").at(name), member);
            } else if schema["additionalProperties"].is_object() {
                self.schema(&schema["additionalProperties"], place.at("additionalProperties"), member);
            } else if properties.is_object() {
                self.found(place.at("properties").at(name), Difference::NewField(type_name(member)));
            }
        }
        for name in items(&schema["required"]).filter_map(Value::as_str) {
            if value.is_object() && value.get(name).is_none() {
                self.found(place.at("properties").at(name), Difference::Missing);
            }
        }
    }
}

fn fits(schema: &Value, kind: &str, value: &Value) -> bool {
    match kind {
        "string" => value.is_string() || schema["x-keep-shape"] == true && value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    }
}

/// The type of a value in the words of the document.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
