//! The scoreboard as a table in a terminal and as JSON.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;

use super::machine::Machine;
use super::row::{Row, figure, median};

/// For programs.
const JSON: &str = "target/scoreboard.json";

/// How wide the texts of a line may be, so that all of it fits into 120 columns.
const WIDTHS: (usize, usize) = (39, 25);

pub(super) fn write_json(root: &Path, machine: &Machine, rows: &[Row]) -> Result<()> {
    let rows: Vec<_> =
        rows.iter().map(|row| json!({"row": row, "ratio": row.ratio(), "verdict": row.verdict()})).collect();
    let path = root.join(JSON);
    fs::write(&path, serde_json::to_string_pretty(&json!({"machine": machine, "rows": rows}))?)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// The parts of the scoreboard, in their order, with the rows of each.
pub(super) fn groups(rows: &[Row]) -> Vec<(&str, Vec<&Row>)> {
    let mut groups: Vec<(&str, Vec<&Row>)> = Vec::new();
    for row in rows {
        match groups.iter_mut().find(|(name, _)| *name == row.group) {
            Some((_, of_group)) => of_group.push(row),
            None => groups.push((&row.group, vec![row])),
        }
    }
    groups
}

pub(super) fn table(rows: &[Row]) -> String {
    let (what, against) = WIDTHS;
    let mut text = String::new();
    for (name, rows) in groups(rows) {
        let _ = writeln!(
            text,
            "\n{name:what$} {:>9} {:>9} {:<6} {:<against$} {:>6} {:<11} verdict",
            "ours", "theirs", "", "beside", "ratio", "spread"
        );
        for row in rows {
            let (of_ours, of_theirs) = (median(&row.ours), median(&row.theirs));
            let ratio = row.ratio();
            let _ = writeln!(
                text,
                "{:what$} {:>9} {:>9} {:<6} {:<against$} {:>6} {:<11} {}",
                cut(&row.what, what),
                figure(of_ours),
                figure(of_theirs),
                cut(&row.unit, 6),
                cut(&row.against, against),
                figure(ratio.median),
                format!("{}-{}", figure(ratio.least), figure(ratio.most)),
                row.verdict()
            );
        }
    }
    text
}

/// The text, or as much of it as fits.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}
