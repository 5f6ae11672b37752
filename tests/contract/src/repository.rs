//! Access to the repository by git.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};

use crate::tools::absolute;

fn run(root: &Path, arguments: &[&str]) -> Result<Output> {
    let mut git = Command::new("git");
    git.args(arguments).current_dir(absolute(&root.join("."))?).output().context("cannot run git")
}

/// Returns the standard output of git, or `None` if it fails.
pub fn git(root: &Path, arguments: &[&str]) -> Result<Option<String>> {
    let output = run(root, arguments)?;
    Ok(output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// Returns the files of the repository with their content, uncommitted ones included.
pub fn files(root: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let output = run(root, &["ls-files", "--cached", "--others", "--exclude-standard", "-z"])?;
    ensure!(
        output.status.success(),
        "git cannot list the files: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let names = String::from_utf8(output.stdout).context("git lists a file whose name is not UTF-8")?;
    let mut files = BTreeMap::new();
    for name in names.split_terminator('\0') {
        match fs::read(root.join(name)) {
            Ok(bytes) => _ = files.insert(name.to_owned(), bytes),
            // Deleted but not committed, or another checkout below this one.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory) => {}
            Err(error) => return Err(error).with_context(|| format!("cannot read {name}")),
        }
    }
    Ok(files)
}
