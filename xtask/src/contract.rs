//! `cargo xtask contract`: shows that others can use what is published. Clients in TypeScript and
//! Python are generated from it and drive a running service through the whole life of a caller;
//! Schemathesis looks for answers that the document does not describe; the published
//! flows and the curl recipes are run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::consumers::{Python, TypeScript};
use crate::flows;
use crate::service::{Profile, Service, build};
use crate::tools::{Set, Tools, absolute, must};

const SCHEMATHESIS: Set = Set { name: "schemathesis", npm: &[], pypi: &["schemathesis==4.32.5"] };

/// Where consumers leave their notes.
const WORK: &str = "target/contract";

/// A model with one input, `input`, that takes an image.
const MODEL: &str = "color-extraction";

/// What to drive, if anything.
pub(crate) struct Job<'a> {
    pub(crate) root: &'a Path,
    /// A service that runs already, with the name of the variable that holds its key; without one, the
    /// command of this repository is started.
    pub(crate) running: Option<(String, String)>,
    /// Only generate the clients and compile them.
    pub(crate) prepare: bool,
}

impl<'a> Job<'a> {
    pub(crate) fn read(root: &'a Path, options: &[&str]) -> Result<Self> {
        let (mut prepare, mut base_url, mut key_variable) = (false, None, None);
        let mut options = options.iter();
        while let Some(option) = options.next() {
            let mut value = || options.next().with_context(|| format!("{option} needs a value"));
            match *option {
                "--prepare" => prepare = true,
                "--base-url" => base_url = Some((*value()?).to_owned()),
                "--api-key-env" => key_variable = Some((*value()?).to_owned()),
                other => bail!("contract has no option {other}"),
            }
        }
        let running = match (base_url, key_variable) {
            (Some(base_url), Some(variable)) => Some((base_url, variable)),
            (None, None) => None,
            _ => bail!("--base-url and --api-key-env go together: where the service is, and its key"),
        };
        Ok(Self { root, running, prepare })
    }

    pub(crate) fn run(&self) -> Result<String> {
        let document = self.published("inferstore.yaml")?;
        let typescript = TypeScript::generate(self.root, &document, "tests/contract/typescript/life.mts")?;
        let python = Python::generate(self.root, &document, "tests/contract/python/life.py")?;
        let mut report = "the generated clients compile, in TypeScript and in Python\n".to_owned();
        if self.prepare {
            return Ok(report);
        }
        let service = match &self.running {
            Some((base_url, variable)) => Service::that_runs(base_url, variable)?,
            None => {
                build(Profile::Debug, &["--package", "inferstore-cli"])?;
                Service::start(Profile::Debug, &[])?
            }
        };
        report.push_str(&driven("TypeScript", &mut typescript.command(), &service)?);
        report.push_str(&driven("Python", &mut python.command(), &service)?);
        report.push_str(&self.schemathesis(&document, &service)?);
        report.push_str(&flows::run(self.root, &service)?);
        Ok(report)
    }

    fn published(&self, name: &str) -> Result<PathBuf> {
        let path = absolute(&self.root.join("target/publish").join(name))?;
        ensure!(path.is_file(), "{} is not there; run `cargo xtask publish` first", path.display());
        Ok(path)
    }

    fn schemathesis(&self, document: &Path, service: &Service) -> Result<String> {
        let tools = Tools::install(self.root, &SCHEMATHESIS)?;
        let mut command = tools.python("schemathesis")?;
        command.arg("--config-file").arg(absolute(&self.root.join("tests/contract/schemathesis.toml"))?);
        command.arg("run").arg(document).args(["--url", &service.base_url]);
        // It leaves notes where it is run.
        command.current_dir(self.folder("schemathesis")?);
        driven("Schemathesis", &mut command, service)
    }

    /// A folder to work in.
    fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = absolute(&self.root.join(WORK).join(name))?;
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(folder)
    }
}

/// Runs a consumer; the report keeps one line of what it says when all is well.
fn driven(name: &str, command: &mut Command, service: &Service) -> Result<String> {
    must(name, service.told_to(command.env("MODEL", MODEL)))?;
    Ok(format!("{name}: the service keeps its promises\n"))
}
