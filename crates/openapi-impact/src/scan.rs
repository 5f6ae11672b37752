//! Operations that source code calls: by operationId, by the name of a generated method, or by path.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::case::{pascal_case, snake_case};
use crate::uses::Listed;

const SKIPPED: [&str; 6] = ["node_modules", "target", "vendor", "dist", "build", "__pycache__"];

/// A larger file is no source code.
const MAX_FILE: u64 = 1024 * 1024;

/// Limit of the code between two fixed parts of a path, such as `${encodeURIComponent(id)}`.
const MAX_ARGUMENT: usize = 60;

/// Returns the operations that the code of a folder names. Hidden folders, and documents in YAML or JSON, are no code.
pub(super) fn operations_in(folder: &Path, known: &[Listed<'_>]) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let shown = folder.display();
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {shown}"))? {
            let entry = entry.with_context(|| format!("cannot read {shown}"))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type().with_context(|| format!("cannot read {shown}"))?;
            if kind.is_dir() && !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) {
                folders.push(entry.path());
            }
            let is_document =
                [".yaml", ".yml", ".json", ".md", ".lock"].iter().any(|end| name.ends_with(end));
            if kind.is_file() && !is_document && entry.metadata().is_ok_and(|file| file.len() <= MAX_FILE) {
                // What is not UTF-8 is no source code.
                if let Ok(text) = fs::read_to_string(entry.path()) {
                    found.extend(operations_of(&text, known));
                }
            }
        }
    }
    Ok(found)
}

fn operations_of(text: &str, known: &[Listed<'_>]) -> BTreeSet<String> {
    let words: BTreeSet<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let by_name = known.iter().filter(|operation| {
        let id = operation.id.as_str();
        [id.to_owned(), snake_case(id), pascal_case(id)].iter().any(|name| words.contains(name.as_str()))
    });
    let mut found: BTreeSet<String> = by_name.map(|operation| operation.id.clone()).collect();
    for line in text.lines() {
        let starts = line.match_indices('/').map(|(start, _)| &line[start..]);
        for rest in starts {
            let fitting = known.iter().filter(|operation| begins_with(rest, operation.path));
            // The longest fixed part is the path that is meant; it may have several methods.
            let fixed = |path: &str| pieces(path).iter().map(|piece| piece.len()).sum::<usize>();
            let fitting: Vec<_> = fitting.map(|operation| (fixed(operation.path), operation)).collect();
            let longest = fitting.iter().map(|(length, _)| *length).max();
            let named = fitting.iter().filter(|(length, _)| Some(*length) == longest);
            found.extend(named.map(|(_, operation)| operation.id.clone()));
        }
    }
    found
}

/// Returns whether the text begins with the path, whose parameters may be any code, such as `{id}`, `${id}` or `" + id + "`.
fn begins_with(text: &str, path: &str) -> bool {
    let pieces = pieces(path);
    let Some(mut rest) = text.strip_prefix(pieces[0]) else { return false };
    for piece in &pieces[1..] {
        let window = rest.char_indices().nth(MAX_ARGUMENT).map_or(rest, |(end, _)| &rest[..end]);
        if piece.is_empty() {
            return !rest.trim_start_matches(['"', '\'', '`']).is_empty();
        }
        let Some(at) = window.find(piece).filter(|at| *at > 0) else { return false };
        rest = &rest[at + piece.len()..];
    }
    !rest.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '/'))
}

fn pieces(path: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('{') {
        pieces.push(before);
        rest = after.split_once('}').map_or("", |(_, after)| after);
    }
    pieces.push(rest);
    pieces
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{begins_with, operations_of};
    use crate::tree::Tree;
    use crate::uses::listed;

    #[test]
    fn a_path_is_recognized_however_its_parameters_are_written() {
        let path = "/tasks/{id}/detail";
        for text in [
            "/tasks/{id}/detail",
            "/tasks/${encodeURIComponent(id)}/detail`",
            "/tasks/\" + id + \"/detail\"",
            "/tasks/%s/detail?x=1",
            "/tasks/:id/detail",
            "/tasks/t-1/detail",
        ] {
            assert!(begins_with(text, path), "{text}");
        }
        for text in ["/tasks/detail", "/tasks/{id}/details", "/tasks//detail", "/task/{id}/detail"] {
            assert!(!begins_with(text, path), "{text}");
        }
        assert!(begins_with("/tasks/\" + id", "/tasks/{id}") && !begins_with("/tasks/\"", "/tasks/{id}"));
    }

    #[test]
    fn code_names_operations_by_method_and_by_the_most_specific_path() {
        let operation = |id: &str| json!({ "operationId": id });
        let document = Tree::from(json!({ "paths": {
            "/tasks/{id}": { "get": operation("getTask"), "delete": operation("deleteTask") },
            "/tasks/list": { "post": operation("listTasks") },
            "/tasks/{id}/cost": { "get": operation("getCost") },
        }}));
        let known = listed(&document);
        for (code, expected) in [
            ("client.get_task(id)", vec!["getTask"]),
            ("api.GetCost(ctx)", vec!["getCost"]),
            ("fetch(base + '/tasks/list', {})", vec!["listTasks"]),
            ("get(f\"{base}/tasks/{id}\")", vec!["deleteTask", "getTask"]),
            ("get(f\"{base}/tasks/{id}/cost\")", vec!["getCost"]),
            ("budget_task()", vec![]),
        ] {
            let found = operations_of(code, &known);
            assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expected, "{code}");
        }
    }
}
