//! What must hold before the document can be generated from. The three linters know OpenAPI; this
//! knows what the generator needs, and names the place of a mistake instead of panicking on it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::document::{Document, Mistake, Place};

const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];
const FAILURES: [&str; 3] = ["401", "4XX", "5XX"];
const TYPES: [&str; 6] = ["string", "number", "integer", "boolean", "array", "object"];

/// All mistakes, in the order of the document.
pub(crate) fn validate(document: &Document) -> Vec<Mistake> {
    let root = &document.value;
    let mut check = Check { root, mistakes: Vec::new() };
    check.version();
    check.references(root, &Place::root());
    if !check.mistakes.is_empty() {
        // Everything below follows references.
        return check.mistakes;
    }
    check.operations();
    check.schemas(root, &Place::root());
    check.model_kinds();
    check.unused_schemas();
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

fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter).map(|(key, value)| (key.as_str(), value))
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

struct Check<'a> {
    root: &'a Value,
    mistakes: Vec<Mistake>,
}

impl<'a> Check<'a> {
    fn wrong(&mut self, place: Place, message: impl Into<String>) {
        self.mistakes.push(Mistake::new(place, message));
    }

    fn version(&mut self) {
        match self.root["openapi"].as_str() {
            Some(version) if version.starts_with("3.0.") => {}
            _ => self.wrong(
                Place::of(&["openapi"]),
                "must be a 3.0.x version, the only one that progenitor reads",
            ),
        }
    }

    /// The target of a reference, or the value itself.
    fn resolve(&self, value: &'a Value) -> &'a Value {
        match value["$ref"].as_str() {
            Some(reference) => self.target(reference).unwrap_or(value),
            None => value,
        }
    }

    fn target(&self, reference: &str) -> Option<&'a Value> {
        self.root.pointer(reference.strip_prefix('#')?)
    }

    fn references(&mut self, value: &'a Value, place: &Place) {
        match value {
            Value::Object(map) => {
                for (key, child) in map {
                    match child {
                        Value::String(reference) if key == "$ref" => {
                            if self.target(reference).is_none() {
                                self.wrong(place.clone(), format!("the $ref {reference} leads nowhere"));
                            }
                        }
                        // Examples are data, not document.
                        _ if key == "example" || key == "value" => {}
                        _ => self.references(child, &place.at(key)),
                    }
                }
            }
            Value::Array(list) => {
                for (index, child) in list.iter().enumerate() {
                    self.references(child, &place.at(index));
                }
            }
            _ => {}
        }
    }

    fn operations(&mut self) {
        let root = self.root;
        let tags: BTreeSet<&str> = items(&root["tags"]).filter_map(|tag| tag["name"].as_str()).collect();
        let mut seen: BTreeMap<&str, Place> = BTreeMap::new();
        for (path, method, shared, operation) in operations(root) {
            let place = Place::of(&["paths", path, method]);
            match operation["operationId"].as_str() {
                None => self.wrong(place.clone(), "the operation has no operationId"),
                Some(id) => {
                    if let Some(first) = seen.insert(id, place.clone()) {
                        self.wrong(
                            place.at("operationId"),
                            format!("the operationId {id} is taken by {first}"),
                        );
                    }
                }
            }
            for tag in items(&operation["tags"]).filter_map(Value::as_str) {
                if !tags.contains(tag) {
                    self.wrong(place.at("tags"), format!("the tag {tag} is not declared under tags"));
                }
            }
            for key in ["summary", "description"] {
                if operation[key].as_str().is_none_or(str::is_empty) {
                    self.wrong(place.clone(), format!("the operation has no {key}"));
                }
            }
            self.path_parameters(path, &place, shared, operation);
            self.responses(&place.at("responses"), &operation["responses"]);
        }
    }

    fn path_parameters(&mut self, path: &str, place: &Place, shared: &'a Value, operation: &'a Value) {
        let declared: BTreeSet<&str> = items(shared)
            .chain(items(&operation["parameters"]))
            .map(|parameter| self.resolve(parameter))
            .filter(|parameter| parameter["in"] == "path")
            .filter_map(|parameter| parameter["name"].as_str())
            .collect();
        let used: BTreeSet<&str> =
            path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
        for name in used.difference(&declared) {
            self.wrong(place.clone(), format!("the path parameter {name} is not declared"));
        }
        for name in declared.difference(&used) {
            self.wrong(place.clone(), format!("the path parameter {name} is not in the path"));
        }
    }

