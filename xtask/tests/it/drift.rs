//! `cargo xtask drift`: an installation that sends what the document says, and others that do not.

use std::path::Path;

use inferstore_wire::{Reaction, Request, Server};
use serde_json::{Value, json};

use crate::support::{Folder, Said, real_document};

type Response = (String, String, Value);

fn examples() -> Vec<Response> {
    let document: Value = serde_saphyr::from_str(&real_document()).expect("the document is YAML");
    let resolved = |value: &Value| match value["$ref"].as_str() {
        Some(reference) => {
            document.pointer(reference.trim_start_matches('#')).expect("it leads somewhere").clone()
        }
        None => value.clone(),
    };
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().expect("there are paths") {
        for (method, operation) in item.as_object().expect("a path has operations") {
            if method == "get" || operation["operationId"] == "listModels" {
                let content = &resolved(&operation["responses"]["2XX"])["content"]["application/json"];
                let examples = content["examples"].as_object().expect("there are examples");
                // The one that says most: others show an empty page.
                let example = examples.values().max_by_key(|example| example.to_string().len());
                let example = example.expect("there is an example");
                found.push((method.clone(), path.clone(), resolved(example)["value"].clone()));
            }
        }
    }
    found
}

fn installation(mut responses: Vec<Response>) -> String {
    // A path without parameters comes before one with.
    responses.sort_by_key(|(_, template, _)| template.contains('{'));
    let respond = move |request: &Request| {
        let method = request.method.to_lowercase();
        let path = request.target.trim_start_matches("/api/v1");
        let fits = |template: &str| {
            let (segments, parts) = (path.split('/').count(), template.split('/').count());
            let same = |(part, segment): (&str, &str)| part == segment || part.starts_with('{');
            segments == parts && template.split('/').zip(path.split('/')).all(same)
        };
        let found = responses.iter().find(|(known, template, _)| *known == method && fits(template));
        match found {
            _ if request.header("x-api-key") != Some("the-key") => (401, json!({"status": "fail"})),
            Some((.., body)) => (200, body.clone()),
            None => (404, json!({"status": "fail"})),
        }
    };
    let server = Server::start(move |request| {
        let (status, body) = respond(request);
        Reaction::Json(status, body.to_string())
    });
    server.base_url()
}

fn drift(folder: &Folder, base_url: &str, key: &str, options: &[&str]) -> Said {
    let mut command = folder.xtask(Path::new(env!("CARGO_MANIFEST_DIR")));
    command.args(["drift", "--base-url", base_url]).args(options).env("INFERSTORE_API_KEY", key);
    Said::by(&mut command)
}

#[test]
fn an_installation_that_sends_what_the_document_says_has_no_drift() {
    let folder = Folder::new("drift_none");
    let base_url = installation(examples());
    let report = drift(&folder, &base_url, "the-key", &[]).succeeded();
    assert_eq!(report, "every response is as the document says\n");

    let said = drift(&folder, &base_url, "another-key", &[]);
    assert_eq!((said.code, said.out.as_str()), (Some(2), ""));
    assert!(said.err.contains("INFERSTORE_API_KEY is not a key of this installation"), "{}", said.err);
    assert!(!said.err.contains("another-key"), "{}", said.err);

    let elsewhere = base_url.trim_end_matches("/api/v1").to_owned() + "/api/v2";
    let page = Server::start(|_| Reaction::Json(200, "<!doctype html>".to_owned())).base_url();
    for (base_url, reason) in [(&elsewhere, "every call got 404: "), (&page, " got 200 without JSON: ")] {
        let said = drift(&folder, base_url, "the-key", &[]);
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""));
        assert!(said.err.contains(reason) && said.err.contains("--base-url does not name"), "{}", said.err);
    }
}

/// A change of a response: the path of the operation, the place in the body, and the new value; none to remove it.
type Mutation = (String, String, Option<Value>);

