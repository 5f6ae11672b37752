//! The scoreboard: what was measured last of each part, kept as JSON, and shown as a table in a terminal.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::machine::Machine;
use super::row::{Ratio, Row, figure, median};

/// For programs.
const JSON: &str = "target/scoreboard.json";

/// How wide the texts of a line may be, so that all of it fits into 120 columns.
const WIDTHS: (usize, usize) = (39, 25);

/// Everything that was measured in this folder.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Scoreboard {
    pub(super) parts: Vec<Part>,
}

/// One part, as it was measured last.
#[derive(Serialize, Deserialize)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) machine: Machine,
    rows: Vec<Entry>,
}

/// A row, with what programs would have to compute.
#[derive(Serialize, Deserialize)]
#[serde(from = "Kept")]
struct Entry {
    row: Row,
    ratio: Option<Ratio>,
    verdict: String,
}

/// What is read of an entry.
#[derive(Deserialize)]
struct Kept {
    row: Row,
}

impl From<Kept> for Entry {
    fn from(kept: Kept) -> Self {
        kept.row.into()
    }
}

impl From<Row> for Entry {
    fn from(row: Row) -> Self {
        Self { ratio: Some(row.ratio()), verdict: row.verdict().to_owned(), row }
    }
}

impl Part {
    pub(super) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().map(|entry| &entry.row)
    }
}

impl Scoreboard {
    /// What was measured before, if anything.
    pub(super) fn read(root: &Path) -> Result<Self> {
        match fs::read_to_string(root.join(JSON)) {
            Ok(text) => {
                serde_json::from_str(&text).with_context(|| format!("{JSON} is no scoreboard; delete it"))
            }
            Err(_) => Ok(Self::default()),
        }
    }

    /// Takes in what was measured of a part, in place of what was there of it.
    pub(super) fn take_in(&mut self, name: &str, machine: Machine, rows: Vec<Row>) {
        let rows = rows.into_iter().map(Entry::from).collect();
        let part = Part { name: name.to_owned(), machine, rows };
        match self.parts.iter_mut().find(|known| known.name == name) {
            Some(known) => *known = part,
            None => self.parts.push(part),
        }
    }

    pub(super) fn write(&self, root: &Path) -> Result<()> {
        let path = root.join(JSON);
        fs::write(&path, serde_json::to_string_pretty(self)?)
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

/// The parts with these names.
pub(super) fn table(scoreboard: &Scoreboard, names: &[&str]) -> String {
    let (what, against) = WIDTHS;
    let mut text = String::new();
    for part in scoreboard.parts.iter().filter(|part| names.contains(&&*part.name)) {
        let name = &part.name;
        let _ = writeln!(
            text,
            "\n{name:what$} {:>9} {:>9} {:<6} {:<against$} {:>6} {:<11} verdict",
            "ours", "theirs", "", "beside", "ratio", "spread"
        );
        for row in part.rows() {
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
