//! A patch of the document's text that has what a live installation sends.

use anyhow::Result;
use inferstore_drift::{Difference, Finding};
use similar::TextDiff;

use crate::document::{DOCUMENT, Document, Pointer};
use crate::scaffold::yaml::{Yaml, type_lines};

const SENT: &str = "Sent by an installation";

pub(super) fn unified(document: Document, findings: &[Finding]) -> Result<String> {
    let old = document.text.clone();
    let mut yaml = Yaml::of(document);
    for finding in findings {
        edit(&mut yaml, &Pointer::of_reference(&finding.pointer), &finding.difference)?;
    }
    let new = yaml.text();
    let diff = TextDiff::from_lines(&old, &new);
    Ok(diff.unified_diff().header(&format!("a/{DOCUMENT}"), &format!("b/{DOCUMENT}")).to_string())
}

fn edit(yaml: &mut Yaml, pointer: &Pointer, difference: &Difference) -> Result<()> {
    let Some((name, parent)) = pointer.keys().split_last() else { return Ok(()) };
    let parent = Pointer::of(parent);
    match difference {
        Difference::NewField(kind) => {
            let kind = type_lines(kind);
            yaml.add_property(&parent, name, &kind, !kind.is_empty(), SENT)
        }
        Difference::NewWord(Some(word)) => yaml.add_word(&parent, word, SENT, false),
        Difference::Null => yaml.add_line(pointer, "nullable: true"),
        Difference::Type(kind) if !matches!(*kind, "array" | "object") => yaml.set_type(pointer, kind),
        // What identifies a thing stays required, and what is no JSON scalar needs a schema of its own.
        _ => Ok(()),
    }
}
