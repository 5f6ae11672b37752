//! The places outside of the document that an operation or a model kind needs, and which of them are missing.

use std::collections::BTreeSet;
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
/// The message of a handler that is not written yet, behind the operation.
pub(crate) const NOT_YET: &str = "is not implemented";
const BUILT_IN: &str = "crates/service/src/catalog/models";

const METHODS: &str = "crates/models/src";

/// Returns a line for each place that an operation or a kind of the document lacks, with the text to put there.
pub(crate) fn left_to_do(root: &Path, document: &Value) -> Result<Vec<String>> {
    let handlers = text_of(&root.join(HANDLERS))?;
    let routes: BTreeSet<String> =
        handlers.split('"').filter(|text| text.starts_with('/')).map(without_names).collect();
    let client = text_of(&root.join(CLIENT))?;
    let wire = text_of(&root.join(WIRE))?;
    let test_kit = text_of(&root.join(TEST_KIT))?;
    let probes = text_of(&root.join(PROBES))?;
    let methods = text_of(&root.join(METHODS))?;
    let mut left = Vec::new();
    for (path, method, _, operation) in operations(document) {
        let id = operation["operationId"].as_str().unwrap_or_default();
        let (name, constant) = (snake_case(id), constant_case(id));
        if !routes.contains(&without_names(path)) {
            left.push(format!(
                "{id}: no handler. In {HANDLERS}/, in the file of its noun:\n    .route(\"{path}\", {method}({name}))\n\
                 async fn {name}(Caller {{ app, account, .. }}: Caller) -> Done<…>"
            ));
        }
        if handlers.contains(&format!("{id} {NOT_YET}")) {
            left.push(format!("{id}: its handler responds with 501. Write `{name}` in {HANDLERS}/"));
        }
        // An alias has no method of its own.
        if operation.get("x-alias-of").is_none() && !client.contains(&format!("operations::{constant}")) {
            left.push(format!(
                "{id}: no method of the client. In {CLIENT}/resources/, in the file of its noun:\n    \
                 core.call(operations::{constant}).send(|api| api.{name}(…)).await\n\
                 and a call of it in {CALLS}"
            ));
        }
        if !wire.contains(&format!("\"{id}\"")) {
            left.push(format!(
                "{id}: no request on the wire. In {WIRE}:\n    sends!({name}, \"{id}\", async |client| client.{name}(…).await);"
            ));
        }
        if operation.get("x-alias-of").is_none() && !test_kit.contains(&format!("\"{id}\"")) {
            left.push(format!(
                "{id}: 404 in the test kit. In `perform` of {TEST_KIT}:\n    \"{id}\" => Some(json!({{…}})),"
            ));
        }
        let takes_something = path.contains('{') || operation.get("requestBody").is_some();
        if takes_something && !probes.contains(&format!("\"{id}\"")) {
            left.push(format!(
                "{id}: no probe by other accounts. In `probes` of {PROBES}, a row for \"{id}\""
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

/// Returns the path without the names of its parameters, which a router may call otherwise.
fn without_names(path: &str) -> String {
    let segments = path.split('/').map(|segment| if segment.starts_with('{') { "{}" } else { segment });
    segments.collect::<Vec<_>>().join("/")
}

/// The text of a file, or of all Rust files in a folder and below.
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
#[expect(clippy::expect_used, reason = "a test that cannot go on says so by panicking")]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::{BUILT_IN, CLIENT, HANDLERS, METHODS, NOT_YET, PROBES, TEST_KIT, WIRE, left_to_do};

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
        write(&methods, "");
        let places = [&handlers, &client, WIRE, TEST_KIT, PROBES];
        places.iter().for_each(|name| write(name, ""));
        fs::create_dir_all(root.path().join(BUILT_IN)).expect("a folder");
        let document = json!({
            "paths": {"/task/{id}/logs": {"get": {"operationId": "getTaskLogs"}}},
            "components": {"schemas": {"EchoInput": {"x-model-kind": {"name": "echo", "output": "EchoOutput"}}}},
        });
        let left = || left_to_do(root.path(), &document).expect("the files can be read");

        let missing = left();
        assert_eq!(missing.len(), 7, "{missing:?}");
        for (place, text) in places.iter().zip([
            ".route(\"/task/{id}/logs\", get(get_task_logs))",
            "operations::GET_TASK_LOGS",
            "sends!(get_task_logs, \"getTaskLogs\"",
            "\"getTaskLogs\" => ",
            "a row for \"getTaskLogs\"",
        ]) {
            let folder = place.trim_end_matches("/tasks.rs");
            assert!(
                missing.iter().any(|line| line.contains(folder) && line.contains(text)),
                "{text}: {missing:?}"
            );
        }

        write(&handlers, &format!(".route(\"/task/{{task}}/logs\", get(logs)) getTaskLogs {NOT_YET}"));
        assert!(left()[0].contains("responds with 501"), "{:?}", left());
        write(&handlers, ".route(\"/task/{task}/logs\", get(logs))");
        write(&client, "core.call(operations::GET_TASK_LOGS)");
        [WIRE, TEST_KIT, PROBES].iter().for_each(|name| write(name, "\"getTaskLogs\""));
        write(&format!("{BUILT_IN}/echo.json"), "{}");
        write(&methods, "\"echo\"");
        assert_eq!(left(), Vec::<String>::new());
    }
}
