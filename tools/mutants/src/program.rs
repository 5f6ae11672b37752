//! Copy of the repository in which each compiling mutant is a branch.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use inferstore_contract::repository::files;
use inferstore_contract::tools::{absolute, cargo, must};

use crate::Product;
use crate::switches::{Mutant, SWITCH, Switched};
use crate::trials::{Binary, Tests};

pub(super) struct Program {
    root: PathBuf,
    target: PathBuf,
    product: Product,
}

/// Message of cargo with `--message-format=json`.
#[derive(Deserialize)]
struct Line {
    reason: String,
    message: Option<Message>,
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Message {
    level: String,
    rendered: Option<String>,
    spans: Vec<ErrorSpan>,
}

#[derive(Deserialize)]
struct ErrorSpan {
    file_name: String,
    byte_start: usize,
    byte_end: usize,
}

impl Program {
    pub(super) fn copy(root: &Path, folder: &Path, product: Product) -> Result<Self> {
        let folder = absolute(folder)?;
        let program = Self { root: folder.join("tree"), target: folder.join("build"), product };
        for (name, content) in files(root)? {
            program.write(&name, &content)?;
        }
        Ok(program)
    }

    /// Writes a file if its content differs: cargo rebuilds newer files.
    fn write(&self, file: &str, content: &[u8]) -> Result<()> {
        let path = self.root.join(file);
        if fs::read(&path).is_ok_and(|old| old == content) {
            return Ok(());
        }
        let parent = path.parent().unwrap_or(&self.root);
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&path, content))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Makes a branch of each mutant that compiles as one. Returns their numbers.
    pub(super) fn switch(&mut self, mutants: &[Mutant]) -> Result<Vec<usize>> {
        let root_file = self.product.source() + "lib.rs";
        let root_source = self.read(&root_file)?;
        self.write(&root_file, format!("{root_source}{SWITCH}").as_bytes())?;

        let mut files: BTreeMap<&str, Vec<(usize, &Mutant)>> = BTreeMap::new();
        for (number, mutant) in mutants.iter().enumerate() {
            files.entry(&mutant.file).or_default().push((number, mutant));
        }
        let sources: BTreeMap<_, _> =
            files.keys().map(|file| Ok((*file, self.read(file)?))).collect::<Result<_>>()?;
        let mut refused = BTreeSet::new();
        loop {
            let mut switched = BTreeMap::new();
            for (file, mutants) in &mut files {
                mutants.retain(|(number, _)| !refused.contains(number));
                let source = Switched::new(&sources[file], mutants)
                    .with_context(|| format!("cannot change {file}"))?;
                self.write(file, source.source.as_bytes())?;
                switched.insert(*file, source);
            }
            let before = refused.len();
            let errors = self.check()?;
            if errors.is_empty() {
                return Ok(switched.values().flat_map(Switched::numbers).collect());
            }
            for error in &errors {
                refused.extend(blamed(error, &switched));
            }
            if refused.len() == before {
                bail!("the branches do not compile:\n{}", errors[0].rendered.as_deref().unwrap_or_default());
            }
        }
    }

    fn read(&self, file: &str) -> Result<String> {
        fs::read_to_string(self.root.join(file)).with_context(|| format!("cannot read {file}"))
    }

    fn check(&self) -> Result<Vec<Message>> {
        let mut check = self.cargo("check");
        check.args(["--lib", "--package", self.product.package()]).args(self.product.features());
        let lines = json_lines(&check.output().context("cannot run cargo")?.stdout)?;
        let messages = lines.into_iter().filter_map(|line| line.message);
        Ok(messages.filter(|message| message.level == "error" && !message.spans.is_empty()).collect())
    }

    /// Builds the tests of a package, and runs those that match the filters in `arguments` without a mutant.
    pub(super) fn tests(
        &self,
        package: &str,
        options: &[&str],
        arguments: &'static [&'static str],
    ) -> Result<Tests> {
        let mut build = self.cargo("test");
        build.args(["--no-run", "--package", package]).args(options);
        let lines = json_lines(&must("cargo", &mut build)?.stdout)?;
        let artifacts = lines.into_iter().filter(|line| line.reason == "compiler-artifact");
        let mut binaries = Vec::new();
        for artifact in artifacts {
            if let (Some(program), Some(manifest)) = (artifact.executable, artifact.manifest_path) {
                let is_test = program.parent().and_then(Path::file_name) == Some(OsStr::new("deps"));
                let folder = manifest.parent().context("cargo names no folder")?.to_owned();
                binaries.extend(is_test.then_some(Binary { program, folder }));
            }
        }
        ensure!(!binaries.is_empty(), "{package} has no tests");
        Tests::traced(binaries, arguments, &self.target.join("reached"))
    }

    fn cargo(&self, subcommand: &str) -> Command {
        let mut cargo = cargo();
        cargo.args([subcommand, "--message-format=json"]).current_dir(&self.root);
        cargo.env("CARGO_TARGET_DIR", &self.target);
        cargo
    }
}

fn blamed(error: &Message, switched: &BTreeMap<&str, Switched>) -> Vec<usize> {
    let mut places: BTreeMap<&str, Vec<Range<usize>>> = BTreeMap::new();
    for span in &error.spans {
        places.entry(&span.file_name).or_default().push(span.byte_start..span.byte_end);
    }
    let in_file = |(file, places): (&&str, &Vec<_>)| switched.get(file).map(|source| source.blamed(places));
    places.iter().filter_map(in_file).flatten().collect()
}

fn json_lines(output: &[u8]) -> Result<Vec<Line>> {
    let lines = output.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"{"));
    lines.map(|line| serde_json::from_slice(line).context("cargo prints other JSON")).collect()
}
