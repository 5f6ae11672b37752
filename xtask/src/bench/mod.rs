//! `cargo xtask bench`: measures the client, the service and their builds beside what one would use
//! instead, and writes the scoreboard.

mod builds;
mod peers;
mod programs;
mod row;
mod scoreboard;

use std::path::Path;

use anyhow::{Result, bail, ensure};

use row::Row;

/// Measures one part of the scoreboard.
type Measure = fn(&Path) -> Result<Vec<Row>>;

const GROUPS: [(&str, Measure); 3] =
    [("build", builds::builds), ("client", programs::client), ("peers", peers::peers)];

pub(crate) struct Job<'a> {
    root: &'a Path,
    /// Some parts; all when empty.
    groups: Vec<&'a str>,
    /// Also writes `docs/scoreboard.md`.
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
        ensure!(!job.publish || job.groups.is_empty(), "only a whole scoreboard is published");
        Ok(job)
    }

    pub(crate) fn run(&self) -> Result<String> {
        let mut rows = Vec::new();
        for (name, measure) in GROUPS {
            if self.groups.is_empty() || self.groups.contains(&name) {
                rows.extend(measure(self.root)?);
            }
        }
        scoreboard::write_json(self.root, &rows)?;
        if self.publish {
            scoreboard::write_page(self.root, &rows)?;
        }
        Ok(scoreboard::table(&rows))
    }
}

fn parts() -> String {
    GROUPS.map(|(name, _)| name).join(", ")
}
