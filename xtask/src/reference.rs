//! The reference on `/docs` of the console, made from the document.

use std::fmt::Write;

use openapi_impact::escaped;
use pulldown_cmark::{Options, Parser, html};
use serde_json::Value;

use crate::descriptions::{EXPLANATION, with_linked_decisions};
use crate::validate::{members, resolved};

fn markdown(text: &str) -> String {
    to_html(&with_linked_decisions(text, "#Decisions"))
}

fn to_html(markdown: &str) -> String {
    let mut out = String::new();
    html::push_html(&mut out, Parser::new_ext(markdown, Options::ENABLE_TABLES));
    // Headings of a description stand below the heading of what it describes.
    for (from, to) in [("h3>", "h5>"), ("h2>", "h4>"), ("h1>", "h3>")] {
        out = out.replace(from, to);
    }
    // A wide table or a long line scrolls, also by keyboard.
    let scroll = "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Table\"><table>";
    out.replace("<pre>", "<pre tabindex=\"0\">")
        .replace("<table>", scroll)
        .replace("</table>", "</table></div>")
}

fn pretty(value: &Value) -> String {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    format!("<pre tabindex=\"0\"><code>{}</code></pre>\n", escaped(&text))
}

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
    let id = operation["operationId"].as_str().unwrap_or_default();
    let summary = operation["summary"].as_str().unwrap_or_default();
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

pub(crate) fn reference(document: &Value) -> String {
    let mut out = String::new();
    let info = &document["info"];
    let _ = writeln!(out, "<h1>{}</h1>", escaped(info["title"].as_str().unwrap_or_default()));
    let introduction = to_html(info["description"].as_str().unwrap_or_default());
    let heading = format!("<h4>{EXPLANATION}</h4>");
    out.push_str(&introduction.replace(&heading, &format!("<h2 id=\"Decisions\">{EXPLANATION}</h2>")));
    let version = info["version"].as_str().unwrap_or_default();
    let _ = writeln!(
        out,
        "<p>Version {version}. <a href=\"/openapi.yaml\">The OpenAPI document</a>, from which this page is made.</p>"
    );
    let tags: Vec<_> = document["tags"].as_array().into_iter().flatten().collect();
    out.push_str("<nav class=\"tabs\" aria-label=\"Sections\">");
    for tag in &tags {
        let name = tag["name"].as_str().unwrap_or_default();
        let _ = write!(out, "<a href=\"#{name}\">{name}</a>");
    }
    out.push_str("<a href=\"#Schemas\">Schemas</a></nav>\n");
    for tag in &tags {
        let name = tag["name"].as_str().unwrap_or_default();
        let _ = writeln!(out, "<section id=\"{name}\"><h2>{name}</h2>");
        let description = markdown(tag["description"].as_str().unwrap_or_default());
        out.push_str(&description.replace("h4>", "h3>").replace("h5>", "h4>"));
        for (path, item) in members(&document["paths"]) {
            for (method, one) in members(item) {
                if one["tags"][0].as_str() == Some(name) {
                    operation(document, path, method, item, one, &mut out);
                }
            }
        }
        out.push_str("</section>\n");
    }
    out.push_str("<section id=\"Schemas\"><h2>Schemas</h2>\n");
    for (name, one) in members(&document["components"]["schemas"]) {
        schema(name, one, &mut out);
    }
    out + "</section>\n"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::reference;

    #[test]
    fn the_page_has_an_anchor_per_operation_and_obeys_its_policy() {
        let document = json!({
            "info": {"title": "A <script>", "version": "1.0.0", "description": "One.\n\n## Our decision\n\nThe sign †."},
            "tags": [{"name": "Tasks", "description": "Two. † Ours."}],
            "paths": {"/task": {"get": {"operationId": "getTask", "summary": "Read & wait", "tags": ["Tasks"]}}},
            "components": {"schemas": {"TaskDetail": {"description": "Three.", "properties": {"id": {"type": "string"}}}}},
        });
        let page = reference(&document);
        for part in [
            "id=\"getTask\"",
            "Read &amp; wait",
            "id=\"TaskDetail\"",
            "<dt><code>id</code></dt><dd>string",
            "<h2 id=\"Decisions\">Our decision</h2>\n<p>The sign †.",
            "Two. <a href=\"#Decisions\" title=\"Our decision\">†</a> Ours.",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("<script") && !page.contains(" style="), "{page}");
    }
}
