//! Collections of requests for Postman and Bruno, from the examples of the document: a chained run, then the others.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use openapi_impact::{METHODS, Tree};
use serde_json::{Value, json};

/// Requests of a run, in their order. `uploadBytes` and `downloadResult` talk to object storage.
const RUN: [&str; 5] = ["createPresignedUpload", "uploadBytes", "createTask", "getTask", "downloadResult"];

const CHAINED: [(&str, &str); 3] = [
    ("#/components/schemas/TaskId", "task_id"),
    ("#/components/schemas/IdempotencyKey", "create_key"),
    ("#/components/schemas/KeyId", "key_id"),
];

const FILES: &str = "https://storage.inferstore.example/";

const ABOUT: &str = "Set `base_url`, `api_key`, and `size`: the size in bytes of `photo.png`, a picture of at most \
    5,242,880 bytes that the request `uploadBytes` sends. The first five requests run a model on that picture; the others \
    call every other operation, and the last one deletes the uploaded file. A run of all creates two tasks, which are billed.";

#[derive(Default)]
struct Scripts {
    before: &'static str,
    after: String,
    test: &'static str,
}

struct Request {
    name: String,
    method: String,
    url: String,
    headers: Vec<(String, String)>,
    body: Option<String>,
    description: String,
    scripts: Scripts,
}

impl Request {
    fn is_call(&self) -> bool {
        self.url.starts_with("{{base_url}}")
    }

    fn is_upload(&self) -> bool {
        self.name == RUN[1]
    }
}

pub(super) fn files(document: &Tree, version: &str) -> Result<BTreeMap<String, String>> {
    let requests = requests(document)?;
    let base_url = document["servers"].items().first().and_then(|server| server["url"].as_str());
    let base_url = base_url.context("the document has no server")?;
    let name = format!("Inferstore API {version}");
    let mut files: BTreeMap<String, String> =
        (1..).zip(&requests).map(|(at, request)| bruno(at, request)).collect();
    files.insert("postman_collection.json".to_owned(), super::pretty(&postman(&requests, &name, base_url))?);
    let collection = json!({"version": "1", "name": name, "type": "collection"});
    files.insert("bruno/bruno.json".to_owned(), super::pretty(&collection)?);
    files.insert("bruno/collection.bru".to_owned(), block("docs", ABOUT));
    let variables = block("vars", &format!("base_url: {base_url}\nsize: 0"));
    files.insert("bruno/environments/service.bru".to_owned(), variables + "\nvars:secret [\n  api_key\n]\n");
    Ok(files)
}

fn requests(document: &Tree) -> Result<Vec<Request>> {
    let mut calls: Vec<Request> = Vec::new();
    for tag in document["tags"].items() {
        for (path, item) in document["paths"].members() {
            for (method, operation) in item.members().filter(|(method, _)| METHODS.contains(method)) {
                if operation["tags"].items().first() == Some(&tag["name"]) {
                    let parameters = [&item["parameters"], &operation["parameters"]];
                    calls.push(call(document, (method, path), parameters, operation));
                }
            }
        }
    }
    let mut requests = Vec::new();
    for name in RUN {
        let found = calls.iter().position(|call| call.name == name);
        requests.push(match (found, name) {
            (Some(at), _) => calls.remove(at),
            (None, "uploadBytes") => {
                storage(name, "POST", "{{endpoint}}", "Sends the picture to object storage, without the key.")
            }
            (None, "downloadResult") => {
                storage(name, "GET", "{{result_url}}", "Reads the picture that the model made.")
            }
            (None, _) => anyhow::bail!("the document has no operation {name}"),
        });
    }
    requests.extend(calls);
    let terminal = document["components"]["schemas"]["TaskStatus"]["x-terminal"].items();
    let terminal = serde_json::to_string(terminal).context("cannot write the terminal statuses")?;
    for request in &mut requests {
        request.scripts = scripts(&request.name, &terminal);
    }
    Ok(requests)
}

