//! The scoreboard as a page for people, losses included.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use inferstore_measure::{Row, figure, median};

use super::{Measured, PARTS};

const PAGE: &str = "docs/scoreboard.md";

const HEAD: &str = "\
# Scoreboard

Written by `cargo xtask bench --publish`. Both sides of a row did the same work on the same machine, over
loopback, in turns; figures are medians of the rounds. The ratio says how many times as good ours is: above
1, ours is ahead. It is the median of the ratios of the rounds, which can differ from the ratio of the medians; the
spread is that of the worst round and of the best. The command in the last
column measures the row again.
";

pub(super) fn write(root: &Path, measured: &[Measured]) -> Result<()> {
    let path = root.join(PAGE);
    let old = fs::read_to_string(&path).unwrap_or_default();
    fs::write(&path, page(measured, &old)).with_context(|| format!("cannot write {}", path.display()))
}

/// The page, with the parts of the old one that were not measured.
fn page(measured: &[Measured], old: &str) -> String {
    let mut text = HEAD.to_owned();
    for name in PARTS.map(|part| part.name) {
        let Some(part) = measured.iter().find(|part| part.name == name) else {
            let kept = old.split("\n## ").find(|part| part.lines().next() == Some(name));
            text.extend(kept.map(|part| format!("\n## {}\n", part.trim_end())));
            continue;
        };
        // Writing to a text does not fail.
        let _ = writeln!(text, "\n## {}\n\nMeasured on {}.\n", part.name, part.machine);
        let _ = writeln!(text, "| work | beside | ours | theirs | ratio | spread | | again |");
        let _ = writeln!(text, "|---|---|--:|--:|--:|---|---|---|");
        for row in &part.rows {
            let _ = writeln!(text, "{}", line(row));
        }
        for row in &part.rows {
            let Row { what, against, .. } = row;
            if let Some(note) = &row.note {
                let _ = write!(text, "\n**{what}**, beside {against} ({}): {note}\n", row.verdict());
            } else if row.is_behind() {
                let _ = write!(text, "\n**{what}**, beside {against}: behind; the reason is not known.\n");
            }
        }
    }
    text
}

fn line(row: &Row) -> String {
    let Row { what, against, unit, command, .. } = row;
    let verdict = row.verdict();
    if !row.is_measured() {
        return format!("| {what} | {against} | | | | | {verdict} | `{command}` |");
    }
    let ratio = row.ratio();
    let [ours, theirs, median, least, most] =
        [median(&row.ours), median(&row.theirs), ratio.median, ratio.least, ratio.most].map(figure);
    let bar = row.bar.filter(|_| verdict == "meets its bar");
    let bar = bar.map_or_else(String::new, |bar| format!(" of {}", figure(bar)));
    format!(
        "| {what} | {against} | {ours} {unit} | {theirs} {unit} | {median} | {least} to {most} | {verdict}{bar} | `{command}` |"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_that_were_not_measured_stay() {
        let published = include_str!("../../../docs/scoreboard.md");
        assert_eq!(page(&[], published), published);
    }
}
