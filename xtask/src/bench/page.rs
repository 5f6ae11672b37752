//! The scoreboard as a page for people, losses included.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::row::{Row, figure, median};
use super::scoreboard::Scoreboard;

const PAGE: &str = "docs/scoreboard.md";

const HEAD: &str = "\
# Scoreboard

Written by `cargo xtask bench --publish`. Both sides of a row did the same work on the same machine, over
loopback, in turns; figures are medians of the rounds. The ratio says how many times as good ours is: above
1, ours is ahead. The spread is the ratio of the worst round and of the best. The command in the last
column measures the row again.
";

pub(super) fn write(root: &Path, scoreboard: &Scoreboard) -> Result<()> {
    let path = root.join(PAGE);
    fs::write(&path, page(scoreboard)).with_context(|| format!("cannot write {}", path.display()))
}

fn page(scoreboard: &Scoreboard) -> String {
    let mut text = HEAD.to_owned();
    for part in &scoreboard.parts {
        let _ = writeln!(text, "\n## {}\n\nMeasured on {}.\n", part.name, part.machine);
        let _ = writeln!(text, "| work | beside | ours | theirs | ratio | spread | | again |");
        let _ = writeln!(text, "|---|---|--:|--:|--:|---|---|---|");
        for row in part.rows() {
            line(&mut text, row);
        }
        for row in part.rows() {
            if let Some(note) = &row.note {
                let _ =
                    write!(text, "\n**{}**, beside {} ({}): {note}\n", row.what, row.against, row.verdict());
            } else if row.verdict() == "behind" {
                let _ = write!(
                    text,
                    "\n**{}**, beside {}: behind; why has not been found out.\n",
                    row.what, row.against
                );
            }
        }
    }
    text
}

fn line(text: &mut String, row: &Row) {
    let Row { what, against, unit, command, .. } = row;
    if !row.is_measured() {
        let _ = writeln!(text, "| {what} | {against} | | | | | {} | `{command}` |", row.verdict());
        return;
    }
    let (ours, theirs) = (figure(median(&row.ours)), figure(median(&row.theirs)));
    let ratio = row.ratio();
    let [median, least, most] = [ratio.median, ratio.least, ratio.most].map(figure);
    let verdict = match (row.verdict(), row.bar) {
        (verdict @ "meets its bar", Some(bar)) => format!("{verdict} of {}", figure(bar)),
        (verdict, _) => verdict.to_owned(),
    };
    let _ = writeln!(
        text,
        "| {what} | {against} | {ours} {unit} | {theirs} {unit} | {median} | {least} to {most} | {verdict} | `{command}` |"
    );
}
