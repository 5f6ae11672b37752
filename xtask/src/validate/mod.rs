//! What must hold before the document can be generated from. The three linters know OpenAPI; this
//! knows what the generator needs, and names the place of a mistake instead of panicking on it.

mod keywords;
mod operations;
mod responses;
pub(crate) mod rust_names;
mod schemas;
mod shapes;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use similar::get_close_matches;

use openapi_impact::METHODS;

use crate::document::{Document, Mistake, Place};

/// The sections of the components whose entries must be of use.
const SECTIONS: [&str; 6] = ["schemas", "responses", "parameters", "requestBodies", "headers", "examples"];

/// How alike two words must be for one to be a slip of the other.
const ALIKE: f32 = 0.75;

/// All mistakes. Each step relies on what the steps before it have found to be right; a step that
/// finds mistakes is the last, since the next would only find their consequences.
pub(crate) fn validate(document: &Document) -> Vec<Mistake> {
    let root = &document.value;
    let mut check = Check { root, mistakes: Vec::new(), found: Vec::new(), references: Vec::new() };
    let steps: [fn(&mut Check<'_>); 9] = [
        |check| check.version(),
        |check| check.shape(check.root, &keywords::DOCUMENT, Place::root()),
        |check| check.references(),
        |check| check.rings(),
        |check| check.schemas(),
        |check| check.operations(),
        |check| check.response_schemas(),
        |check| check.shared_names(),
        |check| check.unused_components(),
    ];
    for step in steps {
        step(&mut check);
        if !check.mistakes.is_empty() {
            break;
        }
    }
    check.mistakes
}

/// Every operation with its place: path, method, the path item's parameters and the operation.
pub(crate) fn operations(root: &Value) -> impl Iterator<Item = (&str, &str, &Value, &Value)> {
    members(&root["paths"]).flat_map(|(path, item)| {
        METHODS.iter().filter_map(move |method| {
            item.get(method).map(|operation| (path, *method, &item["parameters"], operation))
        })
    })
}

pub(crate) fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter).map(|(key, value)| (key.as_str(), value))
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    items(value).filter_map(Value::as_str)
}

/// The end of a message about a word that is not known, if one of the known ones is much like it.
fn did_you_mean<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    get_close_matches(word, &known, 1, ALIKE)
        .first()
        .map_or_else(String::new, |close| format!("; did you mean {close}?"))
}

struct Check<'a> {
    root: &'a Value,
    mistakes: Vec<Mistake>,
    /// Everything that could stand in a section of the components, wherever it stands: the section,
    /// the thing and its place.
    found: Vec<(&'static str, &'a Value, Place)>,
    /// Every reference: the section that it must lead to, the reference and its place.
    references: Vec<(&'static str, &'a str, Place)>,
}

impl<'a> Check<'a> {
    fn wrong(&mut self, place: Place, message: impl Into<String>) {
        self.mistakes.push(Mistake::new(place, message));
    }

    /// Everything found of one section.
    fn all(&self, wanted: &str) -> Vec<(&'a Value, Place)> {
        let of_section = self.found.iter().filter(|(section, ..)| *section == wanted);
        of_section.map(|(_, value, place)| (*value, place.clone())).collect()
    }

    fn version(&mut self) {
        if self.root.get("openapi").is_none() {
            return self
                .wrong(Place::root(), "is not an OpenAPI document; it must begin with openapi: 3.0.3");
        }
        let version = self.root["openapi"].as_str().and_then(|version| version.strip_prefix("3.0."));
        if version.is_none_or(|patch| patch.parse::<u32>().is_err()) {
            self.wrong(
                Place::of(&["openapi"]),
                "must be a 3.0.x version such as 3.0.3, the only one that progenitor reads",
            );
        }
    }

    fn references(&mut self) {
        for (section, reference, place) in self.references.clone() {
            let components = &self.root["components"][section];
            let name = reference.trim_start_matches(&reference_to(section, ""));
            if components.get(name).is_none() {
                let hint = did_you_mean(name, members(components).map(|(name, _)| name));
                self.wrong(place, format!("there is no {reference}{hint}"));
            }
        }
    }

    /// The target of a reference, or the value itself.
    fn resolve(&self, mut value: &'a Value) -> &'a Value {
        while let Some(target) = value["$ref"].as_str().and_then(|reference| self.target(reference)) {
            value = target;
        }
        value
    }

    fn target(&self, reference: &str) -> Option<&'a Value> {
        self.root.pointer(reference.strip_prefix('#')?)
    }

    /// A component that is itself by way of others would be followed forever.
    fn rings(&mut self) {
        let mut told = BTreeSet::new();
        for (section, name) in self.components() {
            let itself = reference_to(section, name);
            let mut seen = BTreeSet::from([itself.as_str()]);
            let mut open = vec![&self.root["components"][section][name]];
            while let Some(value) = open.pop() {
                for reference in same_as(value) {
                    if reference == itself && !told.contains(reference) {
                        told.extend(seen.iter().map(ToString::to_string));
                        self.wrong(
                            Place::of(&["components", section, name]),
                            "its $ref leads back to it; it must end at a definition",
                        );
                    }
                    if seen.insert(reference) {
                        open.extend(self.target(reference));
                    }
                }
            }
        }
    }

    /// A component is used when something refers to it; a schema also when `x-model-kind` names it.
    fn unused_components(&mut self) {
        let mut used: BTreeSet<String> =
            self.references.iter().map(|(_, reference, _)| (*reference).to_owned()).collect();
        for (input, schema) in members(&self.root["components"]["schemas"]) {
            if let Some(output) = schema["x-model-kind"]["output"].as_str() {
                used.extend([reference_to("schemas", input), reference_to("schemas", output)]);
            }
        }
        for (section, name) in self.components() {
            if !used.contains(&reference_to(section, name)) {
                self.wrong(
                    Place::of(&["components", section, name]),
                    "nothing uses it; refer to it or remove it",
                );
            }
        }
    }

    /// Generators make a type of a component of any section; two of one name become `Name` and `Name2`.
    fn shared_names(&mut self) {
        let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
        for (section, name) in self.components() {
            if let Some(first) = seen.insert(name, section) {
                let message = format!("the name is taken by components/{first}/{name}; choose another");
                self.wrong(Place::of(&["components", section, name]), message);
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

fn reference_to(section: &str, name: &str) -> String {
    format!("#/components/{section}/{name}")
}

/// What the value is, or is composed of: not what it holds.
fn same_as(value: &Value) -> impl Iterator<Item = &str> {
    std::iter::once(value).chain(items(&value["allOf"])).filter_map(|part| part["$ref"].as_str())
}