    fn responses(&mut self, place: &Place, responses: &'a Value) {
        let codes: BTreeSet<&str> = members(responses).map(|(code, _)| code).collect();
        let successes = codes.iter().filter(|code| code.starts_with('2')).count();
        if successes != 1 {
            self.wrong(
                place.clone(),
                format!("must hold exactly one success response, and holds {successes}"),
            );
        }
        if codes.contains("default") {
            self.wrong(
                place.at("default"),
                "progenitor cannot read a default response; declare 401, 4XX and 5XX",
            );
        }
        for code in FAILURES {
            if !codes.contains(code) {
                self.wrong(place.clone(), format!("the failure response {code} is missing"));
            }
        }
        for (code, response) in members(responses) {
            let content = &self.resolve(response)["content"]["application/json"];
            if content["schema"].is_null() {
                self.wrong(place.at(code), "the response has no JSON schema");
            }
            if members(&content["examples"]).next().is_none() {
                self.wrong(place.at(code), "the response has no example");
            }
        }
    }

    /// Every schema: known types, `nullable` with a type, `required` names that exist, and a
    /// description wherever a Rust item will need one.
    fn schemas(&mut self, value: &'a Value, place: &Place) {
        let Value::Object(map) = value else {
            if let Value::Array(list) = value {
                list.iter().enumerate().for_each(|(index, child)| self.schemas(child, &place.at(index)));
            }
            return;
        };
        for (key, child) in map {
            match key.as_str() {
                "example" | "examples" | "value" => continue,
                "schema" => self.schema(child, &place.at(key)),
                "schemas" => {
                    members(child).for_each(|(name, schema)| self.schema(schema, &place.at(key).at(name)));
                }
                _ => self.schemas(child, &place.at(key)),
            }
        }
    }

    fn schema(&mut self, schema: &'a Value, place: &Place) {
        if schema.get("$ref").is_some() {
            return;
        }
        if let Some(kind) = schema["type"].as_str() {
            if !TYPES.contains(&kind) {
                self.wrong(place.at("type"), format!("{kind} is not a type"));
            }
        } else if schema["nullable"] == true {
            self.wrong(place.clone(), "nullable needs a type beside it");
        }
        if schema["type"] == "array" && schema["items"].is_null() {
            self.wrong(place.clone(), "the array has no items");
        }
        for name in items(&schema["required"]).filter_map(Value::as_str) {
            if schema["properties"].get(name).is_none() {
                self.wrong(place.at("required"), format!("{name} is required and not among the properties"));
            }
        }
        let names = items(&schema["x-enum-varnames"]).count();
        if names > 0 && names != items(&schema["enum"]).count() {
            self.wrong(place.at("x-enum-varnames"), "must name every word of the enum");
        }
        for (name, property) in members(&schema["properties"]) {
            let place = place.at("properties").at(name);
            if property.get("$ref").is_none() && property["description"].is_null() {
                self.wrong(place.clone(), "the property has no description");
            }
            if property.get("enum").is_some() {
                self.wrong(place.clone(), "an enumeration needs a schema of its own, with a name");
            }
            self.schema(property, &place);
        }
        for key in ["items", "additionalProperties"] {
            if schema[key].is_object() {
                self.schema(&schema[key], &place.at(key));
            }
        }
    }

    fn model_kinds(&mut self) {
        let schemas = Place::of(&["components", "schemas"]);
        let mut names = BTreeSet::new();
        for (input, schema) in members(&self.root["components"]["schemas"]) {
            let kind = &schema["x-model-kind"];
            if kind.is_null() {
                continue;
            }
            let place = schemas.at(input).at("x-model-kind");
            let (Some(name), Some(output)) = (kind["name"].as_str(), kind["output"].as_str()) else {
                self.wrong(place, "must hold a name and an output");
                continue;
            };
            if !names.insert(name) {
                self.wrong(place.clone(), format!("the kind {name} is taken"));
            }
            if self.root["components"]["schemas"].get(output).is_none() {
                self.wrong(place, format!("the output schema {output} does not exist"));
            }
        }
    }

    /// A schema is used when something refers to it or `x-model-kind` names it.
    fn unused_schemas(&mut self) {
        let mut used = BTreeSet::new();
        collect_references(self.root, &mut used);
        for (input, schema) in members(&self.root["components"]["schemas"]) {
            if let Some(output) = schema["x-model-kind"]["output"].as_str() {
                used.extend([reference_to(input), reference_to(output)]);
            }
        }
        for (name, _) in members(&self.root["components"]["schemas"]) {
            if !used.contains(&reference_to(name)) {
                self.wrong(Place::of(&["components", "schemas", name]), "nothing uses the schema");
            }
        }
    }
}

fn reference_to(schema: &str) -> String {
    format!("#/components/schemas/{schema}")
}

fn collect_references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
                found.insert(reference.to_owned());
            }
            map.values().for_each(|child| collect_references(child, found));
        }
        Value::Array(list) => list.iter().for_each(|child| collect_references(child, found)),
        _ => {}
    }
}
