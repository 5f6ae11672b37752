//! `cargo xtask publish`: a folder for any static web server, or to hand over; the same document makes the same bytes.

mod changelog;
mod collections;
mod examples;
mod feed;
mod guides;
mod index;
mod json_schemas;
mod pages;
mod prove;
mod texts;
mod view31;
mod views;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;

use inferstore_contract::consumers::Consumer;
use inferstore_contract::examples::{EXAMPLES, FOLDER as EXAMPLES_FOLDER};
use openapi_impact::Version;

use crate::diff::{self, published};
use crate::document::{DOCUMENT, Document};
use crate::lint::{REDOCLY_RULES, lint};
use inferstore_contract::tools::{LINTERS, Tools, absolute, must};
use json_schemas::JsonSchemas;
use openapi_impact::Tree;

const FLOWS: [&str; 2] = ["flows.arazzo.yaml", "upload-and-run.arazzo.yaml"];
const GENERATORS: &str = "openapi/generators.md";
const COPIES: [(&str, &str); 5] = [
    ("docs/controls.md", "controls.md"),
    ("docs/safe-creates.md", "safe-creates.md"),
    ("docs/testing.md", "testing.md"),
    ("openapi/examples/judge.py", "examples/judge.py"),
    ("tests/contract/schemathesis.toml", "schemathesis.toml"),
];
/// Version of the flows in the repository, which a publication replaces with its own version.
const UNPUBLISHED: &str = "version: 0.0.0";
const FOLDER: &str = "target/publish";

/// Reads a publication as strict tools do.
const CHECK: &str = include_str!("check.mjs");

#[derive(clap::Args)]
pub(crate) struct Job {
    /// Show in a browser that the pages work without a network.
    #[arg(long)]
    prove: bool,
    /// Keep the document in openapi/published, as a published version.
    #[arg(long)]
    release: bool,
}

impl Job {
    /// Checks, writes, checks what was written, and only then moves it to its path.
    pub(crate) fn run(&self, root: &Path) -> Result<String> {
        let mut report = lint(root)?;
        report.push_str(&check_version(root)?);
        let path = root.join(DOCUMENT);
        let document = Document::load(&path)?;
        let ordered: Tree =
            serde_saphyr::from_str(&document.text).context("the document cannot be read again")?;
        let version = Version::of(&ordered)?.to_string();
        let schemas = JsonSchemas::of(&ordered, &version);
        let examples = examples::check(&ordered, &schemas)?;
        report.push_str(&format!("{examples} examples fit their schemas\n"));

        let releases = changelog::releases(root, &ordered)?;
        let scratch = Scratch::new(root)?;
        let tools = Tools::install(root, &LINTERS)?;
        let consumers = Consumer::all(root)?;
        let generators = root.join(GENERATORS);
        let generators =
            fs::read_to_string(generators).with_context(|| format!("cannot read {GENERATORS}"))?;
        ensure!(
            !generators.trim().is_empty(),
            "{GENERATORS} is empty; write it with `cargo xtask contract --all --publish`"
        );
        let mut files = BTreeMap::from([
            ("inferstore.yaml".to_owned(), document.text.clone()),
            ("inferstore.json".to_owned(), pretty(&ordered)?),
            ("inferstore-3.1.json".to_owned(), pretty(&view31::view(&ordered))?),
            ("inferstore-codes.json".to_owned(), pretty(&views::single_statuses(&ordered))?),
            ("inferstore-typed.json".to_owned(), pretty(&views::typed(&ordered))?),
            ("reference.html".to_owned(), pages::build(&tools, &ordered, &scratch.0)?),
            ("changelog.md".to_owned(), changelog::changelog(&releases)),
            ("feed.xml".to_owned(), feed::feed(&releases)),
            ("index.html".to_owned(), index::page(root, &version, &schemas, &consumers)?),
            ("generators.md".to_owned(), generators),
            ("kinds.json".to_owned(), pretty(&schemas.kinds())?),
        ]);
        let read =
            |path: &str| fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"));
        files.insert("README.md".to_owned(), texts::readme(&read("openapi/README.md")?, &version)?);
        files.insert("reference.md".to_owned(), texts::reference(&ordered, &version));
        files.insert("llms.txt".to_owned(), texts::llms(&ordered, &version));
        for (path, name) in COPIES {
            files.insert(name.to_owned(), read(path)?.replace("](../openapi/", "]("));
        }
        for example in &EXAMPLES {
            let text = read(&format!("{EXAMPLES_FOLDER}/{}", example.file))?;
            files.insert(format!("examples/{}", example.file), text);
        }
        files.extend(collections::files(&ordered, &version)?);
        for name in FLOWS {
            files.insert(name.to_owned(), flows(root, name, &version)?);
        }
        for name in schemas.names() {
            if let Some(schema) = schemas.named(name) {
                files.insert(format!("schemas/{name}.json"), pretty(&schema)?);
            }
        }
        let mut older = Vec::new();
        for (of, path) in published(root)?.into_iter().rev().filter(|(of, _)| of.to_string() != version) {
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            files.insert(format!("versions/{of}.yaml"), text);
            older.push(of.to_string());
        }
        files.insert("run.md".to_owned(), guides::run(read)?);
        let names: BTreeSet<String> = files.keys().cloned().collect();
        for (name, text) in files.iter_mut().filter(|(name, _)| name.ends_with(".md")) {
            *text = texts::without_dead_links(text, |file| names.contains(file) || name.contains('/'));
        }
        files.extend(guides::pages(&files, &version, &older));
        files.insert("SHA256SUMS".to_owned(), index::checksums(&files));
        scratch.write(&files)?;
        check_written(&tools, &scratch.0)?;
        let folder = scratch.put_in_place(root)?;
        report.push_str(&format!("{}: {} files of version {version}\n", folder.display(), files.len()));
        if self.prove {
            report.push_str(&prove::prove(root, &absolute(&folder)?, &document.value)?);
        }
        if self.release {
            report.push_str(&keep(root, &version, &document.text)?);
        }
        Ok(report)
    }
}

