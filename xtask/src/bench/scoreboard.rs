//! The scoreboard as a table in a terminal, as JSON, and as a page for people.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;

use super::row::{Row, median};

/// For programs.
const JSON: &str = "target/scoreboard.json";

/// For people.
const PAGE: &str = "docs/scoreboard.md";

pub(super) fn write_json(root: &Path, rows: &[Row]) -> Result<()> {
    let rows: Vec<_> = rows.iter().map(|row| json!({"row": row, "ratio": row.ratio()})).collect();
    let path = root.join(JSON);
    fs::write(&path, serde_json::to_string_pretty(&rows)?)
        .with_context(|| format!("cannot write {}", path.display()))
}

pub(super) fn write_page(root: &Path, rows: &[Row]) -> Result<()> {
    let path = root.join(PAGE);
    fs::write(&path, table(rows)).with_context(|| format!("cannot write {}", path.display()))
}

pub(super) fn table(rows: &[Row]) -> String {
    let mut text = String::from("| | against | ours | theirs | ratio | least to most | |\n|-|-|-|-|-|-|-|\n");
    for row in rows {
        let (ratio, unit) = (row.ratio(), &row.unit);
        let (ours, theirs) = (median(&row.ours), median(&row.theirs));
        let word = if row.is_good() { "" } else { "behind" };
        let _ = writeln!(
            text,
            "| {} | {} | {ours:.1} {unit} | {theirs:.1} {unit} | {:.2} | {:.2} to {:.2} | {word} |",
            row.what, row.against, ratio.median, ratio.least, ratio.most
        );
    }
    text
}
