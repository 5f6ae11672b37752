//! Benchmarks that are programs of the workspace: run by cargo, in release, one after the other.

use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};

use super::row::{ROW_MARK, ROWS_VARIABLE, Row};
use super::{say, tools};
use crate::tools::cargo;

pub(super) fn client(root: &Path, rows: &mut Vec<Row>) -> Result<()> {
    tools::need(&["valgrind", "curl"])?;
    let names =
        ["overhead", "calls", "decode", "polls", "schedule", "transfers", "upload_memory", "deadlines"];
    programs(root, &names, rows)
}

pub(super) fn service(root: &Path, rows: &mut Vec<Row>) -> Result<()> {
    tools::install(root)?;
    programs(root, &["requests", "commits", "objects", "growth", "start", "controls"], rows)
}

pub(super) fn models(root: &Path, rows: &mut Vec<Row>) -> Result<()> {
    programs(root, &["speed"], rows)
}

pub(super) fn command(root: &Path, rows: &mut Vec<Row>) -> Result<()> {
    tools::need(&["curl"])?;
    programs(root, &["command"], rows)
}

/// Runs them all, also after one that fails.
fn programs(root: &Path, names: &[&str], rows: &mut Vec<Row>) -> Result<()> {
    let mut failures = Vec::new();
    for name in names {
        say(&format!("  {name}"))?;
        if let Err(failure) = program(root, name, rows) {
            failures.push(format!("{failure:#}"));
        }
    }
    ensure!(failures.is_empty(), "{}", failures.join("; "));
    Ok(())
}

/// Runs one benchmark, passes on what it says, and keeps its rows.
fn program(root: &Path, name: &str, rows: &mut Vec<Row>) -> Result<()> {
    let mut command = cargo();
    // Without a package: all benchmarks share one build of everything.
    command.args(["bench", "--quiet", "--bench", name]).env(ROWS_VARIABLE, "json").stdout(Stdio::piped());
    if root != Path::new("") {
        command.current_dir(root);
    }
    let mut bench = match command.spawn() {
        Err(error) if error.kind() == ErrorKind::NotFound => bail!("there is no `cargo` here; install Rust"),
        other => other.context("cannot run cargo")?,
    };
    let before = rows.len();
    for line in BufReader::new(bench.stdout.take().context("cargo has no output")?).lines() {
        let line = line.with_context(|| format!("cannot read what {name} says"))?;
        match line.strip_prefix(ROW_MARK) {
            None => say(&format!("    {line}"))?,
            Some(json) => {
                rows.push(
                    serde_json::from_str(json).with_context(|| format!("{name} wrote no row: {json}"))?,
                );
            }
        }
    }
    let status = bench.wait().context("cannot wait for cargo")?;
    ensure!(
        status.success(),
        "the benchmark {name} failed, see above; alone it is `cargo bench --bench {name}`"
    );
    ensure!(rows.len() > before, "{name} measured nothing");
    Ok(())
}
