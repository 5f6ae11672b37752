//! `cargo xtask diff`: its options, the documents that it compares, and how it ends.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};

use super::node::EXAMPLES;
use super::{Severity, Version, compare, corpus, report, version};
use crate::document::Document;
use crate::tree::Tree;

pub(super) const USAGE: &str = "\
Compares two versions of the document: what changed, and which callers break

  cargo xtask diff [OLD] [NEW]    OLD is the last published version, NEW openapi/inferstore.yaml
                                  unless given
  cargo xtask diff --corpus       compares the verdicts on xtask/tests/corpus with those of oasdiff,
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
            Self::Corpus(root) => corpus::compare_with_oasdiff(root),
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
            report::json(&changes)?
        } else {
            let (old_name, new_name) = (self.old.display().to_string(), self.new.display().to_string());
            report::text(&changes, (&old, &old_name), &new_name)
        };
        let checked = if self.check {
            version::check(Version::of(&old)?, Version::of(&new)?, verdict)
        } else if verdict == Some(Severity::Breaking) {
            Err(anyhow::anyhow!("something breaks"))
        } else {
            Ok(())
        };
        Ok((report, checked))
    }
}

/// Reads a document that can be compared.
pub(crate) fn load(path: &Path) -> Result<Tree> {
    let shown = path.display();
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    let document: Tree = match serde_saphyr::from_str(&text) {
        Ok(document) => document,
        // This one knows where the error is. It takes keys that are no texts for texts.
        Err(_) => {
            Document::load(path)?;
            bail!("{shown}: a key is a boolean, a number or null in YAML, such as `Off` or `1`; quote it");
        }
    };
    ensure!(
        document["openapi"].as_str().is_some_and(|version| version.starts_with("3.")),
        "{shown} is not an OpenAPI 3 document; it has no `openapi: 3.…`"
    );
    ensure!(document["paths"].is_map(), "{shown} has no `paths`; there is nothing to compare");
    if let Some(reference) = broken_reference(&document, &document) {
        bail!("{shown}: there is no {reference}, and something refers to it");
    }
    Ok(document)
}

/// A reference without a target. Examples may hold whatever looks like one.
fn broken_reference(document: &Tree, value: &Tree) -> Option<String> {
    let own = value["$ref"].as_str().filter(|reference| document.pointer(reference).is_none());
    let members = value.members().filter(|(key, _)| !EXAMPLES.contains(key)).map(|(_, member)| member);
    let mut inner = members.chain(value.items()).filter_map(|member| broken_reference(document, member));
    own.map(str::to_owned).or_else(|| inner.next())
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
