//! The page that leads to everything else, and the checksums of it all.

use std::collections::BTreeMap;

use super::json_schemas::JsonSchemas;
use crate::document::Document;

/// The page, with gaps in double braces.
const PAGE: &str = include_str!("index.html");

pub(super) fn page(version: &str, schemas: &JsonSchemas) -> String {
    let link = |name: &str| format!("<li><a href=\"schemas/{name}.json\">{name}</a></li>");
    let (kinds, resources): (Vec<&str>, Vec<&str>) =
        schemas.names().partition(|name| name.ends_with("Input") || name.ends_with("Output"));
    let list = |names: &[&str]| names.iter().map(|name| link(name)).collect::<Vec<_>>().join("\n      ");
    PAGE.replace("{{version}}", version)
        .replace("{{resources}}", &list(&resources))
        .replace("{{kinds}}", &list(&kinds))
}

/// As `sha256sum --check` reads them.
pub(super) fn checksums(files: &BTreeMap<String, String>) -> String {
    files.iter().map(|(name, text)| format!("{}  {name}\n", Document::hash(text))).collect()
}
