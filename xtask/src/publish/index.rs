//! The page that leads to everything else, and the checksums of it all.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use super::json_schemas::JsonSchemas;
use crate::document::Document;
use inferstore_contract::consumers::Consumer;
use inferstore_contract::examples::{EXAMPLES, Example};
use openapi_impact::escaped;

const PAGE: &str = include_str!("index.html");

pub(super) fn page(
    root: &Path,
    version: &str,
    schemas: &JsonSchemas,
    consumers: &[Consumer],
) -> Result<String> {
    let link = |name: &str| format!("<li><a href=\"schemas/{name}.json\">{name}</a></li>");
    let of_kinds = schemas.names_of_kinds();
    let (kinds, resources): (Vec<&str>, Vec<&str>) =
        schemas.names().partition(|name| of_kinds.contains(name));
    let list = |names: &[&str]| names.iter().map(|name| link(name)).collect::<Vec<_>>().join("\n      ");
    let mut clients: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut tools = Vec::new();
    for consumer in consumers {
        let entry = entry(root, consumer)?;
        match &consumer.language {
            Some(language) => clients.entry(language).or_default().push(entry),
            None => tools.push(entry),
        }
    }
    let of_language = |(language, entries): (&str, Vec<String>)| {
        format!("<h3>{}</h3>\n  {}", escaped(language), definitions(&entries))
    };
    let clients: Vec<String> = clients.into_iter().map(of_language).collect();
    let examples = EXAMPLES
        .iter()
        .map(|Example { file, language, .. }| format!("<a href=\"examples/{file}\">{language}</a>"));
    Ok(PAGE
        .replace("{{version}}", version)
        .replace("{{examples}}", &examples.collect::<Vec<_>>().join(", "))
        .replace("{{resources}}", &list(&resources))
        .replace("{{kinds}}", &list(&kinds))
        .replace("{{clients}}", &clients.join("\n  "))
        .replace("{{tools}}", &definitions(&tools)))
}

fn definitions(entries: &[String]) -> String {
    format!("<dl>\n    {}\n  </dl>", entries.join("\n    "))
}

fn entry(root: &Path, consumer: &Consumer) -> Result<String> {
    let mut text = String::new();
    let needs: Vec<String> = consumer
        .needs
        .iter()
        .map(|(program, package)| format!("<code>{}</code> (Debian: {})", escaped(program), escaped(package)))
        .collect();
    if !needs.is_empty() {
        text.push_str(&format!("<p>Needs {}.</p>", needs.join(" and ")));
    }
    for (name, content) in consumer.shown_files(root)? {
        text.push_str(&format!("<p><code>{}</code>:</p>{}", escaped(name), block(&content)));
    }
    let mut lines = Vec::new();
    let (npm, pypi) = (&consumer.packages.npm, &consumer.packages.pypi);
    if !npm.is_empty() {
        lines.push(format!("npm install --save-exact {}", npm.join(" ")));
        lines.push("PATH=\"$PWD/node_modules/.bin:$PATH\"".to_owned());
    }
    if !pypi.is_empty() {
        lines.push("python3 -m venv .venv && . .venv/bin/activate".to_owned());
        lines.push(format!("pip install {}", pypi.join(" ")));
    }
    lines.extend(consumer.generate.as_ref().map(|lines| lines.replace("{document}", "inferstore.yaml")));
    if !lines.is_empty() {
        text.push_str(&block(&lines.join("\n")));
    }
    let note: String = escaped(consumer.options.trim())
        .split('`')
        .enumerate()
        .map(|(at, part)| if at % 2 == 1 { format!("<code>{part}</code>") } else { part.to_owned() })
        .collect();
    Ok(format!(
        "<dt>{}: {}</dt>\n    <dd>{text}<p>{note}</p></dd>",
        escaped(&consumer.name),
        escaped(&consumer.generator)
    ))
}

fn block(text: &str) -> String {
    format!("<pre>{}</pre>", escaped(text.trim()))
}

/// As `sha256sum --check` reads them.
pub(super) fn checksums(files: &BTreeMap<String, String>) -> String {
    files.iter().map(|(name, text)| format!("{}  {name}\n", Document::hash(text))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use openapi_impact::Tree;

    fn consumer(members: serde_json::Value) -> Result<Consumer> {
        let mut consumer = json!({"generator": "some generator 1.0", "build": "true", "run": "true"});
        if let (Some(all), Some(members)) = (consumer.as_object_mut(), members.as_object()) {
            all.extend(members.clone());
        }
        Ok(serde_json::from_value(consumer)?)
    }

    #[test]
    fn clients_stand_by_language_with_what_they_need_and_tools_apart() -> Result<()> {
        let consumers = [
            consumer(json!({"name": "Checker"}))?,
            consumer(json!({
                "name": "Rust", "language": "Rust", "needs": {"java": "jre"}, "packages": {"pypi": ["gen==1.0"]},
                "test": {"needs": {"chromium": "chromium"}}, "generate": "gen {document} -o 'a<b>'",
            }))?,
            consumer(json!({"name": "Go", "language": "Go", "options": "Set `-x`."}))?,
        ];
        let page =
            page(Path::new(""), "2.0.0", &JsonSchemas::of(&Tree::from(json!({})), "2.0.0"), &consumers)?;
        let places: Vec<Option<usize>> =
            ["<h3>Go", "<h3>Rust", "<h2>Tools", "<dt>Checker"].map(|part| page.find(part)).to_vec();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}");
        assert!(page.contains("<p>Needs <code>java</code> (Debian: jre).</p>"));
        assert!(page.contains("<pre>python3 -m venv .venv &amp;&amp; . .venv/bin/activate\npip install gen==1.0\ngen inferstore.yaml -o 'a&lt;b&gt;'</pre>"));
        assert!(page.contains("<p>Set <code>-x</code>.</p>") && !page.contains("chromium"));
        Ok(())
    }
}
