//! A patch of the document's text that has what a live installation sends.

use inferstore_drift::{Difference, Finding};
use similar::TextDiff;

use crate::document::{DOCUMENT, Document, Pointer};
use crate::words::OPEN;

/// Returns a unified diff of the document, as `git apply` takes it.
pub(super) fn unified(document: &Document, findings: &[Finding]) -> String {
    let new = patched(document, findings);
    let diff = TextDiff::from_lines(&document.text, &new);
    diff.unified_diff().header(&format!("a/{DOCUMENT}"), &format!("b/{DOCUMENT}")).to_string()
}

/// Returns the text of the document after all edits. Each edit stands at a line of its own, so the last one comes first.
fn patched(document: &Document, findings: &[Finding]) -> String {
    let mut lines: Vec<String> = document.text.lines().map(str::to_owned).collect();
    let mut edits: Vec<(usize, Pointer, &Difference)> = findings
        .iter()
        .filter_map(|finding| {
            let pointer = Pointer::of_reference(&finding.pointer);
            let line = document.index(&anchor(&pointer, &finding.difference))?;
            Some((line, pointer, &finding.difference))
        })
        .collect();
    edits.sort_by_key(|(line, ..)| std::cmp::Reverse(*line));
    for (line, pointer, difference) in edits {
        edit(&mut lines, line, &pointer, difference);
    }
    lines.join("\n") + "\n"
}

/// The place in the document at whose line an edit begins.
fn anchor(pointer: &Pointer, difference: &Difference) -> Pointer {
    let keys = pointer.keys();
    match difference {
        // The list of properties that the new one ends.
        Difference::NewField(_) => Pointer::of(&keys[..keys.len() - 1]),
        _ => pointer.clone(),
    }
}

fn edit(lines: &mut Vec<String>, line: usize, pointer: &Pointer, difference: &Difference) {
    let indentation = spaces(&lines[line]);
    let end = block_end(lines, line);
    match difference {
        Difference::NewField(kind) => {
            let name = pointer.keys().last().map_or("", String::as_str);
            let deep = " ".repeat(indentation + 2);
            let deeper = " ".repeat(indentation + 4);
            let kind = match *kind {
                "null" | "object" | "array" => String::new(),
                "integer" => {
                    format!("{deeper}type: integer\n{deeper}format: int64\n{deeper}nullable: true\n")
                }
                "number" => format!("{deeper}type: number\n{deeper}format: double\n{deeper}nullable: true\n"),
                kind => format!("{deeper}type: {kind}\n{deeper}nullable: true\n"),
            };
            let property =
                format!("{deep}{name}:\n{kind}{deeper}description: \"† Sent by an installation.\"");
            lines.insert(end, property);
        }
        Difference::NewWord(Some(word)) => {
            lines[line] = lines[line].replacen(']', &format!(", {word}]"), 1);
            // The meanings stand in the description above, one list item each.
            let meaning = (0..line).rev().find(|index| lines[*index].trim_start().starts_with("- `"));
            if let Some(index) = meaning.filter(|_| pointer.keys().last().is_some_and(|key| key == OPEN)) {
                let deep = " ".repeat(spaces(&lines[index]));
                lines.insert(index + 1, format!("{deep}- `{word}`: † Sent by an installation."));
            }
        }
        Difference::Null => lines.insert(line + 1, format!("{}nullable: true", " ".repeat(indentation + 2))),
        Difference::Type(kind) if !matches!(*kind, "array" | "object") => {
            let Some(index) = (line..end).find(|index| lines[*index].trim_start().starts_with("type: "))
            else {
                return;
            };
            let deep = " ".repeat(spaces(&lines[index]));
            lines[index] = format!("{deep}type: {kind}");
            let format = format!("{deep}format: ");
            if let Some(old) = (line..end).find(|index| lines[*index].starts_with(&format)) {
                lines.remove(old);
            }
            match *kind {
                "integer" => lines.insert(index + 1, format!("{deep}format: int64")),
                "number" => lines.insert(index + 1, format!("{deep}format: double")),
                _ => {}
            }
        }
        // What identifies a thing stays required, and what is no JSON scalar needs a schema of its own.
        _ => {}
    }
}

/// The line behind the block that begins at a line.
fn block_end(lines: &[String], begin: usize) -> usize {
    let depth = spaces(&lines[begin]);
    let inside = |line: &String| line.trim().is_empty() || spaces(line) > depth;
    let end = lines[begin + 1..]
        .iter()
        .position(|line| !inside(line))
        .map_or(lines.len(), |count| begin + 1 + count);
    // Blank lines at the end stand between this block and the next one.
    (begin + 1..=end).rev().find(|end| !lines[end - 1].trim().is_empty()).unwrap_or(end)
}

fn spaces(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}
