//! Reports of changes: as text, as JSON, and as a part of the changelog.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde_json::json;

use super::{Change, Changes, Severity, version};
use crate::tree::Tree;

impl Severity {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Docs => "docs only",
            Self::Compatible => "compatible",
            Self::Breaking => "breaking",
        }
    }
}

/// The verdict as words for people.
pub fn verdict_in_words(verdict: Option<Severity>) -> &'static str {
    verdict.map_or("no change", Severity::word)
}

pub(super) struct Group<'a> {
    pub(super) heading: String,
    pub(super) changes: Vec<&'a Change>,
}

/// For people. It begins with a summary, and what the verdict means for the version.
pub fn text(changes: &Changes, (old, old_name): (&Tree, &str), (new, new_name): (&Tree, &str)) -> String {
    let groups = groups(changes);
    let mut text = format!("{old_name} → {new_name}: {}\n", verdict_in_words(changes.verdict()));
    if !groups.is_empty() {
        text.push_str(&format!("{}\n", counts(&groups)));
    }
    text.push_str(&format!("{}\n", version::meaning(old, new, changes.verdict())));
    for group in &groups {
        text.push_str(&format!("\n{}\n", group.heading));
        for change in &group.changes {
            let severity = change.severity.word();
            text.push_str(&format!(
                "  {severity:<10}  {}\n              {}\n",
                change.pointer, change.message
            ));
            if !change.breaks.is_empty() {
                text.push_str(&format!("              {}\n", breaks(change)));
            }
        }
    }
    text
}

pub(super) fn breaks(change: &Change) -> String {
    let clients: Vec<&str> = change.breaks.iter().copied().collect();
    let how = if change.severity == Severity::Breaking { "breaks" } else { "refused at run time by" };
    format!("{how}: {}", clients.join(", "))
}

/// For people, one line a change: what breaks comes first.
pub fn lines(changes: &Changes) -> String {
    let mut all: Vec<&Change> = groups(changes).into_iter().flat_map(|group| group.changes).collect();
    all.sort_by_key(|change| std::cmp::Reverse(change.severity));
    let line = |change: &&Change| {
        let clients = if change.breaks.is_empty() { String::new() } else { format!(" ({})", breaks(change)) };
        format!("  {:<10}  {}: {}{clients}\n", change.severity.word(), change.pointer, change.message)
    };
    all.iter().map(line).collect()
}

/// For programs. Without `breaks`, a breaking change breaks every client.
pub fn json(changes: &Changes) -> Result<String> {
    let list = changes.list.iter().map(|change| {
        let mut object = json!({
            "severity": change.severity,
            "operation": change.operation,
            "place": change.pointer.to_string(),
            "message": change.message,
        });
        if !change.breaks.is_empty() {
            object["breaks"] = json!(change.breaks);
        }
        object
    });
    let list: Vec<_> = list.collect();
    let verdict = changes.verdict().map_or_else(|| json!("none"), |verdict| json!(verdict));
    let report = json!({"verdict": verdict, "changes": list});
    Ok(format!("{}\n", serde_json::to_string_pretty(&report).context("cannot write the report")?))
}

/// For the changelog: a list under a heading for each group.
pub fn markdown(changes: &Changes) -> String {
    let mut text = String::new();
    for group in groups(changes) {
        text.push_str(&format!("### {}\n\n", group.heading));
        for change in group.changes {
            let clients =
                if change.breaks.is_empty() { String::new() } else { format!(" ({})", breaks(change)) };
            let severity = change.severity.word();
            text.push_str(&format!("- **{severity}** `{}`: {}{clients}\n", change.pointer, change.message));
        }
        text.push('\n');
    }
    text
}

fn counts(groups: &[Group<'_>]) -> String {
    let all = || groups.iter().flat_map(|group| &group.changes);
    let count = |severity| all().filter(|change| change.severity == severity).count();
    let counts = [Severity::Breaking, Severity::Compatible, Severity::Docs]
        .map(|severity| format!("{} {}", count(severity), severity.word()));
    counts.join(", ")
}

/// The changes by what they concern, in the order in which they were found; the worst first in each.
pub(super) fn groups(changes: &Changes) -> Vec<Group<'_>> {
    let mut groups: Vec<(BTreeSet<Option<&str>>, Vec<&Change>)> = Vec::new();
    for (index, change) in changes.list.iter().enumerate() {
        let is_same = |other: &Change| {
            (other.severity, &other.pointer, &other.message, &other.breaks)
                == (change.severity, &change.pointer, &change.message, &change.breaks)
        };
        if changes.list[..index].iter().any(is_same) {
            continue;
        }
        let same = changes.list[index..].iter().filter(|other| is_same(other));
        let concerned: BTreeSet<Option<&str>> = same.map(|other| other.operation.as_deref()).collect();
        match groups.iter_mut().find(|(others, _)| *others == concerned) {
            Some((_, list)) => list.push(change),
            None => groups.push((concerned, vec![change])),
        }
    }
    groups
        .into_iter()
        .map(|(concerned, mut list)| {
            list.sort_by_key(|change| std::cmp::Reverse(change.severity));
            Group { heading: heading(&concerned, &changes.operations), changes: list }
        })
        .collect()
}

fn heading(concerned: &BTreeSet<Option<&str>>, operations: &BTreeSet<String>) -> String {
    let every = operations.len() > 1
        && operations.iter().all(|operation| concerned.contains(&Some(operation.as_str())));
    if every {
        return "every operation".to_owned();
    }
    let names: Vec<&str> = concerned.iter().map(|one| one.unwrap_or("the whole document")).collect();
    names.join(", ")
}
