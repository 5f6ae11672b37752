//! Consumers: generated clients in other languages, each with a program that drives the service. A folder of
//! `tests/contract` describes one; the README there defines the convention.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::tools::{QUIET, Set, Tools, absolute, is_installed, must};

const FOLDER: &str = "tests/contract";
const DESCRIPTION: &str = "consumer.yaml";

pub(crate) const WORK: &str = "target/consumers";

/// Content of `consumer.yaml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Consumer {
    #[serde(skip)]
    pub(crate) id: String,
    /// Name in the table of results.
    pub name: String,
    /// Language of the generated client; `None` for a tool.
    pub language: Option<String>,
    /// Generator and runtime library, with exact versions.
    pub generator: String,
    #[serde(default)]
    pub(crate) ci: bool,
    /// Packages that users install.
    #[serde(default)]
    pub packages: Packages,
    #[serde(default)]
    test: TestOnly,
    #[serde(default)]
    files: Vec<String>,
    /// Required programs, each with its Debian package.
    #[serde(default)]
    pub needs: BTreeMap<String, String>,
    #[serde(default)]
    shown: Vec<String>,
    /// `None` for a consumer that reads the document itself.
    pub generate: Option<String>,
    pub(crate) build: String,
    pub(crate) run: String,
    pub(crate) uses: Option<String>,
    pub(crate) modes: Option<Vec<String>>,
    /// Expected output of the program, unless it is the life of a caller.
    pub(crate) expects: Option<Value>,
    #[serde(default)]
    pub(crate) cannot: BTreeMap<String, String>,
    /// Note for users about relevant options.
    #[serde(default)]
    pub options: String,
}

/// Packages with exact versions.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Packages {
    /// npm packages.
    pub npm: Vec<String>,
    /// PyPI packages.
    pub pypi: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TestOnly {
    npm: Vec<String>,
    pypi: Vec<String>,
    needs: BTreeMap<String, String>,
}

impl Consumer {
    /// Returns every consumer, by folder name; those of `.ci/run` first.
    pub fn all(root: &Path) -> Result<Vec<Self>> {
        let folder = root.join(FOLDER);
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        let mut consumers = Vec::new();
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot read {}", folder.display()))?;
            if entry.path().join(DESCRIPTION).is_file() {
                consumers.push(Self::named(root, &entry.file_name().to_string_lossy())?);
            }
        }
        consumers.sort_by(|one, other| (!one.ci, &one.id).cmp(&(!other.ci, &other.id)));
        Ok(consumers)
    }

    pub(crate) fn named(root: &Path, id: &str) -> Result<Self> {
        let path = root.join(FOLDER).join(id).join(DESCRIPTION);
        let text =
            fs::read_to_string(&path).with_context(|| format!("there is no consumer {}", path.display()))?;
        let consumer: Self =
            serde_saphyr::from_str(&text).with_context(|| format!("{} is not valid", path.display()))?;
        Ok(Self { id: id.to_owned(), ..consumer })
    }

    /// Returns the files that `index.html` shows, with their texts.
    pub fn shown_files(&self, root: &Path) -> Result<Vec<(&str, String)>> {
        let folder = root.join(FOLDER).join(&self.id);
        let read = |name: &'_ String| {
            let path = folder.join(name);
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        self.shown.iter().map(|name| Ok((name.as_str(), read(name)?))).collect()
    }

    pub(crate) fn missing(&self) -> impl Iterator<Item = (&str, &str)> {
        let needs = self.needs.iter().chain(&self.test.needs);
        let needs = needs.map(|(program, package)| (program.as_str(), package.as_str()));
        needs.filter(|(program, _)| !is_installed(program))
    }

    /// Makes a folder with only the files of the consumer and the packages that users install.
    pub(crate) fn workspace(&self, root: &Path, document: &Path) -> Result<Workspace> {
        let folder = absolute(&root.join(WORK).join(&self.id))?;
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        copy(&root.join(FOLDER).join(&self.id), &folder)?;
        let shared = self.files.iter().map(|file| root.join(FOLDER).join(file));
        let documents = ["yaml", "json"].map(|extension| document.with_extension(extension));
        for file in shared.chain(documents.into_iter().filter(|path| path.is_file())) {
            let name = file.file_name().context("a file has a name")?;
            fs::copy(&file, folder.join(name)).with_context(|| format!("cannot copy {}", file.display()))?;
        }
        let mut path = vec![folder.join("node_modules/.bin"), folder.join(".venv/bin")];
        path.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
        let path = env::join_paths(path).context("a folder of PATH has a name that PATH cannot hold")?;
        let workspace = Workspace { folder, path, document: absolute(document)? };
        workspace.install(root, &self.packages.npm, &self.packages.pypi)?;
        Ok(workspace)
    }

    pub(crate) fn add_test_packages(&self, root: &Path, workspace: &Workspace) -> Result<()> {
        let (Packages { npm, pypi }, test) = (&self.packages, &self.test);
        workspace.install(
            root,
            &[npm.as_slice(), &test.npm].concat(),
            &[pypi.as_slice(), &test.pypi].concat(),
        )
    }

    pub(crate) fn build(&self, root: &Path, document: &Path) -> Result<()> {
        let missing: Vec<_> = self.missing().map(|(_, package)| package).collect();
        ensure!(missing.is_empty(), "{} needs {}; install the packages", self.name, missing.join(" "));
        let workspace = self.workspace(root, document)?;
        if let Some(lines) = &self.generate {
            must("bash", &mut workspace.command(lines))?;
        }
        self.add_test_packages(root, &workspace)?;
        must("bash", &mut workspace.command(&self.build))?;
        Ok(())
    }
}

