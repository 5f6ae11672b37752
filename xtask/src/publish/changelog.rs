//! The changelog of the API: what changed from version to version, by our own comparison.

use std::fs;
use std::path::Path;

use anyhow::Result;

use openapi_impact::{Version, compare, load, markdown, verdict_in_words};

use crate::diff::published;
use openapi_impact::Tree;

/// The hand-written changelog, whose sections on the document say in words what changed.
const CHANGELOG: &str = "CHANGELOG.md";

/// The changelog of all published versions and of this document, the last one first.
pub(super) fn changelog(root: &Path, document: &Tree) -> Result<String> {
    let mut versions = Vec::new();
    for (version, path) in published(root)? {
        versions.push((version, load(&path)?));
    }
    let version = Version::of(document)?;
    if versions.iter().all(|(published, _)| *published != version) {
        versions.push((version, document.clone()));
    }
    let written = fs::read_to_string(root.join(CHANGELOG)).unwrap_or_default();
    let mut text = "# Changes of the Inferstore API\n\n\
        A breaking change raises the first number of the version, an addition the second, a word the \
        third.\n"
        .to_owned();
    for pair in versions.windows(2).rev() {
        let [(old, was), (new, is)] = pair else { continue };
        let changes = compare(was, is);
        let verdict = verdict_in_words(changes.verdict());
        text.push_str(&format!("\n## {new}\n\nSince {old}: {verdict}.\n\n"));
        if let Some(words) = section(&written, &format!("### The document {new}")) {
            text.push_str(&format!("{words}\n\nEvery change with its place:\n\n"));
        }
        text.push_str(&markdown(&changes));
    }
    if let Some((first, _)) = versions.first() {
        text.push_str(&format!("\n## {first}\n\nThe first published version.\n"));
    }
    Ok(text)
}

/// Returns the text below a heading, up to the next heading.
fn section<'a>(text: &'a str, heading: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("{heading}\n"))?;
    Some(rest.split("\n#").next().unwrap_or(rest).trim())
}