fn storage(name: &str, method: &str, url: &str, description: &str) -> Request {
    Request {
        name: name.to_owned(),
        method: method.to_owned(),
        url: url.to_owned(),
        headers: Vec::new(),
        body: None,
        description: description.to_owned(),
        scripts: Scripts::default(),
    }
}

fn call(document: &Tree, (method, path): (&str, &str), parameters: [&Tree; 2], operation: &Tree) -> Request {
    let mut url = format!("{{{{base_url}}}}{path}");
    let mut query = Vec::new();
    let mut headers = Vec::new();
    for parameter in
        parameters.into_iter().flat_map(Tree::items).map(|parameter| parameter.resolved(document))
    {
        let name = parameter["name"].as_str().unwrap_or_default();
        let schema = parameter["schema"]["$ref"].as_str();
        let chained = CHAINED.iter().find(|(of, _)| schema == Some(of));
        let value = match chained {
            Some((_, variable)) => format!("{{{{{variable}}}}}"),
            None => text(&parameter["example"]),
        };
        match parameter["in"].as_str() {
            Some("path") => url = url.replace(&format!("{{{name}}}"), &value),
            Some("query") => query.push(format!("{name}={value}")),
            _ => headers.push((name.to_owned(), value)),
        }
    }
    if !query.is_empty() {
        url.push_str(&format!("?{}", query.join("&")));
    }
    let content = &operation["requestBody"].resolved(document)["content"]["application/json"];
    let example = content["examples"].members().next().map(|(_, example)| with_variables(&example["value"]));
    let body = example.and_then(|example| serde_json::to_string_pretty(&example).ok());
    Request {
        headers,
        // A size is a number.
        body: body.map(|body| body.replace("\"{{size}}\"", "{{size}}")),
        ..storage(
            operation["operationId"].as_str().unwrap_or_default(),
            &method.to_uppercase(),
            &url,
            operation["description"].as_str().unwrap_or_default().trim(),
        )
    }
}

fn text(value: &Tree) -> String {
    match value {
        Tree::Scalar(Value::String(text)) => text.clone(),
        Tree::Scalar(scalar) => scalar.to_string(),
        _ => String::new(),
    }
}

fn with_variables(value: &Tree) -> Tree {
    if value.as_str().is_some_and(|text| text.starts_with(FILES)) {
        return Tree::text("{{file_url}}");
    }
    value.map(|name, value| if name == "size" { Tree::text("{{size}}") } else { with_variables(value) })
}

fn scripts(name: &str, terminal: &str) -> Scripts {
    let (before, after) = match name {
        "createPresignedUpload" => ("", UPLOAD),
        "uploadBytes" => (
            r#"const fields = Object.entries(JSON.parse(GET("fields")));
ADD_FIELDS;"#,
            "",
        ),
        "createTask" | "createTaskAlias" => (CREATE_KEY, CREATED),
        "getTask" => ("", POLL),
        "createKey" => ("", MADE),
        _ => ("", ""),
    };
    let test = match name {
        "cancelTask" => r#"TEST("cancels, or comes too late", () => EXPECT(STATUS).to.be.within(200, 499));"#,
        "createKey" | "revokeKey" => {
            r#"TEST("succeeds, or the service does not permit it", () => EXPECT(STATUS).to.be.within(200, 499));"#
        }
        "getTask" => {
            r#"TEST("has not failed", () => EXPECT(DATA.status).to.not.be.oneOf(["failed", "canceled"]));"#
        }
        _ => r#"TEST("succeeds", () => EXPECT(STATUS).to.be.within(200, 299));"#,
    };
    Scripts { before, after: after.replace("TERMINAL", terminal), test }
}

const UPLOAD: &str = r#"if (STATUS < 300) {
  SET("endpoint", DATA.endpoint);
  SET("fields", DATA.fields);
  SET("file_url", DATA.download_url);
}"#;

const CREATE_KEY: &str = r#"// A create that is sent again after a lost response carries the same key.
if (!GET("create_key")) SET("create_key", require("uuid").v4());"#;

