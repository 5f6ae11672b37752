//! The definitions of the document and the references to them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Check, did_you_mean, items, members, reference_to, shape, target};
use crate::document::Pointer;

/// The sections of the components whose entries must be of use.
const SECTIONS: [&str; 6] = ["schemas", "responses", "parameters", "requestBodies", "headers", "examples"];

const HOLDS_ONE: [(&str, &str); 4] = [
    ("schema", "schemas"),
    ("items", "schemas"),
    ("additionalProperties", "schemas"),
    ("requestBody", "requestBodies"),
];

const HOLDS_MANY: [(&str, &str); 2] = [("properties", "schemas"), ("allOf", "schemas")];

/// Keywords that hold data or links, where a `$ref` is no reference.
const DATA: [&str; 5] = ["default", "enum", "example", "links", "value"];

impl<'a> Check<'a> {
    pub(super) fn find_definitions(&mut self, value: &'a Value, pointer: &Pointer) {
        for (index, item) in items(value).enumerate() {
            self.find_definitions(item, &pointer.at(index));
        }
        for (key, child) in members(value) {
            let pointer = pointer.at(key);
            let one = HOLDS_ONE.iter().find(|(keyword, _)| *keyword == key);
            let by_name = SECTIONS.iter().map(|section| (*section, *section));
            let many = HOLDS_MANY.into_iter().chain(by_name).find(|(keyword, _)| *keyword == key);
            if let (Some((_, section)), true) = (one, child.is_object()) {
                self.definition(section, child, pointer);
            } else if let Some((_, section)) = many {
                for (index, item) in items(child).enumerate() {
                    self.definition(section, item, pointer.at(index));
                }
                for (name, member) in members(child) {
                    self.definition(section, member, pointer.at(name));
                }
            } else if !DATA.contains(&key) && !key.starts_with("x-") {
                self.find_definitions(child, &pointer);
            }
        }
    }

    fn definition(&mut self, section: &'static str, value: &'a Value, pointer: Pointer) {
        let Some(reference) = value.get("$ref") else {
            self.find_definitions(value, &pointer);
            return self.found.push((section, value, pointer));
        };
        if let Some((beside, _)) = members(value).find(|(key, _)| *key != "$ref") {
            let message =
                format!("`{beside}` does not count beside a $ref; it belongs to what that leads to");
            self.wrong(pointer.at(beside), message);
        }
        let pointer = pointer.at("$ref");
        let folder = reference_to(section, "");
        match reference.as_str().filter(|reference| reference.starts_with(&folder)) {
            Some(reference) => self.references.push((section, reference, pointer)),
            None => {
                let found = shape::describe_value(reference);
                self.wrong(pointer, format!("must be a text that begins with {folder}, not {found}"));
            }
        }
    }

    pub(super) fn references(&mut self) {
        for (section, reference, pointer) in self.references.clone() {
            let components = &self.root["components"][section];
            let name = reference.trim_start_matches(&reference_to(section, ""));
            if components.get(name).is_none() {
                let hint = did_you_mean(name, members(components).map(|(name, _)| name));
                self.wrong(pointer, format!("there is no {reference}{hint}"));
            }
        }
    }

    /// A component that is itself by way of others would be followed forever.
    pub(super) fn rings(&mut self) {
        let mut reported = BTreeSet::new();
        for (section, name) in self.components() {
            let itself = reference_to(section, name);
            let mut seen = BTreeSet::from([itself.as_str()]);
            let mut open = vec![&self.root["components"][section][name]];
            while let Some(value) = open.pop() {
                for reference in same_as(value) {
                    if reference == itself && !reported.contains(reference) {
                        reported.extend(seen.iter().map(ToString::to_string));
                        self.wrong(
                            Pointer::of(&["components", section, name]),
                            "its $ref leads back to it; it must end at a definition",
                        );
                    }
                    if seen.insert(reference) {
                        open.extend(target(self.root, reference));
                    }
                }
            }
        }
    }

    /// A component is used when a path or a used component refers to it; a schema also when `x-model-kind` names it.
    pub(super) fn unused_components(&mut self) {
        let mut used = BTreeSet::new();
        for (input, schema) in members(&self.root["components"]["schemas"]) {
            if let Some(output) = schema["x-model-kind"]["output"].as_str() {
                used.extend([reference_to("schemas", input), reference_to("schemas", output)]);
            }
        }
        let mut reached = 0;
        while reached < used.len() || reached == 0 {
            reached = used.len().max(1);
            for (_, reference, place) in &self.references {
                if owner(place).is_none_or(|owner| used.contains(&owner)) {
                    used.insert((*reference).to_owned());
                }
            }
        }
        for (section, name) in self.components() {
            if !used.contains(&reference_to(section, name)) {
                self.wrong(
                    Pointer::of(&["components", section, name]),
                    "nothing uses it; refer to it or remove it",
                );
            }
        }
    }

    /// Generators make a type of a component of any section; two of one name become `Name` and `Name2`.
    pub(super) fn shared_names(&mut self) {
        let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
        for (section, name) in self.components() {
            if let Some(first) = seen.insert(name, section) {
                let message = format!("the name is taken by components/{first}/{name}; choose another");
                self.wrong(Pointer::of(&["components", section, name]), message);
            }
        }
    }

    fn components(&self) -> Vec<(&'static str, &'a str)> {
        let components = &self.root["components"];
        SECTIONS
            .iter()
            .flat_map(|section| members(&components[section]).map(|(name, _)| (*section, name)))
            .collect()
    }
}

fn owner(place: &Pointer) -> Option<String> {
    match place.keys() {
        [components, section, name, ..] if components == "components" => Some(reference_to(section, name)),
        _ => None,
    }
}

/// Returns the references of the value and of the parts of its `allOf`, but not those of its members.
fn same_as(value: &Value) -> impl Iterator<Item = &str> {
    std::iter::once(value).chain(items(&value["allOf"])).filter_map(|part| part["$ref"].as_str())
}
