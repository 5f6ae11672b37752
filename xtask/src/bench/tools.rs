//! Programs of others that take part in measurements.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

use super::say;
use crate::tools::{Set, Tools, absolute, cargo, must};

/// A mock server for documents. The benchmark looks for it under this name.
const PRISM: Set<'static> = Set { name: "prism", npm: &["@stoplight/prism-cli@5.14.2"], pypi: &[] };

/// The object store that comes with s3s. Newer ones need a newer compiler.
const S3S_FS: &str = "0.14.1";

/// Fails when one of the programs is not there, and says what to install.
pub(super) fn need(programs: &[&str]) -> Result<()> {
    let missing: Vec<&str> = programs
        .iter()
        .copied()
        .filter(|program| {
            let mut command = Command::new(program);
            command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err()
        })
        .collect();
    ensure!(
        missing.is_empty(),
        "this needs {}; install what is missing and try again",
        missing.join(" and ")
    );
    Ok(())
}

/// Installs what the service is measured beside, once.
pub(super) fn install(root: &Path) -> Result<()> {
    Tools::install(root, &PRISM)?;
    let folder = root.join("target/tools").join(format!("s3s-fs-{S3S_FS}"));
    if folder.join("bin/s3s-fs").exists() {
        return Ok(());
    }
    say(&format!("  installing s3s-fs {S3S_FS}; this takes some minutes, once"))?;
    let mut cargo = cargo();
    cargo.args(["install", "s3s-fs", "--quiet", "--locked", "--features", "binary", "--version", S3S_FS]);
    must("Rust", cargo.arg("--root").arg(absolute(&folder)?))?;
    Ok(())
}
