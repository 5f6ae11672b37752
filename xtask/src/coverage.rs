//! `cargo xtask coverage`: the lines of the product that tests run, by cargo-llvm-cov, in a folder removed afterwards.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use inferstore_contract::tools::{absolute, cargo, must, need_subcommand};

const BUILD: &str = "target/coverage";
const REPORT: &str = "target/coverage.txt";

/// Files that are no product: tests, and code that a generator writes and its authors test.
const EXCLUDED: &str = r"/(tests|benches|conformance)/|[/_]tests\.rs$|/generated\.rs$";

/// Report which lines of each file the tests run; runs all tests.
#[derive(clap::Args)]
pub(crate) struct Job {
    /// Only the files whose path contains this, with the lines that no test runs.
    path: Option<String>,
}

impl Job {
    pub(crate) fn run(&self, root: &Path) -> Result<String> {
        let report = absolute(&root.join(REPORT))?;
        need_subcommand("llvm-cov")?;
        let folder = absolute(&root.join(BUILD))?;
        let mut command = cargo();
        command.args(["llvm-cov", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast"]);
        command.args(["--show-missing-lines", "--ignore-filename-regex", EXCLUDED, "--output-path"]);
        command.arg(&report).current_dir(absolute(&root.join("."))?);
        command.env("CARGO_LLVM_COV_TARGET_DIR", &folder).env("CARGO_INCREMENTAL", "0");
        must("cargo-llvm-cov and LLVM's own tools (`rustup component add llvm-tools`)", &mut command)?;
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        let text =
            fs::read_to_string(&report).with_context(|| format!("cannot read {}", report.display()))?;
        let (table, lines) = text.split_once("Uncovered Lines:").unwrap_or((&text, ""));
        Ok(match &self.path {
            None => table.to_owned(),
            Some(path) => {
                let shown = table.lines().chain(lines.lines()).filter(|line| line.contains(path.as_str()));
                shown.map(|line| format!("{line}\n")).collect()
            }
        })
    }
}
