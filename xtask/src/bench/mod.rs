//! `cargo xtask bench`: measures the client, the service and their builds beside what one would use
//! instead, and writes the scoreboard.

mod builds;
mod machine;
mod page;
mod peers;
mod programs;
mod scoreboard;
mod tools;

use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use inferstore_measure as row;

use machine::Machine;
use row::Row;
use scoreboard::Scoreboard;

/// Measures one part of the scoreboard. What was measured before it fails is kept.
type Measure = fn(&Path, &mut Vec<Row>) -> Result<()>;

const GROUPS: [(&str, Measure); 6] = [
    ("client", programs::client),
    ("service", programs::service),
    ("models", programs::models),
    ("command", programs::command),
    ("build", builds::builds),
    ("peers", peers::peers),
];

pub(crate) struct Job<'a> {
    root: &'a Path,
    /// Some parts; all when empty.
    groups: Vec<&'a str>,
    /// Also writes `docs/scoreboard.md`, with what was measured before of the other parts.
    publish: bool,
}

impl<'a> Job<'a> {
    pub(crate) fn read(root: &'a Path, options: &[&'a str]) -> Result<Self> {
        let mut job = Self { root, groups: Vec::new(), publish: false };
        for option in options {
            match *option {
                "--publish" => job.publish = true,
                group if GROUPS.iter().any(|(name, _)| *name == group) => job.groups.push(group),
                other => bail!("bench has no part and no option {other}; the parts are {}", parts()),
            }
        }
        Ok(job)
    }

    pub(crate) fn run(&self) -> Result<String> {
        let begun = Instant::now();
        let (mut scoreboard, mut measured) = (Scoreboard::read(self.root)?, Vec::new());
        let mut failures = Vec::new();
        for (name, measure) in GROUPS {
            if self.groups.is_empty() || self.groups.contains(&name) {
                say(&format!("measuring: {name}"))?;
                let mut rows = Vec::new();
                if let Err(failure) = measure(self.root, &mut rows) {
                    failures.push(format!("{name}: {failure:#}"));
                }
                scoreboard.take_in(name, Machine::read(), rows);
                scoreboard.write(self.root)?;
                measured.push(name);
            }
        }
        if self.publish {
            page::write(self.root, &scoreboard)?;
        }
        say(&format!("measured {} in {:.0?}", measured.join(", "), begun.elapsed()))?;
        let table = scoreboard::table(&scoreboard, &measured);
        ensure!(failures.is_empty(), "{}\n{table}", failures.join("\n"));
        Ok(table)
    }
}

fn parts() -> String {
    GROUPS.map(|(name, _)| name).join(", ")
}

/// Tells how far it is: measuring takes minutes.
fn say(line: &str) -> Result<()> {
    writeln!(io::stderr(), "{line}").context("cannot write to standard error")
}