fn mutations(examples: &[Response]) -> Vec<(Mutation, String)> {
    let mut mutations = Vec::new();
    for (number, (_, path, _)) in examples.iter().enumerate() {
        let (data, kind) =
            [(json!(7), "integer"), (json!("private"), "string"), (json!(0.5), "number")][number % 3].clone();
        let new = |name: &str, kind: &str| {
            format!("/properties/{name}: the document has no such field; its value is {kind}")
        };
        for (pointer, value, said) in [
            ("/trace", json!("private"), new("trace", "string")),
            ("/data/hue", data, new("hue", kind)),
            (
                "/status",
                json!("partial"),
                "EnvelopeStatus/x-extensible-enum: the document has no word `partial`".into(),
            ),
            (
                "/message",
                json!(true),
                "/properties/message: is boolean, and the document says otherwise".into(),
            ),
        ] {
            mutations.push(((path.clone(), pointer.to_owned(), Some(value)), said));
        }
    }
    let task = "/api-key/task/{id}/detail";
    let tasks = "/api-key/task/histories";
    let models = "/api-key/model/list";
    let version = "/api-key/model/{id}/versioning";
    for (path, pointer, value, said) in [
        (
            task,
            "/data/status",
            Some(json!("paused")),
            "TaskStatus/x-extensible-enum: the document has no word `paused`",
        ),
        (
            task,
            "/data/status",
            Some(json!("two private words")),
            "TaskStatus/x-extensible-enum: the document has no such word",
        ),
        (task, "/data/task_id", None, "TaskDetail/properties/task_id: is absent"),
        (task, "/data/task_id", Some(Value::Null), "TaskId: is null, and the document promises a value"),
        (task, "/data/cost", Some(json!({"private": 1})), "TaskDetail/properties/cost: is object"),
        (
            task,
            "/data/a private field",
            Some(json!(1)),
            "TaskDetail/properties/…: the document has no such field",
        ),
        (
            tasks,
            "/data/records/0/hue",
            Some(json!(7)),
            "TaskRecord/properties/hue: the document has no such field",
        ),
        (tasks, "/data/records/1/task_id", None, "TaskRecord/properties/task_id: is absent"),
        (tasks, "/data/total", Some(json!("2")), "TaskPage/properties/total: is string"),
        (
            models,
            "/data/records/0/visibility",
            Some(json!("team")),
            "Visibility/x-extensible-enum: the document has no word `team`",
        ),
        (
            models,
            "/data/records/0/is_official",
            Some(json!("private")),
            "ModelSummary/properties/is_official: is string",
        ),
        (models, "/data/records", Some(json!({})), "ModelPage/properties/records: is object"),
        (
            version,
            "/data/input_format/input_image/type",
            Some(json!("video")),
            "DescriptorType/x-extensible-enum: the document has no word `video`",
        ),
        (
            version,
            "/data/input_format/input_image/hue",
            Some(json!("private")),
            "Descriptor/properties/hue: the document has no such field",
        ),
        (
            version,
            "/data/input_format/input_image/required",
            Some(json!(1)),
            "Descriptor/properties/required: is integer",
        ),
    ] {
        mutations.push(((path.to_owned(), pointer.to_owned(), value), said.to_owned()));
    }
    mutations
}

fn mutate(responses: &mut [Response], (path, pointer, value): &Mutation) {
    let (.., body) = responses.iter_mut().find(|(_, known, _)| known == path).expect("it is an operation");
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer begins with a slash");
    let parent = body.pointer_mut(parent).and_then(Value::as_object_mut).expect("the example has it");
    match value {
        Some(value) => _ = parent.insert(name.to_owned(), value.clone()),
        None => _ = parent.remove(name).expect("the example has it"),
    }
}

#[test]
fn each_difference_is_named_by_its_place_and_without_its_value() {
    let examples = examples();
    let mutations = mutations(&examples);
    assert!(mutations.len() >= 40, "{}", mutations.len());
    let folder = Folder::new("drift_each");
    for (mutation, expected) in mutations {
        let mut responses = examples.clone();
        mutate(&mut responses, &mutation);
        let said = drift(&folder, &installation(responses), "the-key", &[]);
        assert_eq!((said.code, said.err.as_str()), (Some(1), ""), "{mutation:?}: {}", said.out);
        assert!(said.out.contains(&expected), "{mutation:?}: {expected}: {}", said.out);
        assert!(!said.out.contains("private"), "{mutation:?}: {}", said.out);
    }
}

/// A patch makes no decision about a field that is absent, an identifier that is null, and a value that needs a schema or
/// has two types at once.
fn has_patch(expected: &str) -> bool {
    !["is absent", "is null", "is object", "no such word", "/…", "required: is integer"]
        .iter()
        .any(|part| expected.contains(part))
}

#[test]
fn the_patch_of_all_differences_is_a_document_that_has_them() {
    let mut responses = examples();
    let patched = mutations(&responses).into_iter().filter(|(_, expected)| has_patch(expected));
    let mut count = 0;
    for (mutation, _) in patched {
        mutate(&mut responses, &mutation);
        count += 1;
    }
    assert!(count >= 40, "{count}");
    let base_url = installation(responses);
    let folder = Folder::new("drift_patch");
    let patch = drift(&folder, &base_url, "the-key", &["--patch"]).out;
    let mut added = patch.lines().filter(|line| line.starts_with('+') && !line.contains("x-extensible-enum"));
    assert!(added.all(|line| !line.contains("private")), "{patch}");
    folder.git(&["init", "--quiet"]);
    folder.write("openapi/inferstore.yaml", &real_document());
    folder.write("drift.patch", &patch);
    folder.git(&["apply", "drift.patch"]);
    folder.write("document.yaml", &folder.read("openapi/inferstore.yaml"));
    folder.generate(&[]).succeeded();
    let options = ["--document", "openapi/inferstore.yaml"];
    let report = drift(&folder, &base_url, "the-key", &options);
    assert_eq!(report.code, Some(0), "{patch}\n{}", report.out);
}
