//! Validation of paths, operations, parameters, bodies and responses.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::rust_names::{has_one_capital_a_word, is_rust_name};
use super::{Check, did_you_mean, items, members, no_name_of_the_packages, operations, resolved, texts};
use crate::document::Pointer;

const FAILURES: [&str; 3] = ["401", "4XX", "5XX"];
const JSON: &str = "application/json";

/// progenitor sends a header of this name with every request, and `crates/api` removes it.
const HEADER_OF_THE_GENERATOR: &str = "api-version";

/// Reserved words of TypeScript that are none of Python, and the receiver of Python's methods.
const RESERVED_FOR_PARAMETERS: [&str; 22] = [
    "case",
    "catch",
    "const",
    "debugger",
    "default",
    "delete",
    "do",
    "enum",
    "export",
    "extends",
    "function",
    "instanceof",
    "new",
    "null",
    "self",
    "super",
    "switch",
    "this",
    "throw",
    "typeof",
    "var",
    "void",
];

impl<'a> Check<'a> {
    pub(super) fn operations(&mut self) {
        self.paths();
        let root = self.root;
        let mut seen: BTreeMap<&str, Pointer> = BTreeMap::new();
        for (path, method, shared, operation) in operations(root) {
            let pointer = Pointer::of(&["paths", path, method]);
            self.operation_id(&pointer, operation, &mut seen);
            self.tag(&pointer, operation);
            self.path_parameters(path, &pointer, shared, operation);
            self.declared_once(shared, &Pointer::of(&["paths", path, "parameters"]));
            self.declared_once(&operation["parameters"], &pointer.at("parameters"));
            self.responses(&pointer.at("responses"), &operation["responses"]);
        }
        for (parameter, pointer) in self.all("parameters") {
            self.parameter(parameter, &pointer);
        }
        for (response, pointer) in self.all("responses") {
            for (name, link) in members(&response["links"]) {
                let id = &link["operationId"];
                if !operations(root).any(|(_, _, _, operation)| operation["operationId"] == *id) {
                    self.wrong(pointer.at("links").at(name), format!("there is no operation {id}"));
                }
            }
        }
        for section in ["requestBodies", "responses"] {
            for (holder, pointer) in self.all(section) {
                if holder["content"].get(JSON).is_none() {
                    self.wrong(
                        pointer.at("content"),
                        format!("must hold {JSON}, which code is generated from"),
                    );
                }
            }
        }
    }

    fn paths(&mut self) {
        for (path, _) in members(&self.root["paths"]) {
            if names_in(path).is_none() {
                self.wrong(Pointer::of(&["paths", path]), "the braces in the path do not pair up");
            }
        }
    }

    fn operation_id(
        &mut self,
        pointer: &Pointer,
        operation: &'a Value,
        seen: &mut BTreeMap<&'a str, Pointer>,
    ) {
        let Some(id) = operation["operationId"].as_str() else { return };
        let here = pointer.at("operationId");
        if !id.starts_with(|first: char| first.is_ascii_lowercase()) || !has_one_capital_a_word(id) {
            let message = format!("{id} names a Rust method, so it must be written like getTask or readUrl");
            self.wrong(here.clone(), message);
        } else if !is_rust_name(id) {
            self.wrong(here.clone(), format!("names a Rust method, which cannot be called {id}"));
        }
        if let Some(first) = seen.insert(id, pointer.clone()) {
            self.wrong(here, format!("the operationId {id} is taken by {first}"));
        }
    }

    fn tag(&mut self, pointer: &Pointer, operation: &'a Value) {
        let known = || items(&self.root["tags"]).filter_map(|tag| tag["name"].as_str());
        for name in texts(&operation["tags"]) {
            if !known().any(|tag| tag == name) {
                let hint = did_you_mean(name, known());
                self.wrong(pointer.at("tags"), format!("the document describes no tag {name}{hint}"));
            }
        }
    }

