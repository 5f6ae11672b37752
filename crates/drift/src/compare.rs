//! A response beside its schema: every field, word, null and type that the schema does not have.

use std::fmt;

use serde_json::Value;

use crate::{Document, items, members};

/// Limit of a name or a word that a finding shows.
const MAX_NAME: usize = 40;

/// Stands in for a name that is longer or no identifier.
const HIDDEN: &str = "…";

const OPEN: &str = "x-extensible-enum";

/// A difference between a response and the document, without values of the response.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Finding {
    /// The position in the document as a JSON pointer, such as `/components/schemas/TaskDetail/properties/queue_position`.
    pub pointer: String,
    /// The difference.
    pub difference: Difference,
}

/// Differences by type. A type of a value is named as in JSON Schema, such as `integer`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Difference {
    /// An object has a field that the document does not have; its value has this type.
    NewField(&'static str),
    /// A vocabulary has another word. `None` stands for a word that is longer than 40 characters or no identifier.
    NewWord(Option<String>),
    /// A value is null, and the document promises one.
    Null,
    /// A value has this type instead of the documented one.
    Type(&'static str),
    /// A required field is absent.
    Missing,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}: {}", self.pointer, self.difference)
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NewField(name) => write!(f, "the document has no such field; its value is {name}"),
            Self::NewWord(Some(word)) => write!(f, "the document has no word `{word}`"),
            Self::NewWord(None) => f.write_str("the document has no such word"),
            Self::Null => f.write_str("is null, and the document promises a value"),
            Self::Type(name) => write!(f, "is {name}, and the document says otherwise"),
            Self::Missing => f.write_str("is absent, and the document requires it"),
        }
    }
}

pub(super) fn compare<'a>(
    document: &'a Document,
    schema: &'a Value,
    value: &Value,
    findings: &mut Vec<Finding>,
) {
    Walk { document, findings }.schema(schema, String::new(), value);
}

struct Walk<'a, 'f> {
    document: &'a Document,
    findings: &'f mut Vec<Finding>,
}

impl<'a> Walk<'a, '_> {
    fn found(&mut self, pointer: String, difference: Difference) {
        let finding = Finding { pointer, difference };
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }

    /// Follows references, also those in an `allOf` of one, which may say that null is a value.
    fn schema(&mut self, mut schema: &'a Value, mut pointer: String, value: &Value) {
        let mut is_nullable = schema["nullable"] == true;
        while let Some(reference) = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str()) {
            pointer = reference.trim_start_matches('#').to_owned();
            schema = self.document.target(reference);
            is_nullable |= schema["nullable"] == true;
        }
        match value {
            Value::Null if is_nullable || schema.get("type").is_none() => {}
            Value::Null => self.found(pointer, Difference::Null),
            value => self.value(schema, &pointer, value),
        }
    }

    fn value(&mut self, schema: &'a Value, pointer: &str, value: &Value) {
        let Some(kind) = schema["type"].as_str() else { return };
        if !fits(schema, kind, value) {
            return self.found(pointer.to_owned(), Difference::Type(type_name(value)));
        }
        if let (Some(word), true) = (value.as_str(), schema[OPEN].is_array())
            && !items(&schema[OPEN]).any(|known| known == word)
        {
            let shown = is_shown(word).then(|| word.to_owned());
            self.found(format!("{pointer}/{OPEN}"), Difference::NewWord(shown));
        }
        for item in items(value) {
            self.schema(&schema["items"], format!("{pointer}/items"), item);
        }
        let properties = &schema["properties"];
        for (name, member) in members(value) {
            if let Some(property) = properties.get(name) {
                self.schema(property, property_of(pointer, name), member);
            } else if schema["additionalProperties"].is_object() {
                let further = format!("{pointer}/additionalProperties");
                self.schema(&schema["additionalProperties"], further, member);
            } else if properties.is_object() {
                let name = if is_shown(name) { name } else { HIDDEN };
                self.found(property_of(pointer, name), Difference::NewField(type_name(member)));
            }
        }
        for name in items(&schema["required"]).filter_map(Value::as_str) {
            if value.is_object() && value.get(name).is_none() {
                self.found(property_of(pointer, name), Difference::Missing);
            }
        }
    }
}

fn property_of(pointer: &str, name: &str) -> String {
    format!("{pointer}/properties/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// Names of fields and words of vocabularies are short identifiers; anything else may be a value.
fn is_shown(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
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
