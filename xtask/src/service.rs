//! A service to drive: one that runs already, or one that is started for it and stopped after it.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::tools::{cargo, must};

/// How the service is started: anywhere, with nothing kept.
const SERVE: [&str; 9] = [
    "serve",
    "--port",
    "0",
    "--storage-port",
    "0",
    "--ephemeral",
    "--ready-json",
    "--exclude-model",
    "face-mesh",
];

/// How the command is built.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    Debug,
    Release,
}

pub(crate) struct Service {
    pub(crate) base_url: String,
    pub(crate) api_key: String,
    /// Where the controls for testers are, and their token, if they were asked for.
    pub(crate) controls: Option<(String, String)>,
    process: Option<Child>,
}

/// The one line that the service prints when it can be called.
#[derive(Deserialize)]
struct Ready {
    event: String,
    base_url: String,
    api_key: String,
    controls_url: Option<String>,
    controls_token: Option<String>,
}

impl Service {
    pub(crate) fn that_runs(base_url: &str, key_variable: &str) -> Result<Self> {
        let api_key =
            env::var(key_variable).with_context(|| format!("{key_variable} does not hold the API key"))?;
        Ok(Self { base_url: base_url.to_owned(), api_key, controls: None, process: None })
    }

    /// Starts the command of this repository, which is built already, with further options.
    pub(crate) fn start(profile: Profile, options: &[&str]) -> Result<Self> {
        let mut process = Command::new(built(profile, "inferstore")?)
            .args(SERVE)
            .args(options)
            // Not a line for every request.
            .env("INFERSTORE_LOG", "warn")
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the service")?;
        let output = process.stdout.take().context("the service has no output")?;
        // From here on it is stopped whatever happens.
        let mut service =
            Self { base_url: String::new(), api_key: String::new(), controls: None, process: Some(process) };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).context("the service says nothing")?;
        let ready: Ready = serde_json::from_str(&line)
            .with_context(|| format!("the service does not say that it is ready: {line:?}"))?;
        ensure!(ready.event == "ready", "the service is not ready but {}", ready.event);
        (service.base_url, service.api_key) = (ready.base_url, ready.api_key);
        service.controls = ready.controls_url.zip(ready.controls_token);
        Ok(service)
    }

    /// The command with what consumers are told through the environment.
    pub(crate) fn told_to<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("BASE_URL", &self.base_url).env("API_KEY", &self.api_key)
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

/// Builds targets of the workspace with the same cargo; features are unified over them all.
pub(crate) fn build(profile: Profile, targets: &[&str]) -> Result<()> {
    let mut cargo = cargo();
    cargo.args(["build", "--quiet"]).args(targets);
    if profile == Profile::Release {
        cargo.arg("--release");
    }
    must("Rust", &mut cargo)?;
    Ok(())
}

/// What was built, by its name below the folder of the profile. This program is a debug build.
pub(crate) fn built(profile: Profile, name: &str) -> Result<PathBuf> {
    let program = env::current_exe().context("this program does not know where it is")?;
    let debug = program.parent().context("this program is in no folder")?;
    let folder = match profile {
        Profile::Debug => debug.to_owned(),
        Profile::Release => debug.with_file_name("release"),
    };
    let built = folder.join(format!("{name}{}", env::consts::EXE_SUFFIX));
    ensure!(built.is_file(), "cargo built no {}", built.display());
    Ok(built)
}
