//! Descriptions of the document as rustdoc: paragraphs on one line, without references to tags, which
//! only the document has, and without the sign of a decision.

use serde_json::Value;

/// The sign before a decision in a description. The introduction of the document explains it.
pub(crate) const DECISION: char = '†';

const TAG: &str = "he tag ";

pub(crate) const EXPLANATION: &str = "Our decision";

pub(crate) fn with_linked_decisions(markdown: &str, explanation: &str) -> String {
    let sign = format!("[{DECISION}]({explanation} \"{EXPLANATION}\")");
    markdown.replace(DECISION, &sign)
}

pub(crate) fn rewrite(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, child) in map {
                match child {
                    Value::String(text) if key == "description" => *text = for_rustdoc(text),
                    _ => rewrite(child),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(rewrite),
        _ => {}
    }
}

fn for_rustdoc(text: &str) -> String {
    // The explanation of the sign is the last section of the introduction.
    let text = text.split(&format!("## {EXPLANATION}\n")).next().unwrap_or_default();
    let lines: Vec<String> = joined(text).iter().map(|line| without_tags(&line.replace("† ", ""))).collect();
    lines.join("\n").trim().to_owned()
}

/// Paragraphs and list items as one line each; tables and code as they are.
fn joined(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut is_open = false;
    let mut in_code = false;
    for line in text.trim().lines() {
        let is_fence = line.trim_start().starts_with("```");
        let is_plain = !in_code && !is_fence && !line.trim().is_empty() && !line.starts_with(['|', '#']);
        let is_item = line.starts_with("- ");
        match lines.last_mut().filter(|_| is_open && is_plain && !is_item) {
            Some(last) => {
                last.push(' ');
                last.push_str(line.trim());
            }
            None => lines.push(line.to_owned()),
        }
        is_open = is_plain;
        in_code ^= is_fence;
    }
    lines
}

/// Drops the sentence that refers to a tag, or the part of it behind a semicolon.
fn without_tags(line: &str) -> String {
    let mut text = line.to_owned();
    while let Some(found) = text.find(TAG) {
        let end = text[found..].find(". ").map_or(text.len(), |end| found + end + 1);
        let sentence = text[..found].rfind(". ").map_or(0, |start| start + 1);
        match text[sentence..found].rfind("; ") {
            Some(clause) => text.replace_range(sentence + clause..end, "."),
            None => text.replace_range(sentence..end, ""),
        }
    }
    if text.len() < line.len() { text.trim_start().to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::for_rustdoc;

    #[test]
    fn a_paragraph_is_one_line_and_a_list_has_its_lines() {
        assert_eq!(for_rustdoc("One\ntwo.\n\nThree:\n\n- a\n  b\n- c\n"), "One two.\n\nThree:\n\n- a b\n- c");
    }

    #[test]
    fn tables_and_code_stay_as_they_are() {
        let text = "A table:\n\n| a | b |\n|---|---|\n| c | d |\n\n```sh\none \\\n  two\n```";
        assert_eq!(for_rustdoc(text), text);
    }

    #[test]
    fn a_decision_reads_like_a_promise() {
        assert_eq!(for_rustdoc("A page.\n† It is at least 1.\n"), "A page. It is at least 1.");
        assert_eq!(for_rustdoc("† It is an alias."), "It is an alias.");
        assert_eq!(for_rustdoc("An API.\n\n## Our decision\n\nThe sign †.\n"), "An API.");
    }

    #[test]
    fn a_decision_links_to_its_explanation() {
        let linked = "A page. [†](#section/x \"Our decision\") It is at least 1.";
        assert_eq!(super::with_linked_decisions("A page. † It is at least 1.", "#section/x"), linked);
    }

    #[test]
    fn references_to_tags_are_dropped() {
        for (text, expected) in [
            ("Read it first; see the\ntyping rule under the tag Models.", "Read it first."),
            ("No wrapper; mind the tag Models. The end.", "No wrapper. The end."),
            ("Step 1. The tag Storage\ndescribes step 2. The end.", "Step 1. The end."),
            ("The tag Storage describes it. The end.", "The end."),
            ("One; two. See the tag Tasks.", "One; two."),
        ] {
            assert_eq!(for_rustdoc(text), expected);
        }
    }
}