    fn path_parameters(&mut self, path: &str, pointer: &Pointer, shared: &'a Value, operation: &'a Value) {
        let all = items(shared).chain(items(&operation["parameters"])).map(|one| resolved(self.root, one));
        let declared: BTreeSet<&str> =
            all.filter(|one| one["in"] == "path").filter_map(|one| one["name"].as_str()).collect();
        // Braces that do not pair up have been reported.
        let Some(names) = names_in(path) else { return };
        let only = |one: &BTreeSet<&str>, other: &BTreeSet<&str>| {
            one.difference(other).copied().collect::<Vec<_>>().join(" and ")
        };
        let message = match (only(&names, &declared), only(&declared, &names)) {
            (used, extra) if used.is_empty() && extra.is_empty() => return,
            (used, extra) if extra.is_empty() => format!("the path parameter {used} is not declared"),
            (used, extra) if used.is_empty() => format!("the path parameter {extra} is not in the path"),
            (used, extra) => format!("the path holds {used} where the parameters declare {extra}"),
        };
        self.wrong(pointer.clone(), message);
    }

    /// The generator keeps one of two parameters of one name.
    fn declared_once(&mut self, parameters: &'a Value, pointer: &Pointer) {
        let mut seen = BTreeSet::new();
        for (index, parameter) in items(parameters).enumerate() {
            let name = resolved(self.root, parameter)["name"].as_str().unwrap_or_default();
            if !seen.insert(name) {
                self.wrong(pointer.at(index), format!("the parameter {name} is declared twice"));
            }
        }
    }

    fn parameter(&mut self, parameter: &'a Value, pointer: &Pointer) {
        if parameter["in"] == "path" && parameter["required"] != true {
            self.wrong(pointer.clone(), "a parameter in the path needs required: true");
        }
        let name = parameter["name"].as_str().unwrap_or_default();
        if parameter["in"] == "header" && name.eq_ignore_ascii_case(HEADER_OF_THE_GENERATOR) {
            self.wrong(pointer.at("name"), format!("the client removes the header {name}; choose another"));
        }
        let reserved = RESERVED_FOR_PARAMETERS.contains(&name).then(|| {
            format!(
                "{name} is a reserved word in a package, whose method could not name it; choose another name"
            )
        });
        // No method takes a header.
        let reason = no_name_of_the_packages(name).or(reserved).filter(|_| parameter["in"] != "header");
        if let Some(reason) = reason {
            self.wrong(pointer.at("name"), reason);
        }
        let kind = resolved(self.root, &parameter["schema"])["type"].as_str().unwrap_or("any value");
        if parameter["in"] != "query" && !["string", "integer", "number", "boolean"].contains(&kind) {
            let message =
                format!("in the path or a header, it must be a text, a number or a boolean, not {kind}");
            self.wrong(pointer.at("schema"), message);
        }
        let style = parameter["style"].as_str();
        let usual = if parameter["in"] == "query" { "form" } else { "simple" };
        if style.is_some_and(|style| style != usual) {
            self.wrong(pointer.at("style"), format!("must be {usual}, the only one that progenitor writes"));
        }
    }

    fn responses(&mut self, pointer: &Pointer, responses: &'a Value) {
        let codes: Vec<&str> = members(responses).map(|(code, _)| code).collect();
        let successes: Vec<&str> = codes.iter().copied().filter(|code| code.starts_with('2')).collect();
        if successes == ["200", "2XX"] && responses["200"] != responses["2XX"] {
            self.wrong(pointer.at("200"), "200 and 2XX must refer to one response");
        } else if successes != ["200", "2XX"] {
            let found = if successes.is_empty() { "none".to_owned() } else { successes.join(" and ") };
            let message =
                format!("must declare one success response as 200 and as 2XX, and declares {found}");
            self.wrong(pointer.clone(), message);
        }
        let success = resolved(self.root, &responses["2XX"]);
        for (kind, _) in members(&success["content"]).filter(|(kind, _)| *kind != JSON) {
            self.wrong(pointer.at("2XX"), format!("a success must be {JSON} alone, not {kind}"));
        }
        for code in FAILURES.iter().filter(|code| !codes.contains(code)) {
            self.wrong(pointer.clone(), format!("the failure response {code} is missing"));
        }
    }
}

fn names_in(path: &str) -> Option<BTreeSet<&str>> {
    let mut pieces = path.split('{');
    let mut between = vec![pieces.next()?];
    let mut names = BTreeSet::new();
    for piece in pieces {
        let (name, rest) = piece.split_once('}')?;
        names.insert(name);
        between.push(rest);
    }
    let is_odd = |name: &&str| name.is_empty() || name.contains('/');
    let is_paired = !between.iter().any(|text| text.contains('}')) && !names.iter().any(is_odd);
    is_paired.then_some(names)
}
