//! A service to drive: one that runs already, or one that is started for it and stopped after it.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::MODEL;
use crate::tools::must;

/// How the service is started: anywhere, with nothing kept.
const SERVE: [&str; 7] = ["serve", "--port", "0", "--storage-port", "0", "--ephemeral", "--ready-json"];

pub(super) struct Service {
    pub(super) base_url: String,
    pub(super) api_key: String,
    process: Option<Child>,
}

/// The one line that the service prints when it can be called.
#[derive(Deserialize)]
struct Ready {
    event: String,
    base_url: String,
    api_key: String,
}

impl Service {
    pub(super) fn that_runs(base_url: &str, key_variable: &str) -> Result<Self> {
        let api_key =
            env::var(key_variable).with_context(|| format!("{key_variable} does not hold the API key"))?;
        Ok(Self { base_url: base_url.to_owned(), api_key, process: None })
    }

    pub(super) fn start() -> Result<Self> {
        let mut process = Command::new(built()?)
            .args(SERVE)
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the service")?;
        let output = process.stdout.take().context("the service has no output")?;
        // From here on it is stopped whatever happens.
        let mut service = Self { base_url: String::new(), api_key: String::new(), process: Some(process) };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).context("the service says nothing")?;
        let ready: Ready = serde_json::from_str(&line)
            .with_context(|| format!("the service does not say that it is ready: {line:?}"))?;
        ensure!(ready.event == "ready", "the service is not ready but {}", ready.event);
        (service.base_url, service.api_key) = (ready.base_url, ready.api_key);
        Ok(service)
    }

    /// The command with what consumers are told through the environment.
    pub(super) fn told_to<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("BASE_URL", &self.base_url).env("API_KEY", &self.api_key).env("MODEL", MODEL)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            // It may have ended by itself.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// The command `inferstore`, built by the same cargo into the folder that this program is in.
fn built() -> Result<PathBuf> {
    must("Rust", Command::new("cargo").args(["build", "--quiet", "--package", "inferstore-cli"]))?;
    let program = env::current_exe().context("this program does not know where it is")?;
    let built = program.with_file_name(format!("inferstore{}", env::consts::EXE_SUFFIX));
    ensure!(built.is_file(), "cargo built no {}", built.display());
    Ok(built)
}
