//! Reading documents: YAML or JSON, with the line of a mistake.

use std::borrow::Cow;
use std::fs;
use std::path::Path;

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;
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
        let hint = conflict(text).or_else(|| indentation(text, line?)).unwrap_or_default();
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
    let mut document: Tree = parse(path, text)?;
    decode_references(&mut document);
    ensure!(
        document["openapi"].as_str().is_some_and(|version| version.starts_with("3.0.")),
        "{shown} is not an OpenAPI 3.0 document; it has no `openapi: 3.0.…`"
    );
    ensure!(document["paths"].is_map(), "{shown} has no `paths`; there is nothing to compare");
    if let Some(reference) = broken_reference(&document, &document) {
        ensure!(
            reference.starts_with('#'),
            "{shown}: something refers to {reference}, another document, which is not read; put both into one first, for \
             example with `npx @redocly/cli bundle`"
        );
        bail!("{shown}: there is no {reference}, and something refers to it");
    }
    Ok(document)
}

/// Decodes what is percent-encoded in references, such as `%7B`.
fn decode_references(value: &mut Tree) {
    match value {
        Tree::Map(members) => {
            for (key, member) in members.iter_mut().filter(|(key, _)| !EXAMPLES.contains(&key.as_str())) {
                match member.as_str().filter(|_| key == "$ref").map(decoded) {
                    Some(reference) => *member = Tree::text(reference),
                    None => decode_references(member),
                }
            }
        }
        Tree::List(items) => items.iter_mut().for_each(decode_references),
        Tree::Scalar(_) => {}
    }
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8().map_or_else(|_| text.to_owned(), Cow::into_owned)
}

/// A reference without a target. Examples may hold whatever looks like one.
fn broken_reference(document: &Tree, value: &Tree) -> Option<String> {
    let own = value["$ref"].as_str().filter(|reference| document.pointer(reference).is_none());
    let members = value.members().filter(|(key, _)| !EXAMPLES.contains(key)).map(|(_, member)| member);
    let mut inner = members.chain(value.items()).filter_map(|member| broken_reference(document, member));
    own.map(str::to_owned).or_else(|| inner.next())
}

/// Returns the end of a message when git has left both sides of a merge in the text.
fn conflict(text: &str) -> Option<String> {
    let line = text.lines().position(|line| line.starts_with("<<<<<<< "))? + 1;
    Some(format!("; line {line} begins a conflict of git, which is to be resolved first"))
}

/// Returns the end of a message when the line, or one shortly before it, is indented by an odd number of spaces, unlike
/// the line of text before that.
fn indentation(text: &str, line: usize) -> Option<String> {
    const REACH: usize = 20;
    let is_text = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let before: Vec<&str> = text.lines().take(line).filter(is_text).collect();
    let spaces = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let mut pairs =
        before.windows(2).rev().take(REACH).map(|pair| (pair[1], spaces(pair[0]), spaces(pair[1])));
    let (line, there, here) = pairs.find(|(_, there, here)| here % 2 == 1 && there % 2 == 0)?;
    let line = line.trim();
    Some(format!("; `{line}` is indented by {here} spaces, the line before it by {there}"))
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    fn with(rest: &str) -> Result<Tree> {
        read(Path::new("a.yaml"), &format!("openapi: 3.0.3\npaths:\n  /pets/{{id}}: {{}}\n{rest}"))
    }

    #[test]
    fn codes_without_quotes_and_encoded_references_are_read() {
        let document = with("x-a:\n  200: 1\n  \"201\": {$ref: '#/paths/~1pets~1%7Bid%7D'}\n").unwrap();
        assert!(document["x-a"]["200"].is(1));
        assert!(document["x-a"]["201"]["$ref"].is("#/paths/~1pets~1{id}"));
    }

    #[test]
    fn what_yaml_does_not_read_as_a_string_is_no_key() {
        for key in ["y", "on", "1", "null"] {
            let message = with(&format!("x-a:\n  {key}: 1\n")).unwrap_err().to_string();
            assert!(message.starts_with("a.yaml:5:") && message.contains("a key is a boolean"), "{message}");
        }
    }

    #[test]
    fn a_reference_to_another_document_is_refused_by_its_name() {
        for reference in ["Pet.yaml", "./Pet.yaml", "common.yaml#/components/schemas/Pet"] {
            let message = with(&format!("x-a: {{$ref: '{reference}'}}\n")).unwrap_err().to_string();
            assert!(message.contains(&format!("refers to {reference}, another document")), "{message}");
        }
        assert!(with("x-a: {$ref: '#Pet'}\n").is_err());
    }
}
