//! `cargo xtask coverage`: which share of each crate's code its tests and those of `tests` run. Code of tests
//! does not count. It builds into a folder of its own, which is large and goes when the figures are there.

mod lcov;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::tools::{absolute, cargo, cargo_has, must};
use lcov::{Counts, read};

/// What cargo-llvm-cov builds into, and what it leaves for another look.
const BUILD: &str = "target/coverage";
const RECORD: &str = "target/coverage.lcov";

pub(crate) struct Job<'a> {
    root: &'a Path,
    /// Looks at the last record instead of running the tests.
    again: bool,
    /// Whose lines are named that no test runs.
    path: Option<String>,
}

impl<'a> Job<'a> {
    pub(crate) fn read(root: &'a Path, options: &[&str]) -> Result<Self> {
        let mut job = Self { root, again: false, path: None };
        for option in options {
            match *option {
                "--again" => job.again = true,
                flag if flag.starts_with('-') => bail!("coverage has no option {flag}"),
                path => job.path = Some(path.to_owned()),
            }
        }
        Ok(job)
    }

    pub(crate) fn run(&self) -> Result<String> {
        let record = absolute(&self.root.join(RECORD))?;
        if !self.again {
            self.record(&record)?;
        }
        let text = fs::read_to_string(&record)
            .with_context(|| format!("cannot read {}; run it without --again", record.display()))?;
        let root = absolute(&self.root.join("."))?;
        let counts: BTreeMap<PathBuf, Counts> = read(&text, &root)?;
        ensure!(!counts.is_empty(), "{} names no file of this repository", record.display());
        Ok(match &self.path {
            None => table(&counts),
            Some(path) => missing(&counts, Path::new(path)),
        })
    }

    /// Runs all tests and writes down what they ran.
    fn record(&self, record: &Path) -> Result<()> {
        ensure!(
            cargo_has("llvm-cov"),
            "there is no cargo-llvm-cov here; `cargo install cargo-llvm-cov` and try again. It needs LLVM's own \
             tools, too: `rustup component add llvm-tools`, or name some of that version in LLVM_COV and \
             LLVM_PROFDATA"
        );
        let folder = absolute(&self.root.join(BUILD))?;
        let mut command = cargo();
        command.args(["llvm-cov", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast", "--lcov"]);
        command.arg("--output-path").arg(record).current_dir(absolute(&self.root.join("."))?);
        // Nobody debugs this build, or builds it twice.
        command.env("CARGO_LLVM_COV_TARGET_DIR", &folder).env("CARGO_PROFILE_DEV_DEBUG", "0");
        command.env("CARGO_INCREMENTAL", "0");
        must("cargo-llvm-cov", &mut command)?;
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))
    }
}

/// A row for each crate, and one for all of them.
fn table(counts: &BTreeMap<PathBuf, Counts>) -> String {
    let mut crates: BTreeMap<String, (Counts, usize)> = BTreeMap::new();
    for (file, counts) in counts {
        let name: Vec<_> =
            file.iter().take_while(|part| *part != "src").map(|part| part.to_string_lossy()).collect();
        for name in [name.join("/"), "all".to_owned()] {
            let (sum, files) = crates.entry(name).or_default();
            sum.add(counts);
            *files += 1;
        }
    }
    let mut text = format!("{:<18} {:>6} {:>16} {:>20}\n", "crate", "files", "lines run", "functions run");
    // Last, whatever the crates are called.
    let all = crates.remove_entry("all");
    for (name, (counts, files)) in crates.into_iter().chain(all) {
        let share = |hit: usize, of: usize| format!("{:.1} % of {of}", 100.0 * hit as f64 / of.max(1) as f64);
        let (lines, functions) = (counts.lines(), counts.functions());
        // Writing to a text does not fail.
        let _ = writeln!(
            text,
            "{name:<18} {files:>6} {:>16} {:>20}",
            share(lines.0, lines.1),
            share(functions.0, functions.1)
        );
    }
    text
}

/// The lines that no test runs, with what stands there.
fn missing(counts: &BTreeMap<PathBuf, Counts>, below: &Path) -> String {
    let mut text = String::new();
    for (file, counts) in counts.iter().filter(|(file, _)| file.starts_with(below)) {
        for (line, code) in counts.missing() {
            let _ = writeln!(text, "{}:{line}: {}", file.display(), code.trim());
        }
    }
    if text.is_empty() { "every line is run by some test\n".to_owned() } else { text }
}
