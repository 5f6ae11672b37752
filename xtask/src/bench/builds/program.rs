//! A small program of a user in a package of its own, outside every workspace: built cold, and again
//! after an edit.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::tools::{absolute, cargo, must};

/// Where the programs are written down.
const SOURCES: &str = "tests/peers/builds";

/// What differs from program to program.
pub(super) struct Kind {
    /// Of its source, and of its folder.
    pub(super) name: &'static str,
    /// For readers, with the version.
    pub(super) shown: &'static str,
    /// The line of the manifest that makes the difference.
    pub(super) dependency: &'static str,
    /// A file of ours below it, and words in it that an edit changes.
    pub(super) edit: Option<(&'static str, &'static str)>,
}

/// A program, ready to be built without a network.
pub(super) struct Program {
    pub(super) kind: &'static Kind,
    folder: PathBuf,
    edits: u32,
}

/// What a build came to.
pub(super) struct Built {
    pub(super) seconds: f64,
    /// How many packages were compiled for the program, without itself.
    pub(super) packages: usize,
}

impl Program {
    /// Writes the package, and downloads what it needs.
    pub(super) fn prepare(root: &Path, work: &Path, kind: &'static Kind) -> Result<Self> {
        let folder = work.join(kind.name);
        let source = root.join(SOURCES).join(kind.name).with_extension("rs");
        fs::create_dir_all(folder.join("src")).context("cannot create the folder of a program")?;
        fs::copy(&source, folder.join("src/main.rs"))
            .with_context(|| format!("cannot copy {}", source.display()))?;
        let manifest = format!(
            "[package]\nname = \"a-user\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n{}\n\
             tokio = {{ version = \"1\", features = [\"macros\", \"rt-multi-thread\"] }}\n",
            kind.dependency
        );
        fs::write(folder.join("Cargo.toml"), manifest).context("cannot write a manifest")?;
        must("Rust", cargo().arg("fetch").current_dir(&folder))?;
        Ok(Self { kind, folder, edits: 0 })
    }

    /// Builds it as a user does who types `cargo build`.
    pub(super) fn build(&self) -> Result<Built> {
        let mut cargo = cargo();
        cargo.args(["build", "--offline", "--message-format", "json", "--target-dir"]);
        cargo.arg(absolute(&self.target())?).env("CARGO_NET_OFFLINE", "true").current_dir(&self.folder);
        let began = Instant::now();
        let output = must("Rust", &mut cargo)?;
        let seconds = began.elapsed().as_secs_f64();
        let mut compiled = BTreeSet::new();
        for line in output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let message: Message = serde_json::from_slice(line).context("cargo writes no JSON")?;
            if message.reason == "compiler-artifact" && message.fresh == Some(false) {
                compiled.extend(message.package_id);
            }
        }
        Ok(Built { seconds, packages: compiled.len().saturating_sub(1) })
    }

    /// Changes what the program prints, and builds it again.
    pub(super) fn rebuild(&mut self) -> Result<f64> {
        self.edits += 1;
        let (from, to) = ("println!(\"", format!("println!(\"{} ", self.edits));
        replace(&self.folder.join("src/main.rs"), from, &to)?;
        Ok(self.build()?.seconds)
    }

    /// Changes one of our crates below the program, and builds it again.
    pub(super) fn rebuild_over(&mut self, source: &Path, (file, words): (&str, &str)) -> Result<f64> {
        self.edits += 1;
        replace(&source.join(file), words, &format!("{words} {}", self.edits))?;
        Ok(self.build()?.seconds)
    }

    /// How large everything is that was built, in MB. What lies at the top is linked from below.
    pub(super) fn megabytes(&self) -> Result<f64> {
        let mut bytes = 0;
        for part in ["build", "deps", "incremental", ".fingerprint"] {
            let folder = self.target().join("debug").join(part);
            if folder.is_dir() {
                bytes += size(&folder)?;
            }
        }
        Ok(f64::from(u32::try_from(bytes >> 10).unwrap_or(u32::MAX)) * 1.024 / 1000.0)
    }

    /// Removes everything that was built.
    pub(super) fn clean(&self) -> Result<()> {
        let target = self.target();
        match target.exists() {
            true => {
                fs::remove_dir_all(&target).with_context(|| format!("cannot remove {}", target.display()))
            }
            false => Ok(()),
        }
    }

    fn target(&self) -> PathBuf {
        self.folder.join("target")
    }
}

/// A line of what cargo says.
#[derive(Deserialize)]
struct Message {
    reason: String,
    package_id: Option<String>,
    fresh: Option<bool>,
}

/// Edits a file as a person would. What is looked for must be there.
fn replace(path: &Path, from: &str, to: &str) -> Result<()> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(text.contains(from), "{} holds no {from:?} any more: edit something else", path.display());
    fs::write(path, text.replacen(from, to, 1)).with_context(|| format!("cannot write {}", path.display()))
}

fn size(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry.context("cannot read a folder")?;
        let metadata = entry.metadata().context("cannot read a folder")?;
        bytes += if metadata.is_dir() { size(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}
