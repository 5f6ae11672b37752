//! Service that consumers drive, started and stopped here.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

use crate::tools::{absolute, cargo, must};

const SERVE: [&str; 11] = [
    "serve",
    "--port",
    "0",
    "--storage-port",
    "0",
    "--ephemeral",
    "--ready-json",
    "--exclude-model",
    "face-mesh",
    "--owners-manage-keys",
    "yes",
];

pub(crate) struct Service {
    pub(crate) base_url: String,
    pub(crate) api_key: String,
    controls: Option<(String, String)>,
    process: Child,
}

#[derive(Deserialize)]
struct Ready {
    event: String,
    base_url: String,
    api_key: String,
    controls_url: Option<String>,
    controls_token: Option<String>,
}

impl Service {
    pub(crate) fn start(options: &[&str]) -> Result<Self> {
        let mut process = Command::new(build_command()?)
            .args(SERVE)
            .args(options)
            .env("INFERSTORE_LOG", "warn")
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the service")?;
        let output = process.stdout.take().context("the service has no output")?;
        // From here on, dropping stops the service.
        let mut service = Self { base_url: String::new(), api_key: String::new(), controls: None, process };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).context("the service prints nothing")?;
        let ready: Ready = serde_json::from_str(&line)
            .with_context(|| format!("the service prints no ready line but {line:?}"))?;
        ensure!(ready.event == "ready", "the service is not ready but {}", ready.event);
        (service.base_url, service.api_key) = (ready.base_url, ready.api_key);
        service.controls = ready.controls_url.zip(ready.controls_token);
        Ok(service)
    }

    pub(crate) fn control(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let (url, token) = self.controls.as_ref().context("the service has no controls")?;
        let (key, body) = (format!("authorization: Bearer {token}"), body.to_string());
        let options = ["--request", method, "--data", &body, "--header", "content-type: application/json"];
        data(&format!("{url}{path}"), &key, &options)
    }

    pub(crate) fn last_upload(&self) -> Result<Value> {
        let url = format!("{}/api-key/storage/upload/samples?page=1&pageSize=100", self.base_url);
        let data = data(&url, &format!("x-api-key: {}", self.api_key), &[])?;
        data["files"].as_array().and_then(|files| files.last()).cloned().context("no file is listed")
    }

    pub(crate) fn connect<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("BASE_URL", &self.base_url).env("API_KEY", &self.api_key)
    }
}

/// Sends a request with curl. Returns the `data` of the response.
fn data(url: &str, key: &str, options: &[&str]) -> Result<Value> {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--fail-with-body", "--header", key]).args(options).arg(url);
    let response: Value = serde_json::from_slice(&must("curl", &mut curl)?.stdout)
        .with_context(|| format!("{url} responds without JSON"))?;
    Ok(response["data"].clone())
}

/// Returns the command that `INFERSTORE_COMMAND` names; without it, builds the command of this repository.
pub(crate) fn build_command() -> Result<PathBuf> {
    if let Some(command) = env::var_os("INFERSTORE_COMMAND") {
        return absolute(Path::new(&command));
    }
    must("Rust", cargo().args(["build", "--quiet", "--package", "inferstore-cli"]))?;
    // This program is a debug build, too.
    let program = env::current_exe().context("this program does not know where it is")?;
    Ok(program.with_file_name("inferstore").with_extension(env::consts::EXE_EXTENSION))
}

impl Drop for Service {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
