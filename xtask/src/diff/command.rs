//! `cargo xtask diff`: which documents to compare, and what to say.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::{Severity, Version, compare, report, version};
use crate::document::Document;

/// The folder of the versions that were published, each as `<version>.yaml`.
const PUBLISHED: &str = "openapi/published";

/// Two documents to compare.
pub(crate) struct Job {
    old: PathBuf,
    new: PathBuf,
    as_json: bool,
    /// Whether the version of the new document must be high enough for what changed.
    check: bool,
}

impl Job {
    /// Reads the arguments; the last published version and the document stand in for what is not
    /// given.
    pub(crate) fn read(root: &Path, arguments: &[&str]) -> Result<Self> {
        let (mut as_json, mut check, mut documents) = (false, false, Vec::new());
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match *argument {
                "--check" => check = true,
                "--format" => match arguments.next() {
                    Some(&"json") => as_json = true,
                    Some(&"text") => as_json = false,
                    other => bail!("--format is text or json, not {}", other.unwrap_or(&"nothing")),
                },
                option if option.starts_with('-') => bail!("diff has no option {option}"),
                document => documents.push(PathBuf::from(document)),
            }
        }
        ensure!(documents.len() <= 2, "diff compares two documents, not {}", documents.len());
        let mut documents = documents.into_iter();
        let old = match documents.next() {
            Some(old) => old,
            None => last_published(root)?,
        };
        let new = documents.next().unwrap_or_else(|| root.join("openapi/inferstore.yaml"));
        Ok(Self { old, new, as_json, check })
    }

    /// Compares; fails when the version of the new document is too low for what changed.
    pub(crate) fn checked(&self) -> Result<String> {
        let (old, new) = (read(&self.old)?, read(&self.new)?);
        let changes = compare(&old, &new);
        let report = report::text(&changes, &self.old.display().to_string(), &self.new.display().to_string());
        version::check(Version::of(&old)?, Version::of(&new)?, changes.verdict())
            .with_context(|| report.clone())?;
        Ok(report)
    }

    /// Compares, and says what changed. An error means that there was nothing to compare; a check
    /// that fails is not an error.
    pub(crate) fn run(&self) -> Result<(String, ExitCode)> {
        let (old, new) = (read(&self.old)?, read(&self.new)?);
        let changes = compare(&old, &new);
        let text = if self.as_json {
            report::json(&changes)?
        } else {
            report::text(&changes, &self.old.display().to_string(), &self.new.display().to_string())
        };
        let is_fine = if self.check {
            let verdict = changes.verdict();
            let checked = version::check(Version::of(&old)?, Version::of(&new)?, verdict);
            if let Err(complaint) = &checked {
                // Not among the report, which a program may be reading.
                let _ = writeln!(io::stderr(), "error: {complaint:#}");
            }
            checked.is_ok()
        } else {
            changes.verdict() != Some(Severity::Breaking)
        };
        Ok((text, if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }))
    }
}

/// A document that can be compared.
pub(crate) fn read(path: &Path) -> Result<Value> {
    let document = Document::load(path)?.value;
    let shown = path.display();
    ensure!(
        document["openapi"].as_str().is_some_and(|version| version.starts_with("3.")),
        "{shown} is not an OpenAPI 3 document; it has no `openapi: 3.…`"
    );
    ensure!(document["paths"].is_object(), "{shown} has no `paths`; there is nothing to compare");
    if let Some(reference) = broken_reference(&document, &document) {
        bail!("{shown}: there is no {reference}, and something refers to it");
    }
    Ok(document)
}

/// A reference that leads nowhere. Examples may hold whatever looks like one.
fn broken_reference(document: &Value, value: &Value) -> Option<String> {
    match value {
        Value::Object(members) => members.iter().find_map(|(key, value)| match (key.as_str(), value) {
            ("$ref", Value::String(reference)) => {
                let target = reference.strip_prefix('#').and_then(|pointer| document.pointer(pointer));
                target.is_none().then(|| reference.clone())
            }
            ("example" | "examples", _) => None,
            _ => broken_reference(document, value),
        }),
        Value::Array(items) => items.iter().find_map(|item| broken_reference(document, item)),
        _ => None,
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
