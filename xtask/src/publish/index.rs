//! The page that leads to everything else, and the checksums of it all.

use std::collections::BTreeMap;

use super::json_schemas::JsonSchemas;
use crate::consumers::Consumer;
use crate::document::Document;

/// The page, with gaps in double braces.
const PAGE: &str = include_str!("index.html");

pub(super) fn page(version: &str, schemas: &JsonSchemas, consumers: &[Consumer]) -> String {
    let link = |name: &str| format!("<li><a href=\"schemas/{name}.json\">{name}</a></li>");
    let of_kinds = schemas.names_of_kinds();
    let (kinds, resources): (Vec<&str>, Vec<&str>) =
        schemas.names().partition(|name| of_kinds.contains(name));
    let list = |names: &[&str]| names.iter().map(|name| link(name)).collect::<Vec<_>>().join("\n      ");
    PAGE.replace("{{version}}", version)
        .replace("{{resources}}", &list(&resources))
        .replace("{{kinds}}", &list(&kinds))
        .replace("{{generators}}", &consumers.iter().map(generator).collect::<Vec<_>>().join("\n    "))
}

/// How a client is generated, as `cargo xtask contract` does it.
fn generator(consumer: &Consumer) -> String {
    let lines = consumer.generate.as_deref().unwrap_or_default().replace("{document}", "inferstore.yaml");
    let lines = if lines.is_empty() { lines } else { format!("<pre>{}</pre>", escaped(lines.trim())) };
    let note: String = escaped(consumer.options.trim())
        .split('`')
        .enumerate()
        .map(|(at, part)| if at % 2 == 1 { format!("<code>{part}</code>") } else { part.to_owned() })
        .collect();
    format!(
        "<dt>{}: {}</dt>\n    <dd>{lines}{note}</dd>",
        escaped(&consumer.name),
        escaped(&consumer.generator)
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// As `sha256sum --check` reads them.
pub(super) fn checksums(files: &BTreeMap<String, String>) -> String {
    files.iter().map(|(name, text)| format!("{}  {name}\n", Document::hash(text))).collect()
}
