//! Clients in other languages: generated from the published document as any team would, each with a
//! program of ours that drives it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::tools::{Set, Tools, absolute, must};

/// TypeScript 7 cannot be used by openapi-typescript.
const TYPESCRIPT: Set = Set {
    name: "typescript",
    npm: &["openapi-typescript@7.9.1", "openapi-fetch@0.17.0", "typescript@5.9.3", "@types/node@20.9.5"],
    pypi: &[],
};

const PYTHON: Set = Set { name: "python-client", npm: &[], pypi: &["openapi-python-client==0.29.1"] };

/// Where the settings of the generators and compilers are.
const SETTINGS: &str = "tests/contract";

/// Where generated clients come to be.
const WORK: &str = "target/consumers";

/// A client in TypeScript with a program of ours.
pub(crate) struct TypeScript {
    folder: PathBuf,
    name: String,
}

impl TypeScript {
    /// Generates the types, and compiles the program against them.
    /// `program` is a path in the repository.
    pub(crate) fn generate(root: &Path, document: &Path, program: &str) -> Result<Self> {
        let tools = Tools::install(root, &TYPESCRIPT)?;
        let (folder, name) = folder(root, program, "typescript/tsconfig.json")?;
        // Node looks for packages beside a program and above it.
        let packages = absolute(&tools.node_folder().join("node_modules"))?;
        link(&packages, &folder.join("node_modules"))?;
        let mut generate = tools.node("openapi-typescript")?;
        generate.arg(document).arg("--output").arg(folder.join("api.d.ts"));
        // In the root it might find a configuration that is not meant for it.
        must("Node.js", generate.current_dir(&folder))?;
        must("Node.js", tools.node("tsc")?.current_dir(&folder))?;
        Ok(Self { folder, name })
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new("node");
        command.arg(format!("{}.mjs", self.name)).current_dir(&self.folder);
        command
    }
}

/// A client in Python with a program of ours.
pub(crate) struct Python {
    folder: PathBuf,
    name: String,
    interpreter: PathBuf,
}

impl Python {
    /// Generates the package, and compiles all of it along with the program.
    /// `program` is a path in the repository.
    pub(crate) fn generate(root: &Path, document: &Path, program: &str) -> Result<Self> {
        let tools = Tools::install(root, &PYTHON)?;
        let (folder, name) = folder(root, program, "python/generator.yaml")?;
        let mut generate = tools.python("openapi-python-client")?;
        generate.arg("generate").arg("--path").arg(document).args(["--meta", "none", "--overwrite"]);
        generate.args(["--config", "generator.yaml", "--fail-on-warning"]);
        generate.args(["--output-path", "inferstore_api_client"]);
        must("Python", generate.current_dir(&folder))?;
        let interpreter = tools.python("python")?.get_program().into();
        let client = Self { folder, name, interpreter };
        must("Python", client.python().args(["-m", "compileall", "-q", "."]))?;
        must("Python", client.python().args(["-c", &format!("import {}", client.name)]))?;
        Ok(client)
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = self.python();
        command.arg(format!("{}.py", self.name));
        command
    }

    fn python(&self) -> Command {
        let mut command = Command::new(&self.interpreter);
        command.current_dir(&self.folder);
        command
    }
}

/// An empty folder with copies of a program and of the settings; and what the program is called there.
fn folder(root: &Path, program: &str, settings: &str) -> Result<(PathBuf, String)> {
    let program = root.join(program);
    let name = program.file_stem().context("a program has a name")?.to_string_lossy().into_owned();
    let folder = absolute(&root.join(WORK).join(program.file_name().unwrap_or_default()))?;
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for source in [program, root.join(SETTINGS).join(settings)] {
        let file = source.file_name().context("a source has a name")?;
        fs::copy(&source, folder.join(file)).with_context(|| format!("cannot copy {}", source.display()))?;
    }
    Ok((folder, name))
}

fn link(target: &Path, at: &Path) -> Result<()> {
    ensure!(target.is_dir(), "{} is not there", target.display());
    #[cfg(unix)]
    let linked = std::os::unix::fs::symlink(target, at);
    #[cfg(windows)]
    let linked = std::os::windows::fs::symlink_dir(target, at);
    linked.with_context(|| format!("cannot link {}", at.display()))
}
