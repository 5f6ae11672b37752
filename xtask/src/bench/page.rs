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
loopback, in alternating rounds; figures are medians of the rounds.

- Ratio above 1: ours is better. Rates are ours / theirs; times and sizes are theirs / ours. The ratio is the median of the
  ratios of the rounds, which can differ from the ratio of the medians. It is `-` where one side is zero.
- Spread: the ratios of the worst and of the best round.
- A row *meets its minimum* when being ahead is not the point, and the ratio is at least the one that the row names.
- The command in the last column measures the row again.

";

const VERDICTS: [&str; 3] = ["| ahead |", "| meets its minimum of", "| behind |"];

pub(super) fn write(root: &Path, measured: &[Measured]) -> Result<()> {
    let path = root.join(PAGE);
    let old = fs::read_to_string(&path).unwrap_or_default();
    fs::write(&path, page(measured, &old)).with_context(|| format!("cannot write {}", path.display()))
}

/// The page, with the parts of the old one that were not measured.
fn page(measured: &[Measured], old: &str) -> String {
    let parts = parts(measured, old);
    format!("{HEAD}{}{parts}", summary(&parts))
}

fn summary(parts: &str) -> String {
    let mut text =
        "| part | rows | ahead | meet their minimum | behind |\n|---|--:|--:|--:|--:|\n".to_owned();
    for part in parts.split("\n## ").skip(1) {
        let name = part.lines().next().unwrap_or_default();
        let count = |verdict| part.lines().filter(|line| line.contains(verdict)).count();
        let [ahead, meet, behind] = VERDICTS.map(count);
        let rows = ahead + meet + behind;
        // Writing to a text does not fail.
        let _ = writeln!(text, "| [{name}](#{name}) | {rows} | {ahead} | {meet} | {behind} |");
    }
    text
}

fn parts(measured: &[Measured], old: &str) -> String {
    let mut text = String::new();
    for name in PARTS.map(|part| part.name) {
        let Some(part) = measured.iter().find(|part| part.name == name) else {
            let kept = old.split("\n## ").find(|part| part.lines().next() == Some(name));
            text.extend(kept.map(|part| format!("\n## {}\n", part.trim_end())));
            continue;
        };
        let _ = writeln!(text, "\n## {}\n\nMeasured on {}.\n", part.name, part.machine);
        let _ = writeln!(text, "| work | beside | ours | theirs | ratio | spread | | again |");
        let _ = writeln!(text, "|---|---|--:|--:|--:|---|---|---|");
        for row in &part.rows {
            let _ = writeln!(text, "{}", line(row));
        }
        text.push_str(&notes(&part.rows));
    }
    text
}

fn notes(rows: &[Row]) -> String {
    let mut notes: Vec<(&str, Vec<String>)> = Vec::new();
    for row in rows {
        let note = match &row.note {
            Some(note) => note,
            None if row.is_behind() => "the reason is not known",
            None => continue,
        };
        let row = format!("{}, beside {} ({})", row.what, row.against, row.verdict());
        match notes.iter_mut().find(|(known, _)| *known == note) {
            Some((_, rows)) => rows.push(row),
            None => notes.push((note, vec![row])),
        }
    }
    let items = notes.into_iter().map(|(note, rows)| format!("- **{}**: {note}\n", rows.join("; ")));
    let items: String = items.collect();
    if items.is_empty() { items } else { format!("\n{items}") }
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
    let spread = format!("{least} to {most}");
    let (median, spread) =
        if ratio.most.is_finite() { (median, spread) } else { ("-".to_owned(), "-".to_owned()) };
    let minimum = row.minimum.filter(|_| verdict == "meets its minimum");
    let minimum = minimum.map_or_else(String::new, |minimum| format!(" of {}", figure(minimum)));
    format!(
        "| {what} | {against} | {ours} {unit} | {theirs} {unit} | {median} | {spread} | {verdict}{minimum} | `{command}` |"
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
