//! Where and when something was measured.

use std::fmt::{self, Display};
use std::fs;
use std::process::Command;
use std::thread;

use serde::{Deserialize, Serialize};

/// Who makes processors. Other names may be of somebody's own.
const MAKERS: [&str; 4] = ["Intel", "AMD", "ARM", "Apple"];

/// What the figures depend on, in words. What cannot be found out is left out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Machine {
    pub(super) date: String,
    pub(super) facts: Vec<(String, String)>,
}

impl Machine {
    pub(super) fn read() -> Self {
        let date = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
        let facts = [
            ("cores", thread::available_parallelism().map(|cores| cores.to_string()).ok()),
            ("processor", processor()),
            ("memory", memory()),
            ("system", system()),
            ("Rust", version("rustc")),
            ("curl", version("curl")),
            ("Node.js", version("node")),
            ("valgrind", version("valgrind")),
        ];
        let known = facts.into_iter().filter_map(|(name, fact)| Some((name.to_owned(), fact?)));
        Self { date, facts: known.collect() }
    }
}

impl Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts: Vec<String> = self.facts.iter().map(|(name, fact)| format!("{name} {fact}")).collect();
        write!(f, "{}, {}", self.date, facts.join(", "))
    }
}

/// The value behind a name in a file that the system keeps.
fn value(file: &str, name: &str, mark: char) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let mut pairs = text.lines().filter_map(|line| line.split_once(mark));
    pairs.find(|(found, _)| found.trim() == name).map(|(_, value)| value.trim().trim_matches('"').to_owned())
}

fn processor() -> Option<String> {
    value("/proc/cpuinfo", "model name", ':').filter(|name| MAKERS.iter().any(|maker| name.contains(maker)))
}

fn memory() -> Option<String> {
    let kib: f64 = value("/proc/meminfo", "MemTotal", ':')?.trim_end_matches(" kB").parse().ok()?;
    Some(format!("{:.0} GiB", kib / 1024.0 / 1024.0))
}

fn system() -> Option<String> {
    value("/etc/os-release", "PRETTY_NAME", '=')
}

/// The version alone: what programs say further depends on how they were built.
fn version(program: &str) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let mut words = text.split([' ', '-', '\n']);
    words
        .find(|word| word.trim_start_matches('v').starts_with(|first: char| first.is_ascii_digit()))
        .map(Into::into)
}
