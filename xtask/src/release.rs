//! `cargo xtask release`: runs `.ci/release`, the recipe of a release.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use inferstore_contract::tools::absolute;

/// Prepare a release: version, changelog, packages, archive, checksums, commit, tag.
#[derive(clap::Args)]
pub(crate) struct Job {
    /// The new version, such as 0.2.0.
    version: String,
    /// Check everything and print the steps; change nothing.
    #[arg(long)]
    dry_run: bool,
}

impl Job {
    pub(crate) fn run(&self, root: &Path) -> Result<String> {
        let root = absolute(&root.join("."))?;
        let mut recipe = Command::new(root.join(".ci/release"));
        recipe.arg(&self.version).args(self.dry_run.then_some("--dry-run")).current_dir(root);
        let status = recipe.status().context("cannot run .ci/release")?;
        ensure!(status.success(), "the release is not prepared, see above");
        Ok(String::new())
    }
}