fn check_version(root: &Path) -> Result<String> {
    if published(root)?.is_empty() {
        return Ok("no version was published before\n".to_owned());
    }
    diff::check(root)
}

fn flows(root: &Path, name: &str, version: &str) -> Result<String> {
    let path = root.join("openapi").join(name);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(text.contains(UNPUBLISHED), "{} has no `{UNPUBLISHED}` to replace", path.display());
    Ok(text.replacen(UNPUBLISHED, &format!("version: {version}"), 1))
}

/// Copies the document to where `diff` finds it. What was published stays as it is.
fn keep(root: &Path, version: &str, text: &str) -> Result<String> {
    let path = root.join(format!("openapi/published/{version}.yaml"));
    let shown = path.display();
    match fs::read_to_string(&path) {
        Ok(kept) if kept == text => Ok(format!("{shown} holds it already\n")),
        Ok(_) => bail!("{shown} is another document of that version; raise info.version"),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let folder = path.parent().unwrap_or(root);
            let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, text));
            written.with_context(|| format!("cannot write {shown}"))?;
            Ok(format!("{shown} written; commit it\n"))
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {shown}")),
    }
}

/// Others must be able to read the 3.1 view as OpenAPI, and the flows beside the document as they are published.
fn check_written(tools: &Tools<'_>, folder: &Path) -> Result<()> {
    let view = folder.join("inferstore-3.1.json");
    must("Python", tools.python("openapi-spec-validator")?.arg(&view))?;
    let mut redocly = tools.node("redocly")?;
    redocly.args(["lint", "--config", REDOCLY_RULES]).arg(&view).args(FLOWS.map(|name| folder.join(name)));
    must("Node.js", &mut redocly)?;
    let mut strict = tools.command("node");
    strict.arg("--input-type=module").arg("--eval").arg(CHECK);
    must("Node.js", strict.arg(absolute(&tools.node_folder())?).arg(folder))?;
    Ok(())
}

fn pretty(value: &impl Serialize) -> Result<String> {
    Ok(format!("{}\n", serde_json::to_string_pretty(value).context("cannot write JSON")?))
}

/// Folder in which a publication is built, so that a publication that fails leaves the last one as it is.
struct Scratch(PathBuf);

impl Scratch {
    fn new(root: &Path) -> Result<Self> {
        let folder = root.join(FOLDER).with_extension("new");
        remove(&folder)?;
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(Self(absolute(&folder)?))
    }

    fn write(&self, files: &BTreeMap<String, String>) -> Result<()> {
        for (name, text) in files {
            let path = self.0.join(name);
            let parent = path.parent().unwrap_or(&self.0);
            let written = fs::create_dir_all(parent).and_then(|()| fs::write(&path, text));
            written.with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    fn put_in_place(&self, root: &Path) -> Result<PathBuf> {
        let folder = root.join(FOLDER);
        remove(&folder)?;
        fs::rename(&self.0, &folder).with_context(|| format!("cannot write {}", folder.display()))?;
        Ok(folder)
    }
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_version_that_is_not_there_is_written() -> Result<()> {
        let root = std::env::temp_dir().join(format!("publish_keep_{}", std::process::id()));
        remove(&root)?;
        fs::create_dir_all(root.join("openapi/published/2.0.0.yaml"))?;
        assert!(keep(&root, "1.0.0", "a").is_ok_and(|report| report.contains("written")));
        assert!(keep(&root, "1.0.0", "a").is_ok_and(|report| report.contains("already")));
        assert!(keep(&root, "1.0.0", "b").is_err_and(|error| error.to_string().contains("another document")));
        assert!(keep(&root, "2.0.0", "a").is_err_and(|error| error.to_string().contains("cannot read")));
        remove(&root)
    }
}
