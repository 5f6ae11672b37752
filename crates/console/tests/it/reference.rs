//! The reference on `/docs` is made from the document, here: `UPDATE_REFERENCE=1` writes it.

use std::fmt::Write;
use std::path::Path;

use pulldown_cmark::{Options, Parser, html};
use serde_json::Value;

fn markdown(text: &str) -> String {
    let mut out = String::new();
    html::push_html(&mut out, Parser::new_ext(text, Options::ENABLE_TABLES));
    // Headings of a description stand below the heading of what it describes.
    for (from, to) in [("h3>", "h5>"), ("h2>", "h4>"), ("h1>", "h3>")] {
        out = out.replace(from, to);
    }
    // A wide table or a long line scrolls, also by keyboard.
    let scroll = "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table\"><table>";
    out.replace("<pre>", "<pre tabindex=\"0\">")
        .replace("<table>", scroll)
        .replace("</table>", "</table></div>")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn pretty(value: &Value) -> String {
    let text = serde_json::to_string_pretty(value).expect("an example is JSON");
    format!("<pre tabindex=\"0\"><code>{}</code></pre>\n", escaped(&text))
}

/// The value itself, or what its `$ref` leads to.
fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(path) => document.pointer(path.trim_start_matches('#')).expect("a `$ref` leads somewhere"),
        None => value,
    }
}

/// The first example of a body.
fn example<'a>(document: &'a Value, body: &'a Value) -> Option<&'a Value> {
    let media = &resolved(document, body)["content"]["application/json"];
    let first = media["examples"].as_object().and_then(|examples| examples.values().next());
    first.map(|example| &resolved(document, example)["value"]).or_else(|| media.get("example"))
}

fn type_of(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return format!("<a href=\"#{name}\">{name}</a>");
    }
    match schema["type"].as_str() {
        Some("array") => format!("array of {}", type_of(&schema["items"])),
        Some(name) => name.to_owned(),
        None if schema["allOf"].is_array() => type_of(&schema["allOf"][0]),
        None => "any JSON".to_owned(),
    }
}

/// The first paragraph of a description.
fn brief(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    markdown(text.split("\n\n").next().unwrap_or_default())
}

fn operation(
    document: &Value,
    path: &str,
    method: &str,
    shared: &Value,
    operation: &Value,
    out: &mut String,
) {
    let id = operation["operationId"].as_str().expect("an operation has an id");
    let summary = operation["summary"].as_str().expect("an operation has a summary");
    let method = method.to_uppercase();
    let _ = writeln!(out, "<article id=\"{id}\"><h3>{}</h3>", escaped(summary));
    let _ = writeln!(out, "<p><span class=\"method\">{method}</span><code>{}</code></p>", escaped(path));
    out.push_str(&markdown(operation["description"].as_str().unwrap_or_default()));
    let parameters: Vec<_> = [&shared["parameters"], &operation["parameters"]]
        .into_iter()
        .flat_map(|list| list.as_array().into_iter().flatten())
        .map(|parameter| resolved(document, parameter))
        .collect();
    if !parameters.is_empty() {
        out.push_str("<dl>");
        for parameter in parameters {
            let name = parameter["name"].as_str().unwrap_or_default();
            let _ = writeln!(out, "<dt><code>{name}</code></dt><dd>{}</dd>", brief(parameter));
        }
        out.push_str("</dl>");
    }
    for sample in operation["x-codeSamples"].as_array().into_iter().flatten() {
        let source = escaped(sample["source"].as_str().unwrap_or_default().trim_end());
        let _ = writeln!(out, "<pre tabindex=\"0\"><code>{source}</code></pre>");
    }
    let response = example(document, &operation["responses"]["2XX"]);
    for (name, example) in
        [("A request body", example(document, &operation["requestBody"])), ("A response", response)]
    {
        if let Some(example) = example {
            let _ = writeln!(out, "<details><summary>{name}</summary>{}</details>", pretty(example));
        }
    }
    out.push_str("</article>\n");
}

fn schema(name: &str, schema: &Value, out: &mut String) {
    let _ = writeln!(out, "<article id=\"{name}\"><h3>{name}</h3>{}", brief(schema));
    if let Some(properties) = schema["properties"].as_object() {
        out.push_str("<dl>");
        for (name, property) in properties {
            let _ = writeln!(
                out,
                "<dt><code>{name}</code></dt><dd>{}{}</dd>",
                type_of(property),
                brief(property)
            );
        }
        out.push_str("</dl>");
    }
    out.push_str("</article>\n");
}

fn reference(document: &Value) -> String {
    let mut out = String::new();
    let info = &document["info"];
    let _ = writeln!(out, "<h1>{}</h1>", escaped(info["title"].as_str().unwrap_or_default()));
    out.push_str(&markdown(info["description"].as_str().unwrap_or_default()));
    let version = info["version"].as_str().unwrap_or_default();
    let _ = writeln!(
        out,
        "<p>Version {version}. <a href=\"/openapi.yaml\">The OpenAPI document</a>, from which this page is made.</p>"
    );
    let tags: Vec<_> = document["tags"].as_array().into_iter().flatten().collect();
    out.push_str("<nav class=\"tabs\" aria-label=\"Sections\">");
    for tag in &tags {
        let name = tag["name"].as_str().expect("a tag has a name");
        let _ = write!(out, "<a href=\"#{name}\">{name}</a>");
    }
    out.push_str("<a href=\"#Schemas\">Schemas</a></nav>\n");
    for tag in &tags {
        let name = tag["name"].as_str().expect("a tag has a name");
        let _ = writeln!(out, "<section id=\"{name}\"><h2>{name}</h2>");
        out.push_str(&markdown(tag["description"].as_str().unwrap_or_default()));
        for (path, item) in document["paths"].as_object().expect("a document has paths") {
            for (method, one) in item.as_object().expect("a path has operations") {
                if one["tags"][0].as_str() == Some(name) {
                    operation(document, path, method, item, one, &mut out);
                }
            }
        }
        out.push_str("</section>\n");
    }
    out.push_str("<section id=\"Schemas\"><h2>Schemas</h2>\n");
    for (name, one) in document["components"]["schemas"].as_object().expect("a document has schemas") {
        schema(name, one, &mut out);
    }
    out + "</section>\n"
}

#[test]
fn the_reference_is_made_from_the_document() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text =
        std::fs::read_to_string(root.join("../../openapi/inferstore.yaml")).expect("the document is there");
    let document: Value = serde_saphyr::from_str(&text).expect("the document is YAML");
    let made = reference(&document);
    let file = root.join("assets/reference.html");
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::write(&file, &made).expect("the reference can be written");
    }
    let kept = std::fs::read_to_string(&file).expect("the reference is there");
    assert!(kept == made, "the reference is out of date: run this test with UPDATE_REFERENCE=1");
    assert!(made.contains("id=\"createTask\"") && made.contains("id=\"TaskDetail\""));
    assert!(!made.contains("<script") && !made.contains(" style="), "the policy of the pages forbids both");
}
