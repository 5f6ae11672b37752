//! Validation of schemas: their types, properties, descriptions, enumerations and model kinds.

use std::collections::{BTreeMap, BTreeSet};

use openapi_impact::snake_case;
use serde_json::Value;

use super::rust_names::{has_one_capital_a_word, is_rust_name};
use super::{Check, did_you_mean, members, no_name_of_the_packages, resolved, texts};
use crate::document::Pointer;
use crate::lower::max_of_visible_ascii;
use crate::words::{OPEN, OTHER, TERMINAL, Words};

const OWNERS: [(&str, &[&str]); 10] = [
    ("format", &["string", "number", "integer"]),
    ("pattern", &["string"]),
    ("x-number", &["string"]),
    ("x-extensible-enum", &["string"]),
    ("x-decimal", &["string", "number"]),
    ("minimum", &["number", "integer"]),
    ("maximum", &["number", "integer"]),
    ("items", &["array"]),
    ("properties", &["object"]),
    ("additionalProperties", &["object"]),
];

impl<'a> Check<'a> {
    pub(super) fn schemas(&mut self) {
        for (schema, pointer) in self.all("schemas") {
            self.schema_type(schema, &pointer);
            self.schema_parts(schema, &pointer);
            self.properties(schema, &pointer);
            if let Some(name) = component_name(&pointer) {
                self.words(name, schema, &pointer);
            } else if schema["enum"].is_array() || schema[OPEN].is_array() {
                self.wrong(pointer, "a vocabulary needs a schema of its own, under components/schemas");
            }
        }
        for (name, schema) in members(&self.root["components"]["schemas"]) {
            let pointer = Pointer::of(&["components", "schemas", name]);
            if !name.starts_with(|first: char| first.is_ascii_uppercase()) || !has_one_capital_a_word(name) {
                let message = "names a Rust type, so it must be written like TaskStatus or FileUrl";
                self.wrong(pointer.clone(), message);
            } else if !is_rust_name(name) {
                self.wrong(pointer.clone(), format!("names a Rust type, which cannot be called {name}"));
            }
            if let Some(target) = schema["$ref"].as_str() {
                self.wrong(pointer, format!("is only a second name of {target}; use that one"));
            }
        }
        self.titles();
        self.model_kinds();
    }

    /// The title of an inline object names a Rust type; of two alike, one would silently stand in for the other.
    fn titles(&mut self) {
        let mut seen: BTreeMap<&str, Pointer> = BTreeMap::new();
        for (name, _) in members(&self.root["components"]["schemas"]) {
            seen.insert(name, Pointer::of(&["components", "schemas", name]));
        }
        for (schema, pointer) in self.all("schemas").into_iter().filter(|(schema, _)| has_properties(schema))
        {
            let Some(title) = schema["title"].as_str().filter(|_| component_name(&pointer).is_none()) else {
                continue;
            };
            if let Some(first) = seen.insert(title, pointer.clone()) {
                self.wrong(pointer.at("title"), format!("the title {title} is taken by {first}"));
            }
        }
    }

    fn schema_type(&mut self, schema: &'a Value, pointer: &Pointer) {
        let kind = schema["type"].as_str();
        if kind.is_none() && schema["nullable"] == true {
            return self.wrong(pointer.clone(), "nullable needs a type beside it");
        }
        let is_named =
            || members(&self.root["components"]["schemas"]).any(|(_, named)| std::ptr::eq(named, schema));
        let is_visible_ascii = max_of_visible_ascii(schema).is_some() && is_named();
        if !is_visible_ascii && schema.get("pattern").is_some() != schema.get("x-number").is_some() {
            // progenitor turns any other pattern into code that needs a regular expression engine.
            self.wrong(
                pointer.clone(),
                "pattern and x-number go together: a number that travels as a string",
            );
        }
        if kind == Some("array") && schema["items"].is_null() {
            self.wrong(pointer.clone(), "the array has no items");
        }
        for (keyword, owners) in OWNERS {
            if schema.get(keyword).is_some() && !kind.is_some_and(|kind| owners.contains(&kind)) {
                self.wrong(
                    pointer.clone(),
                    format!("{keyword} needs type: {} beside it", owners.join(" or ")),
                );
            }
        }
    }

    /// Requires a description on each schema that becomes a Rust item, and one `$ref` alone in each `allOf`, which
    /// serves to put a description on a reference.
    fn schema_parts(&mut self, schema: &'a Value, pointer: &Pointer) {
        if (component_name(pointer).is_some() || has_properties(schema)) && is_undescribed(schema) {
            self.wrong(pointer.clone(), "the schema has no description");
        }
        let Some(parts) = schema["allOf"].as_array() else { return };
        let here = pointer.at("allOf");
        let [part] = &parts[..] else {
            return self
                .wrong(here, "must hold one $ref; the generator loses the descriptions of what it merges");
        };
        if part["$ref"].is_null() || has_properties(schema) {
            return self.wrong(here, "must hold one $ref, and nothing to merge it with");
        }
        let (own, other) = (schema["type"].as_str(), resolved(self.root, part)["type"].as_str());
        if let (Some(own), Some(other)) = (own, other)
            && own != other
        {
            self.wrong(here, format!("nothing can be {own} and {other} at once"));
        }
    }

