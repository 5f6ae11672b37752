//! Runs the three OpenAPI linters over the document. They come from the npm and PyPI registries, at
//! the versions named here, into `target/tools`.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail, ensure};

const REDOCLY: &str = "@redocly/cli@2.77.0";
const SPECTRAL: &str = "@stoplight/spectral-cli@6.16.3";
const VALIDATOR: &str = "openapi-spec-validator==0.9.0";

const DOCUMENT: &str = "openapi/inferstore.yaml";

/// Runs all three, then reports; fails if one of them finds so much as a hint.
pub(crate) fn lint(root: &Path) -> Result<String> {
    let tools = Tools { root, folder: root.join("target/tools") };
    tools.install()?;
    let runs = [
        (
            "Redocly",
            tools.node("redocly").args(["lint", "--config", "openapi/redocly.yaml", DOCUMENT]).output(),
        ),
        (
            "Spectral",
            tools
                .node("spectral")
                .args(["lint", "--fail-severity=hint", "-r", "openapi/spectral.yaml", DOCUMENT])
                .output(),
        ),
        ("openapi-spec-validator", tools.python("openapi-spec-validator").arg(DOCUMENT).output()),
    ];
    let mut report = String::new();
    let mut failed = Vec::new();
    for (name, run) in runs {
        let output = run.with_context(|| format!("cannot run {name}"))?;
        if output.status.success() {
            report.push_str(&format!("{name}: nothing to complain about\n"));
        } else {
            report.push_str(&format!("{name}:\n{}", said(&output)));
            failed.push(name);
        }
    }
    ensure!(failed.is_empty(), "{report}\n{DOCUMENT} does not pass {}", failed.join(" and "));
    Ok(report)
}

struct Tools<'a> {
    root: &'a Path,
    folder: PathBuf,
}

impl Tools<'_> {
    /// Installs what is not there yet. The stamp holds the versions, so a new version installs anew.
    fn install(&self) -> Result<()> {
        let stamp = self.folder.join("installed");
        let versions = [REDOCLY, SPECTRAL, VALIDATOR].join("\n");
        if fs::read_to_string(&stamp).is_ok_and(|text| text == versions) {
            return Ok(());
        }
        fs::create_dir_all(self.folder.join("node")).context("cannot create target/tools")?;
        let npm = ["install", "--no-audit", "--no-fund", "--no-save", "--prefix"];
        self.must("npm", "Node.js", |npm_command| {
            npm_command.args(npm).arg(self.folder.join("node")).args([REDOCLY, SPECTRAL]);
        })?;
        self.must("python3", "Python", |python| {
            python.args(["-m", "venv"]).arg(self.folder.join("python"));
        })?;
        let pip =
            self.python("pip").args(["install", "--quiet", VALIDATOR]).output().context("cannot run pip")?;
        ensure!(pip.status.success(), "cannot install {VALIDATOR}:\n{}", said(&pip));
        fs::write(stamp, versions).context("cannot write to target/tools")
    }

    fn must(&self, program: &str, product: &str, arguments: impl Fn(&mut Command)) -> Result<()> {
        let mut command = self.command(program);
        arguments(&mut command);
        match command.output() {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => bail!("{program} failed while installing the linters:\n{}", said(&output)),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                bail!(
                    "the linters need {product}, and there is no `{program}` here; install {product} and try again"
                )
            }
            Err(error) => Err(error).with_context(|| format!("cannot run {program}")),
        }
    }

    fn node(&self, name: &str) -> Command {
        let mut command = self.command(self.folder.join("node/node_modules/.bin").join(name));
        // Neither of them shall ask home for news.
        command.env("REDOCLY_TELEMETRY", "off").env("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true");
        command
    }

    fn python(&self, name: &str) -> Command {
        self.command(self.folder.join("python/bin").join(name))
    }

    /// A program, run in the root of the repository.
    fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        if self.root != Path::new("") {
            command.current_dir(self.root);
        }
        command
    }
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
