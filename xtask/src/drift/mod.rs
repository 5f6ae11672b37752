//! `cargo xtask drift`: how the responses of a live installation differ from the document.

mod embedded;
mod patch;

use std::env;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail, ensure};
use inferstore_drift::{Call, Survey};
use serde_json::Value;

use crate::document::{DOCUMENT, Document, one_line};
pub(crate) use embedded::{EMBEDDED, embedded};

const API_KEY: &str = "INFERSTORE_API_KEY";

const OTHER_ROOT: &str = "--base-url does not name the versioned root of this API, which ends in /api/v1";

#[derive(clap::Args)]
pub(crate) struct Job {
    /// The versioned root of the API, such as http://127.0.0.1:8787/api/v1.
    #[arg(long, value_name = "URL")]
    base_url: String,
    /// Print a patch of the document that has what is new, for `git apply`.
    #[arg(long)]
    patch: bool,
    /// Another document.
    #[arg(long, value_name = "FILE")]
    document: Option<PathBuf>,
}

impl Job {
    /// Returns the report and the exit code. An error means that the installation could not be asked.
    pub(crate) fn run(self, root: &Path) -> Result<(String, ExitCode)> {
        let key = env::var(API_KEY).with_context(|| format!("{API_KEY} holds no key"))?;
        let document = Document::load(&self.document.unwrap_or_else(|| root.join(DOCUMENT)))?;
        let installation = Installation { base_url: self.base_url, key };
        let responses = inferstore_drift::Document::new(document.value.clone());
        let survey = look(&responses, &installation)?;
        let findings = survey.findings();
        let code = if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        if self.patch {
            return Ok((patch::unified(document, findings)?, code));
        }
        let mut report = String::new();
        for finding in findings {
            writeln!(report, "{finding}").context("cannot write the report")?;
        }
        if findings.is_empty() {
            report.push_str("every response is as the document says\n");
        }
        if !survey.unchecked().is_empty() {
            let unchecked = survey.unchecked().join(", ");
            writeln!(report, "not called, or refused: {unchecked}").context("cannot write the report")?;
        }
        Ok((report, code))
    }
}

struct Installation {
    base_url: String,
    key: String,
}

impl Installation {
    /// Sends one call; returns the status, and the body if it is JSON. The key does not stand among the arguments of a process, which others may list.
    fn send(&self, Call { method, path, body, .. }: &Call<'_>) -> Result<(u16, Option<Value>)> {
        ensure!(
            !self.key.contains(['"', '\\', '\n', '\r']),
            "{API_KEY} holds no key: it has quotes or line breaks"
        );
        let mut settings = format!("header = \"x-api-key: {}\"\n", self.key);
        if let Some(body) = body {
            settings.push_str(&format!("header = \"content-type: application/json\"\ndata = \"{body}\"\n"));
        }
        let url = format!("{}{path}", self.base_url.trim_end_matches('/'));
        let mut curl = Command::new("curl");
        curl.args([
            "--silent",
            "--show-error",
            "--max-time",
            "30",
            "--write-out",
            "\n%{http_code}",
            "--config",
            "-",
        ]);
        curl.args(["--request", method, "--", &url]);
        let mut child = curl
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot run curl")?;
        child
            .stdin
            .take()
            .context("curl has no input")?
            .write_all(settings.as_bytes())
            .context("cannot run curl")?;
        let output = child.wait_with_output().context("cannot run curl")?;
        ensure!(
            output.status.success(),
            "{method} {path} got no response: {}",
            one_line(&String::from_utf8_lossy(&output.stderr))
        );
        let text = String::from_utf8_lossy(&output.stdout);
        let (body, status) = text.rsplit_once('\n').context("curl wrote no status")?;
        let status = status.parse().context("curl wrote no status")?;
        Ok((status, serde_json::from_str(body).ok()))
    }
}

fn look<'a>(document: &'a inferstore_drift::Document, installation: &Installation) -> Result<Survey<'a>> {
    let mut survey = Survey::new(document);
    let mut is_api = false;
    while let Some(call) = survey.next_call() {
        let id = call.operation;
        let (status, body) = installation.send(&call)?;
        match status {
            200..300 => {
                let body = body.with_context(|| format!("{id} got {status} without JSON: {OTHER_ROOT}"))?;
                survey.note_response(&call, &body);
                is_api = true;
            }
            // What was listed may be gone, or belong to nobody.
            404 => {}
            401 => bail!("{id} was refused with 401: {API_KEY} is not a key of this installation"),
            status => bail!("{id} was refused with {status}"),
        }
    }
    ensure!(is_api, "every call got 404: {OTHER_ROOT}");
    Ok(survey)
}
