//! `cargo xtask drift`: an installation that sends what the document says, and others that do not.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::thread;

use serde_json::{Value, json};

use crate::support::{Folder, Said, real_document};

/// A response of the installation: method, path with the names of its parameters in braces, body.
type Response = (String, String, Value);

/// The operations that the task calls, with the examples of the document as their responses.
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

/// Serves these responses until the test ends, and returns the root of the API.
fn installation(responses: Vec<Response>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.expect("a connection"));
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).expect("a head") > 0 {}
            let length = head.to_lowercase().split_once("content-length: ").map_or(0, |(_, rest)| {
                rest.lines().next().and_then(|number| number.parse().ok()).expect("a length")
            });
            stream.read_exact(&mut vec![0; length]).expect("a body");
            let mut words = head.split(' ');
            let method = words.next().unwrap_or_default().to_lowercase();
            let path = words.next().unwrap_or_default().trim_start_matches("/api/v1").to_owned();
            let is_key = head.contains("x-api-key: the-key\r\n");
            // A path without parameters comes before one with.
            let mut known: Vec<&Response> = responses.iter().collect();
            known.sort_by_key(|(_, template, _)| template.contains('{'));
            let fits = |template: &str| {
                let (segments, parts) = (path.split('/').count(), template.split('/').count());
                let same = |(part, segment): (&str, &str)| part == segment || part.starts_with('{');
                segments == parts && template.split('/').zip(path.split('/')).all(same)
            };
            let body = known.into_iter().find(|(known, template, _)| *known == method && fits(template));
            let (status, body) = match body {
                _ if !is_key => ("401 Unauthorized", json!({"status": "fail"})),
                Some((.., body)) => ("200 OK", body.clone()),
                None => ("404 Not Found", json!({"status": "fail"})),
            };
            let body = body.to_string();
            let length = body.len();
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
            stream.get_mut().write_all((head + &body).as_bytes()).expect("the response is read");
        }
    });
    format!("http://{address}/api/v1")
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
}

/// Returns mutations of one response, each with the line of the report about it.
fn mutations(response: &Response) -> Vec<(Value, String)> {
    let (.., body) = response;
    let with = |edit: &dyn Fn(&mut Value)| {
        let mut body = body.clone();
        edit(&mut body);
        body
    };
    let mut mutations = vec![
        (
            with(&|body| body["trace"] = json!("private")),
            "/properties/trace: the document has no such field".to_owned(),
        ),
        (with(&|body| body["status"] = json!("partial")), "the document has no word `partial`".to_owned()),
        (
            with(&|body| _ = body.as_object_mut().expect("an object").remove("status")),
            "/properties/status: is absent".to_owned(),
        ),
        (with(&|body| body["message"] = json!(true)), "/properties/message: is boolean".to_owned()),
    ];
    for (name, value, kind) in
        [("hue", json!(7), "integer"), ("shade", json!("private"), "string"), ("tint", json!(0.5), "number")]
    {
        let said = format!("/properties/{name}: the document has no such field; its value is {kind}");
        mutations.push((with(&|body| body["data"][name] = value.clone()), said));
    }
    mutations
}

#[test]
fn each_difference_is_named_without_its_value_and_the_patch_is_a_document() {
    let examples = examples();
    let mut tried = 0;
    for index in 0..examples.len() {
        for (number, (body, expected)) in mutations(&examples[index]).into_iter().enumerate() {
            let mut responses = examples.clone();
            responses[index].2 = body;
            let base_url = installation(responses);
            let folder = Folder::new(&format!("drift_{index}_{number}"));
            let said = drift(&folder, &base_url, "the-key", &[]);
            assert_eq!(
                (said.code, said.err.as_str()),
                (Some(1), ""),
                "{}: {expected}: {}",
                examples[index].1,
                said.out
            );
            assert!(said.out.contains(&expected), "{expected}: {}", said.out);
            assert!(!said.out.contains("private"), "{}", said.out);
            tried += 1;
            // One patch of each kind is enough: generating takes the time. None brings back what is absent.
            if index != number || expected.ends_with("is absent") {
                continue;
            }
            let patch = drift(&folder, &base_url, "the-key", &["--patch"]).out;
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
    }
    assert!(tried >= 40, "{tried}");
}
