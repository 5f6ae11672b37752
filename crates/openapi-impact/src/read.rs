//! Reading documents: YAML or JSON, with the line of a mistake.

use std::fs;
use std::path::Path;

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_saphyr::{SnippetMode, UserMessageFormatter, render_options};

use crate::node::EXAMPLES;
use crate::tree::Tree;

/// Reads a value from a YAML text; `path` names it in the error.
///
/// # Errors
/// Fails if the text is not YAML or not a `T`; the error has the line and column where they are known.
pub fn parse<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T> {
    serde_saphyr::from_str(text).map_err(|error| {
        let line = error.location().and_then(|location| usize::try_from(location.line()).ok());
        let hint = line.and_then(|line| indentation(text, line)).unwrap_or_default();
        anyhow!("{}{hint}", unreadable(path, &error))
    })
}

/// Reads a document that can be compared.
///
/// # Errors
/// Fails if the file cannot be read, is no OpenAPI 3.0 document, or has a reference without a target.
pub fn load(path: &Path) -> Result<Tree> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    read(path, &text)
}

/// Reads a document that can be compared from its text; `path` names it in the error.
///
/// # Errors
/// Fails if the text is no OpenAPI 3.0 document, or has a reference without a target.
pub fn read(path: &Path, text: &str) -> Result<Tree> {
    let shown = path.display();
    let document: Tree = match serde_saphyr::from_str(text) {
        Ok(document) => document,
        // `Value` reports where the error is, and reads keys that are no strings as strings.
        Err(_) => {
            parse::<Value>(path, text)?;
            bail!("{shown}: a key is a boolean, a number or null in YAML, such as `Off` or `1`; quote it");
        }
    };
    ensure!(
        document["openapi"].as_str().is_some_and(|version| version.starts_with("3.0.")),
        "{shown} is not an OpenAPI 3.0 document; it has no `openapi: 3.0.…`"
    );
    ensure!(document["paths"].is_map(), "{shown} has no `paths`; there is nothing to compare");
    if let Some(reference) = broken_reference(&document, &document) {
        bail!("{shown}: there is no {reference}, and something refers to it");
    }
    Ok(document)
}

/// A reference without a target. Examples may hold whatever looks like one.
fn broken_reference(document: &Tree, value: &Tree) -> Option<String> {
    let own = value["$ref"].as_str().filter(|reference| document.pointer(reference).is_none());
    let members = value.members().filter(|(key, _)| !EXAMPLES.contains(key)).map(|(_, member)| member);
    let mut inner = members.chain(value.items()).filter_map(|member| broken_reference(document, member));
    own.map(str::to_owned).or_else(|| inner.next())
}

/// Returns the end of a message when the line is indented unlike the line of text before it, by an odd number of spaces.
fn indentation(text: &str, line: usize) -> Option<String> {
    let before: Vec<&str> = text.lines().take(line).collect();
    let (last, before) = before.split_last()?;
    let spaces = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let other =
        before.iter().rev().find(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'))?;
    let (here, there) = (spaces(last), spaces(other));
    (here % 2 == 1 && there % 2 == 0)
        .then(|| format!("; `{}` is indented by {here} spaces, the line before it by {there}", last.trim()))
}

fn unreadable(path: &Path, error: &serde_saphyr::Error) -> Error {
    let position = error
        .location()
        .filter(|location| location.line() > 0)
        .map_or_else(String::new, |location| format!(":{}:{}", location.line(), location.column()));
    let message = error.render_with_options(render_options! {
        formatter: &UserMessageFormatter,
        snippets: SnippetMode::Off,
    });
    // The position stands in front already.
    let message = message.split(" at line ").next().unwrap_or_default();
    anyhow!("{}{position}: not readable as YAML: {}", path.display(), one_line(message))
}

/// The text without line breaks, for messages that promise one line.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
