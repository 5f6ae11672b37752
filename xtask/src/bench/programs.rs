//! Benchmarks that are programs of the workspace: run by cargo, in release, one after the other.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::row::Row;
use crate::tools::{cargo, must};

/// How a program marks a row.
const MARK: &str = "row: ";

pub(super) fn client(root: &Path) -> Result<Vec<Row>> {
    program(root, "inferstore-tests", "overhead")
}

/// Runs one benchmark and takes the rows from what it prints.
fn program(root: &Path, package: &str, name: &str) -> Result<Vec<Row>> {
    let mut command = cargo();
    command.args(["bench", "--quiet", "--package", package, "--bench", name]);
    if root != Path::new("") {
        command.current_dir(root);
    }
    let output = must("Rust", &mut command)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let rows = text.lines().filter_map(|line| line.strip_prefix(MARK));
    let rows: Vec<Row> = rows
        .map(|json| serde_json::from_str(json).with_context(|| format!("{name} wrote no row: {json}")))
        .collect::<Result<_>>()?;
    ensure!(!rows.is_empty(), "{name} measured nothing");
    Ok(rows)
}
