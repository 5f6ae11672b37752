//! The document as OpenAPI 3.1, whose schemas are JSON Schemas of 2020-12: the same in another spelling.

use indexmap::IndexMap;
use serde_json::{Value, json};

use openapi_impact::Tree;

const OPENAPI: &str = "3.1.1";

const NAMED_SCHEMAS: [&str; 2] = ["schemas", "properties"];

/// Keywords that hold data, where a `type` is not a type.
const DATA: [&str; 5] = ["example", "examples", "default", "enum", "x-codeSamples"];

pub(super) fn view(document: &Tree) -> Tree {
    let mut view = translated(document);
    if let Tree::Map(members) = &mut view {
        members.insert("openapi".to_owned(), Tree::text(OPENAPI));
    }
    view
}

fn translated(value: &Tree) -> Tree {
    value.map(|key, value| match key {
        "schema" => schema(value),
        key if NAMED_SCHEMAS.contains(&key) => each(value),
        key if DATA.contains(&key) => value.clone(),
        _ => translated(value),
    })
}

pub(super) fn schema(value: &Tree) -> Tree {
    let Tree::Map(members) = value else { return value.clone() };
    let is_true = |key: &str| members.get(key) == Some(&Tree::Scalar(Value::Bool(true)));
    let nullable = is_true("nullable");
    let mut translated = IndexMap::new();
    for (key, value) in members {
        let (key, value) = match key.as_str() {
            "nullable" => continue,
            "type" if nullable => ("type", Tree::List(vec![value.clone(), Tree::text("null")])),
            "enum" if nullable => ("enum", with_null(value)),
            // A limit and whether it counts itself become one.
            "minimum" if is_true("exclusiveMinimum") => ("exclusiveMinimum", value.clone()),
            "maximum" if is_true("exclusiveMaximum") => ("exclusiveMaximum", value.clone()),
            "exclusiveMinimum" | "exclusiveMaximum" => continue,
            "example" => ("examples", Tree::List(vec![value.clone()])),
            "properties" | "allOf" | "oneOf" | "anyOf" => (key.as_str(), each(value)),
            "items" | "additionalProperties" | "not" => (key.as_str(), schema(value)),
            _ => (key.as_str(), value.clone()),
        };
        translated.insert(key.to_owned(), value);
    }
    Tree::Map(translated)
}

fn with_null(words: &Tree) -> Tree {
    let null = Tree::Scalar(json!(null));
    match words {
        Tree::List(words) if !words.contains(&null) => {
            Tree::List(words.iter().cloned().chain([null]).collect())
        }
        other => other.clone(),
    }
}

fn each(schemas: &Tree) -> Tree {
    schemas.map(|_, value| schema(value))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{schema, view};
    use openapi_impact::Tree;

    fn as_value(tree: &Tree) -> Value {
        serde_json::to_value(tree).unwrap_or_default()
    }

    #[test]
    fn a_schema_keeps_its_meaning_in_the_words_of_3_1() {
        for (old, new) in [
            (json!({"type": "string", "nullable": true}), json!({"type": ["string", "null"]})),
            (
                json!({"type": "string", "nullable": true, "enum": ["a"]}),
                json!({"type": ["string", "null"], "enum": ["a", null]}),
            ),
            (json!({"minimum": 0, "exclusiveMinimum": true}), json!({"exclusiveMinimum": 0})),
            (json!({"maximum": 9, "exclusiveMaximum": false}), json!({"maximum": 9})),
            (json!({"example": 7}), json!({"examples": [7]})),
            (
                json!({"properties": {"example": {"type": "string", "nullable": true}}}),
                json!({"properties": {"example": {"type": ["string", "null"]}}}),
            ),
            (
                json!({"additionalProperties": {"items": {"example": "a"}}}),
                json!({"additionalProperties": {"items": {"examples": ["a"]}}}),
            ),
        ] {
            assert_eq!(as_value(&schema(&old.into())), new);
        }
    }

    #[test]
    fn what_is_not_a_schema_stays() {
        let parameter = json!({"name": "a", "example": 1, "schema": {"example": 1}});
        let document = json!({"openapi": "3.0.3", "paths": {"/a": {"parameters": [parameter]}}});
        let expected = json!({"name": "a", "example": 1, "schema": {"examples": [1]}});
        let viewed = as_value(&view(&document.into()));
        assert_eq!(viewed["paths"]["/a"]["parameters"][0], expected);
        assert_eq!(viewed["openapi"], "3.1.1");
    }
}