const CREATED: &str = r#"if (STATUS < 300) {
  SET("task_id", DATA.data);
  SET("create_key", "");
}"#;

const MADE: &str = r#"if (STATUS < 300) SET("key_id", DATA.id);"#;

const POLL: &str = r#"if (STATUS < 300 && !TERMINAL.includes(DATA.status)) {
  AGAIN;
} else if (STATUS < 300) {
  SET("result_url", DATA.result?.result?.output_image);
}"#;

const POSTMAN: [(&str, &str); 8] = [
    ("GET", "pm.collectionVariables.get"),
    ("SET", "pm.collectionVariables.set"),
    ("STATUS", "pm.response.code"),
    ("DATA", "pm.response.json().data"),
    ("TEST", "pm.test"),
    ("EXPECT", "pm.expect"),
    ("AGAIN", "setTimeout(() => pm.execution.setNextRequest(\"getTask\"), 2000)"),
    (
        "ADD_FIELDS",
        "fields.forEach(([key, value]) => pm.request.body.formdata.insert({ key, value, type: \"text\" }, \"file\"))",
    ),
];

const BRUNO: [(&str, &str); 8] = [
    ("GET", "bru.getVar"),
    ("SET", "bru.setVar"),
    ("STATUS", "res.getStatus()"),
    ("DATA", "res.getBody().data"),
    ("TEST", "test"),
    ("EXPECT", "expect"),
    ("AGAIN", "await bru.sleep(2000);\n  bru.setNextRequest(\"getTask\")"),
    (
        "ADD_FIELDS",
        "req.setBody([...fields.map(([name, value]) => ({ name, value, type: \"text\", enabled: true })), ...req.getBody()])",
    ),
];

fn in_words(script: &str, words: &[(&str, &str)]) -> String {
    words.iter().fold(script.to_owned(), |script, (word, text)| script.replace(word, text))
}

fn postman(requests: &[Request], name: &str, base_url: &str) -> Value {
    let script = |listen: &str, text: &str| {
        let text = in_words(text, &POSTMAN);
        json!({"listen": listen, "script": {"type": "text/javascript", "exec": text.lines().collect::<Vec<_>>()}})
    };
    let items = requests.iter().map(|request| {
        let Scripts { before, after, test } = &request.scripts;
        let mut header =
            Vec::from_iter(request.headers.iter().map(|(key, value)| json!({"key": key, "value": value})));
        let mut item =
            json!({"method": request.method, "url": request.url, "description": request.description});
        if let Some(body) = &request.body {
            header.push(json!({"key": "content-type", "value": "application/json"}));
            item["body"] = json!({"mode": "raw", "raw": body, "options": {"raw": {"language": "json"}}});
        }
        if request.is_upload() {
            let file = json!({"key": "file", "type": "file", "src": "photo.png"});
            item["body"] = json!({"mode": "formdata", "formdata": [file]});
        }
        if !request.is_call() {
            item["auth"] = json!({"type": "noauth"});
        }
        item["header"] = json!(header);
        let mut events = vec![script("test", &format!("{test}\n{after}"))];
        if !before.is_empty() {
            events.push(script("prerequest", before));
        }
        json!({"name": request.name, "request": item, "event": events})
    });
    let key = |key: &str, value: &str| json!({"key": key, "value": value, "type": "string"});
    json!({
        "info": {
            "name": name, "description": ABOUT,
            "schema": "https://schema.getpostman.com/json/collection/v2.1.0/collection.json",
        },
        "auth": {"type": "apikey", "apikey": [key("key", "x-api-key"), key("value", "{{api_key}}"), key("in", "header")]},
        "variable": [key("base_url", base_url), key("api_key", ""), key("size", "0")],
        "item": items.collect::<Vec<_>>(),
    })
}