pub(crate) struct Workspace {
    folder: PathBuf,
    path: OsString,
    document: PathBuf,
}

impl Workspace {
    fn install(&self, root: &Path, npm: &[String], pypi: &[String]) -> Result<()> {
        let npm: Vec<&str> = npm.iter().map(String::as_str).collect();
        let pypi: Vec<&str> = pypi.iter().map(String::as_str).collect();
        let versions = [npm.as_slice(), pypi.as_slice()].concat().join("\n");
        // Consumers with the same packages share an installation.
        let hash = Sha256::digest(versions.as_bytes());
        let hash: String = hash.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        let name = format!("consumer-{hash}");
        let tools = Tools::install(root, &Set { name: &name, npm: &npm, pypi: &pypi })?;
        // Node searches packages beside a program and above it; Python users expect an environment in `.venv`.
        for (installed, name, is_used) in [
            (tools.node_folder().join("node_modules"), "node_modules", !npm.is_empty()),
            (tools.folder().join("python"), ".venv", !pypi.is_empty()),
        ] {
            let place = self.folder.join(name);
            if place.is_symlink() {
                fs::remove_file(&place).with_context(|| format!("cannot remove {}", place.display()))?;
            }
            if is_used {
                link(&absolute(&installed)?, &place)?;
            }
        }
        Ok(())
    }

    pub(crate) fn command(&self, lines: &str) -> Command {
        let mut command = Command::new("bash");
        let lines = lines.replace("{document}", &shell_quoted(&self.document.to_string_lossy()));
        command.args(["-eu", "-o", "pipefail", "-c", &lines]).current_dir(&self.folder);
        command.env("PATH", &self.path).envs(QUIET);
        command
    }
}

fn shell_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry.with_context(|| format!("cannot read {}", from.display()))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            copy(&source, &target)?;
        } else {
            fs::copy(&source, &target).with_context(|| format!("cannot copy {}", source.display()))?;
        }
    }
    Ok(())
}

pub(crate) fn link(target: &Path, at: &Path) -> Result<()> {
    ensure!(target.is_dir(), "{} is not there", target.display());
    #[cfg(unix)]
    let linked = std::os::unix::fs::symlink(target, at);
    #[cfg(windows)]
    let linked = std::os::windows::fs::symlink_dir(target, at);
    linked.with_context(|| format!("cannot link {}", at.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_the_document_is_one_word() -> Result<()> {
        let document = PathBuf::from("/tmp/it's a $HOME/inferstore.yaml");
        let workspace =
            Workspace { folder: env::temp_dir(), path: env::var_os("PATH").unwrap_or_default(), document };
        let output = workspace.command("printf '%s\\n' {document}").output()?;
        assert_eq!(String::from_utf8(output.stdout)?, "/tmp/it's a $HOME/inferstore.yaml\n");
        Ok(())
    }
}
