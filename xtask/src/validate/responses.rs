//! Validation of schemas of responses: they can grow, optional properties may be null, and nothing limits the service.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Check, items, members, operations, resolved, target, texts};
use crate::document::Pointer;

/// Keywords that would make a client refuse a real response.
const LIMITS: [&str; 13] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
];

impl<'a> Check<'a> {
    pub(super) fn response_schemas(&mut self) {
        let mut seen = BTreeSet::new();
        for (path, method, _, operation) in operations(self.root) {
            let pointer = Pointer::of(&["paths", path, method, "responses"]);
            for (code, response) in members(&operation["responses"]) {
                let (response, pointer) = self.followed(response, pointer.at(code));
                for (name, header) in members(&response["headers"]) {
                    let (header, pointer) = self.followed(header, pointer.at("headers").at(name));
                    self.response_schema(&header["schema"], pointer.at("schema"), &mut seen);
                }
                for (kind, media) in members(&response["content"]) {
                    self.response_schema(
                        &media["schema"],
                        pointer.at("content").at(kind).at("schema"),
                        &mut seen,
                    );
                }
            }
        }
        for (_, schema) in members(&self.root["components"]["schemas"]) {
            if let Some(output) = schema["x-model-kind"]["output"].as_str() {
                let pointer = Pointer::of(&["components", "schemas", output]);
                let schema = &self.root["components"]["schemas"][output];
                self.response_schema(schema, pointer, &mut seen);
            }
        }
    }

    fn followed(&self, value: &'a Value, pointer: Pointer) -> (&'a Value, Pointer) {
        match value["$ref"].as_str().and_then(|reference| Some((reference, target(self.root, reference)?))) {
            Some((reference, target)) => self.followed(target, Pointer::of_reference(reference)),
            None => (value, pointer),
        }
    }

    /// Returns true if the schema permits null. A schema without a type permits null if all parts of its `allOf` do.
    fn may_be_null(&self, schema: &'a Value) -> bool {
        let schema = resolved(self.root, schema);
        let has_no_type = schema.get("type").is_none();
        schema["nullable"] == true
            || has_no_type && items(&schema["allOf"]).all(|part| self.may_be_null(part))
    }

    fn response_schema(&mut self, schema: &'a Value, pointer: Pointer, seen: &mut BTreeSet<Pointer>) {
        let (schema, pointer) = self.followed(schema, pointer);
        if !seen.insert(pointer.clone()) {
            return;
        }
        for limit in LIMITS.iter().filter(|limit| schema.get(**limit).is_some()) {
            self.wrong(pointer.at(limit), "a response has no limits, which would make clients refuse it");
        }
        if schema["format"] == "float" {
            self.wrong(pointer.at("format"), "a response keeps the digits of a number; write double");
        }
        if schema.get("enum").is_some() {
            self.wrong(
                pointer.at("enum"),
                "a response can hold other words; list these in x-extensible-enum",
            );
        }
        if schema["properties"].is_object() {
            if schema["additionalProperties"] != true {
                self.wrong(pointer.clone(), "a response can grow; add additionalProperties: true");
            }
            let required: BTreeSet<&str> = texts(&schema["required"]).collect();
            for (name, property) in members(&schema["properties"]) {
                let here = pointer.at("properties").at(name);
                if !required.contains(name) && !self.may_be_null(property) {
                    self.wrong(here.clone(), "an optional property of a response needs nullable: true");
                }
                self.response_schema(property, here, seen);
            }
        }
        for (index, part) in items(&schema["allOf"]).enumerate() {
            self.response_schema(part, pointer.at("allOf").at(index), seen);
        }
        for keyword in ["items", "additionalProperties"] {
            if schema[keyword].is_object() {
                self.response_schema(&schema[keyword], pointer.at(keyword), seen);
            }
        }
    }
}