    fn properties(&mut self, schema: &'a Value, pointer: &Pointer) {
        let names = || members(&schema["properties"]).map(|(name, _)| name);
        for name in texts(&schema["required"]) {
            if !names().any(|known| known == name) {
                let hint = did_you_mean(name, names());
                self.wrong(
                    pointer.at("required"),
                    format!("{name} is required and not among the properties{hint}"),
                );
            }
        }
        for (name, property) in members(&schema["properties"]) {
            if name.contains(|letter: char| letter.is_ascii_uppercase()) {
                let message = format!("properties are written in snake_case: {}", snake_case(name));
                self.wrong(pointer.at("properties").at(name), message);
            } else if let Some(reason) = no_name_of_the_packages(name) {
                self.wrong(pointer.at("properties").at(name), reason);
            }
            // A `$ref` has the description of its target, and a property with properties is reported as a schema.
            if property.get("$ref").is_none() && !has_properties(property) && is_undescribed(property) {
                self.wrong(pointer.at("properties").at(name), "the property has no description");
            }
        }
    }

    fn words(&mut self, name: &str, schema: &'a Value, pointer: &Pointer) {
        let keyword = if schema.get(OPEN).is_some() { OPEN } else { "enum" };
        if let Some(word) =
            texts(&schema[TERMINAL]).find(|word| !texts(&schema[OPEN]).any(|known| known == *word))
        {
            self.wrong(pointer.at(TERMINAL), format!("{word} is no word of {OPEN}"));
        }
        let Some(list) = schema[keyword].as_array() else {
            if schema.get("x-enum-varnames").is_some() {
                self.wrong(pointer.at("x-enum-varnames"), "needs an enum beside it");
            }
            return;
        };
        if schema["type"] != "string" {
            return self.wrong(pointer.clone(), "a vocabulary needs type: string beside it");
        }
        if keyword == OPEN && schema.get("enum").is_some() {
            return self
                .wrong(pointer.at("enum"), "a vocabulary is an enum or an x-extensible-enum, not both");
        }
        if list.len() < 2 {
            let message =
                "a vocabulary has two words or more; is a word missing, or is this a text with an example?";
            return self.wrong(pointer.at(keyword), message);
        }
        let varnames = schema["x-enum-varnames"].as_array();
        if let Some(names) = varnames.filter(|names| names.len() != list.len()) {
            return self.wrong(
                pointer.at("x-enum-varnames"),
                format!("must name all {} words of the enum, and names {}", list.len(), names.len()),
            );
        }
        // Tools show the words of an enum by themselves.
        let read = Words::read(name, schema).filter(|_| keyword == OPEN);
        for word in read.iter().flat_map(Words::undescribed) {
            let item = format!("- `{word}`: …");
            self.wrong(
                pointer.at("description"),
                format!("states no meaning of {word}; add the list item {item}"),
            );
        }
        for (word, missing) in read.iter().flat_map(Words::half_terminal) {
            self.wrong(pointer.at(TERMINAL), format!("{word}: {missing}"));
        }
        self.variants(name, schema, keyword, pointer);
    }

    /// Every word must become a variant of its own.
    fn variants(&mut self, name: &str, schema: &'a Value, keyword: &str, pointer: &Pointer) {
        let is_open = keyword == OPEN;
        let is_named = schema["x-enum-varnames"].is_array();
        let hint = if is_named { "" } else { "; name the words in x-enum-varnames" };
        let read = Words::read(name, schema);
        let mut seen: Vec<(&str, &str)> = Vec::new();
        for (index, (variant, word)) in read.iter().flat_map(Words::variants).enumerate() {
            let here = pointer.at(if is_named { "x-enum-varnames" } else { keyword }).at(index);
            let first = seen.iter().find(|(other, _)| *other == variant);
            if seen.iter().any(|(_, other)| *other == word) {
                self.wrong(pointer.at(keyword).at(index), format!("the word {word} is there twice"));
            } else if let Some((_, first)) = first {
                self.wrong(here, format!("{first} and {word} both become the variant {variant}{hint}"));
            } else if !is_rust_name(variant) {
                self.wrong(
                    here,
                    format!("{word} becomes the variant {variant:?}, which is not a Rust name{hint}"),
                );
            } else if is_open && variant == OTHER {
                self.wrong(
                    here,
                    format!("{word} becomes {OTHER}, which open vocabularies keep for unknown words{hint}"),
                );
            }
            seen.push((variant, word));
        }
    }

    fn model_kinds(&mut self) {
        let schemas = &self.root["components"]["schemas"];
        let mut names = BTreeSet::new();
        for (input, schema) in members(schemas) {
            let kind = &schema["x-model-kind"];
            let (Some(name), Some(output)) = (kind["name"].as_str(), kind["output"].as_str()) else {
                continue;
            };
            let pointer = Pointer::of(&["components", "schemas", input, "x-model-kind"]);
            if !names.insert(name) {
                self.wrong(pointer.at("name"), format!("the kind {name} is taken"));
            }
            if schemas.get(output).is_none() {
                let hint = did_you_mean(output, members(schemas).map(|(name, _)| name));
                self.wrong(pointer.at("output"), format!("the output schema {output} does not exist{hint}"));
            }
        }
    }
}

fn component_name(pointer: &Pointer) -> Option<&str> {
    match pointer.keys() {
        [components, schemas, name] if components == "components" && schemas == "schemas" => Some(name),
        _ => None,
    }
}

fn has_properties(schema: &Value) -> bool {
    members(&schema["properties"]).next().is_some()
}

fn is_undescribed(schema: &Value) -> bool {
    schema["description"].as_str().is_none_or(|text| text.trim().is_empty())
}