fn bruno(at: usize, request: &Request) -> (String, String) {
    let Scripts { before, after, test } = &request.scripts;
    let name = &request.name;
    let body =
        if request.is_upload() { "multipartForm" } else { request.body.as_ref().map_or("none", |_| "json") };
    let mut headers = request.headers.clone();
    if request.is_call() {
        headers.push(("x-api-key".to_owned(), "{{api_key}}".to_owned()));
    }
    let headers: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let form = if request.is_upload() { "file: @file(photo.png)" } else { "" };
    let blocks = [
        ("meta", format!("name: {name}\ntype: http\nseq: {at}")),
        (&request.method.to_lowercase(), format!("url: {}\nbody: {body}\nauth: none", request.url)),
        ("headers", headers.join("\n")),
        ("body:json", request.body.clone().unwrap_or_default()),
        ("body:multipart-form", form.to_owned()),
        ("script:pre-request", in_words(before, &BRUNO)),
        ("script:post-response", in_words(after, &BRUNO)),
        ("tests", in_words(test, &BRUNO)),
        ("docs", request.description.clone()),
    ];
    let blocks = blocks.iter().filter(|(_, text)| !text.is_empty()).map(|(title, text)| block(title, text));
    (format!("bruno/{at:02}-{name}.bru"), blocks.collect::<Vec<_>>().join("\n"))
}

fn block(title: &str, text: &str) -> String {
    let lines =
        text.lines().map(|line| if line.is_empty() { "\n".to_owned() } else { format!("  {line}\n") });
    format!("{title} {{\n{}}}\n", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    fn document() -> Result<Tree> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../openapi/inferstore.yaml");
        openapi_impact::load(&path)
    }

    fn variables(text: &str) -> BTreeSet<&str> {
        text.split("{{").skip(1).filter_map(|rest| rest.split("}}").next()).collect()
    }

    #[test]
    fn every_operation_has_one_request() -> Result<()> {
        let document = document()?;
        let paths = document["paths"].members().flat_map(|(_, item)| item.members());
        let mut expected: Vec<&str> =
            paths.filter_map(|(_, operation)| operation["operationId"].as_str()).collect();
        expected.extend([RUN[1], RUN[4]]);
        expected.sort_unstable();
        let requests = requests(&document)?;
        let mut names: Vec<&str> = requests.iter().map(|request| request.name.as_str()).collect();
        assert_eq!(names[..RUN.len()], RUN);
        assert_eq!(names.last(), Some(&"deleteFile"), "the other requests need the file");
        names.sort_unstable();
        assert_eq!(names, expected);
        Ok(())
    }

    #[test]
    fn every_variable_is_set_by_an_earlier_script() -> Result<()> {
        let mut known = BTreeSet::from(["base_url", "api_key", "size"].map(str::to_owned));
        let set = |script: &str| -> Vec<String> {
            script
                .split("SET(\"")
                .skip(1)
                .filter_map(|rest| Some(rest.split('"').next()?.to_owned()))
                .collect()
        };
        for request in requests(&document()?)? {
            known.extend(set(request.scripts.before));
            let headers = request.headers.iter().map(|(_, value)| value.as_str());
            for text in headers.chain([request.url.as_str()]).chain(request.body.as_deref()) {
                for variable in variables(text) {
                    assert!(known.contains(variable), "{}: {variable} in {text}", request.name);
                }
                assert!(!text.contains(FILES), "{}: a file of an example in {text}", request.name);
            }
            known.extend(set(&request.scripts.after));
        }
        Ok(())
    }

    #[test]
    fn object_storage_gets_no_key() -> Result<()> {
        let requests = requests(&document()?)?;
        let collection = postman(&requests, "Inferstore", "http://127.0.0.1:8787/api/v1");
        for (at, request) in requests.iter().enumerate() {
            let is_storage = [RUN[1], RUN[4]].contains(&request.name.as_str());
            assert_eq!(request.is_call(), !is_storage);
            assert_eq!(collection["item"][at]["request"]["auth"]["type"] == "noauth", is_storage);
            assert_eq!(bruno(at, request).1.contains("x-api-key"), !is_storage);
        }
        Ok(())
    }
}
