//! The places outside of the document that an operation or a model kind needs, and which of them are missing.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use openapi_impact::snake_case;
use serde_json::Value;

use crate::tables::constant_case;
use crate::validate::{members, operations};

pub(crate) const HANDLERS: &str = "crates/service/src/api";
pub(crate) const CLIENT: &str = "crates/client/src";
pub(crate) const WIRE: &str = "crates/api/tests/wire/main.rs";
pub(crate) const CALLS: &str = "tests/it/client/on_the_service/operations.rs";
pub(crate) const TEST_KIT: &str = "crates/testing/src/lib.rs";
pub(crate) const PROBES: &str = "tests/it/stress/authorization/probe.rs";
pub(crate) const NOT_YET: &str = "is not implemented";
const BUILT_IN: &str = "crates/service/src/catalog/models";

const METHODS: &str = "crates/models/src";

pub(crate) struct Code {
    handlers: String,
    texts: Vec<(&'static str, String)>,
}

impl Code {
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let texts = [CLIENT, WIRE, CALLS, TEST_KIT, PROBES];
        let texts = texts.map(|place| Ok((place, text_of(&root.join(place))?)));
        Ok(Self {
            handlers: text_of(&root.join(HANDLERS))?,
            texts: texts.into_iter().collect::<Result<_>>()?,
        })
    }

    pub(crate) fn lacks(&self, path: &str, operation: &Value) -> Vec<&'static str> {
        let id = operation["operationId"].as_str().unwrap_or_default();
        let is_alias = operation.get("x-alias-of").is_some();
        let takes_something = path.contains('{') || operation.get("requestBody").is_some();
        let has_route = self.handlers.split('"').any(|text| without_names(text) == without_names(path));
        let lacks = |(place, text): &(&'static str, String)| {
            let is_there = |part: String| text.contains(&part);
            match *place {
                // An alias has no method of its own.
                CLIENT | CALLS | TEST_KIT if is_alias => false,
                CLIENT => !names(text, &format!("operations::{}", constant_case(id))),
                CALLS => !is_there(format!("(\"{id}\")")),
                PROBES if !takes_something => false,
                _ => !is_there(format!("\"{id}\"")),
            }
        };
        let others = self.texts.iter().filter(|place| lacks(place)).map(|(place, _)| *place);
        (!has_route).then_some(HANDLERS).into_iter().chain(others).collect()
    }
}

pub(crate) fn left_to_do(root: &Path, document: &Value) -> Result<Vec<String>> {
    let code = Code::read(root)?;
    let methods = text_of(&root.join(METHODS))?;
    let mut left = Vec::new();
    for (path, _, _, operation) in operations(document) {
        let id = operation["operationId"].as_str().unwrap_or_default();
        let lacks = code.lacks(path, operation);
        if !lacks.is_empty() {
            left.push(format!(
                "{id} is not in {}\nhint: `cargo xtask scaffold operation {id}` writes it there",
                lacks.join(", ")
            ));
        }
        if code.handlers.contains(&format!("{id} {NOT_YET}")) {
            left.push(format!(
                "{id}: its handler responds with 501. Write `{}` in {HANDLERS}/",
                snake_case(id)
            ));
        }
    }
    for (input, schema) in members(&document["components"]["schemas"]) {
        let Some(kind) = schema["x-model-kind"]["name"].as_str() else { continue };
        if !root.join(BUILT_IN).join(format!("{kind}.json")).exists() {
            left.push(format!("{input}: no model of this kind. {BUILT_IN}/{kind}.json, and its name in `FILES` of built_in.rs"));
        }
        if !methods.contains(&format!("\"{kind}\"")) {
            left.push(format!("{input}: no built-in method of the kind {kind}. In {METHODS}/, and in `built_in` of its lib.rs"));
        }
    }
    Ok(left)
}

/// Returns whether the text has the name, and not only longer ones that begin with it.
fn names(text: &str, name: &str) -> bool {
    let is_longer = |rest: &str| rest.starts_with(|next: char| next.is_alphanumeric() || next == '_');
    text.split(name).skip(1).any(|rest| !is_longer(rest))
}

/// Returns the path without the names of its parameters, which a router may call otherwise.
fn without_names(path: &str) -> String {
    let segments = path.split('/').map(|segment| if segment.starts_with('{') { "{}" } else { segment });
    segments.collect::<Vec<_>>().join("/")
}

pub(crate) fn text_of(path: &Path) -> Result<String> {
    let cannot_read = || format!("cannot read {}", path.display());
    if path.is_file() {
        return fs::read_to_string(path).with_context(cannot_read);
    }
    let mut text = String::new();
    for entry in fs::read_dir(path).with_context(cannot_read)? {
        let path = entry.with_context(cannot_read)?.path();
        if path.is_dir() || path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&text_of(&path)?);
        }
    }
    Ok(text)
}

#[cfg(test)]
#[expect(clippy::expect_used, clippy::panic, reason = "a test that cannot go on says so by panicking")]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::{BUILT_IN, CALLS, CLIENT, HANDLERS, METHODS, NOT_YET, PROBES, TEST_KIT, WIRE, left_to_do};

    #[test]
    fn a_new_operation_lacks_each_place_until_it_is_there() {
        let root = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        let [handlers, client] = [HANDLERS, CLIENT].map(|folder| format!("{folder}/tasks.rs"));
        let methods = format!("{METHODS}/lib.rs");
        for name in [&handlers, &client, &methods, WIRE, CALLS, TEST_KIT, PROBES] {
            write(name, "");
        }
        fs::create_dir_all(root.path().join(BUILT_IN)).expect("a folder");
        let document = json!({
            "paths": {"/task/{id}/logs": {"get": {"operationId": "getTaskLogs"}}},
            "components": {"schemas": {"EchoInput": {"x-model-kind": {"name": "echo", "output": "EchoOutput"}}}},
        });
        let left = || left_to_do(root.path(), &document).expect("the files can be read");

        let [operation, model, method] = &left()[..] else { panic!("{:?}", left()) };
        let places = [HANDLERS, CLIENT, WIRE, CALLS, TEST_KIT, PROBES].join(", ");
        assert!(operation.starts_with(&format!("getTaskLogs is not in {places}\nhint: ")), "{operation}");
        assert!(model.contains("no model") && method.contains("no built-in method"), "{model} {method}");

        write(&handlers, &format!(".route(\"/task/{{task}}/logs\", get(logs)) getTaskLogs {NOT_YET}"));
        write(&client, "core.call(operations::GET_TASK_LOGS_PRICE)");
        assert!(left()[0].contains(CLIENT), "{:?}", left());
        write(&client, "core.call(operations::GET_TASK_LOGS)");
        [WIRE, TEST_KIT, PROBES].iter().for_each(|name| write(name, "\"getTaskLogs\""));
        assert!(left()[0].starts_with(&format!("getTaskLogs is not in {CALLS}\n")), "{:?}", left());
        write(CALLS, "(\"getTaskLogs\")");
        assert!(left()[0].contains("responds with 501"), "{:?}", left());
        write(&handlers, ".route(\"/task/{task}/logs\", get(logs))");
        write(&format!("{BUILT_IN}/echo.json"), "{}");
        write(&methods, "\"echo\"");
        assert_eq!(left(), Vec::<String>::new());
    }
}
