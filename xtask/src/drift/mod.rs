//! `cargo xtask drift`: how the responses of a live installation differ from the document.

mod compare;
mod patch;

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::document::{DOCUMENT, Document, one_line};
use crate::validate::{items, operations, resolved};
use compare::{Finding, compare};

/// The variable that holds the key of the installation, as for the client.
const API_KEY: &str = "INFERSTORE_API_KEY";

/// The one operation with a body that only reads; its body may be empty.
const LIST_MODELS: &str = "listModels";

/// Compare the responses of a live installation with the document, by read-only calls.
///
/// It calls every GET of the document and the list of models, with the first model, the first task and the folders that
/// it finds, and names every field, word, null and type that the document does not have, without values. The key stands
/// in INFERSTORE_API_KEY. The exit code is 0 when nothing differs, 1 when something does, 2 when the installation cannot
/// be asked.
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
        let findings = look(&document.value, &installation)?;
        let code = if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        if self.patch {
            return Ok((patch::unified(&document, &findings), code));
        }
        let mut report = String::new();
        for finding in &findings {
            writeln!(report, "{finding}").context("cannot write the report")?;
        }
        if findings.is_empty() {
            report.push_str("every response is as the document says\n");
        }
        Ok((report, code))
    }
}

/// An installation that is asked.
struct Installation {
    base_url: String,
    key: String,
}

impl Installation {
    /// Sends one call and returns the status and the JSON of the response. The key does not stand among the arguments of a
    /// process, which others may list.
    fn call(&self, method: &str, path: &str) -> Result<(u16, Value)> {
        ensure!(
            !self.key.contains(['"', '\\', '\n', '\r']),
            "{API_KEY} holds no key: it has quotes or line breaks"
        );
        let mut settings = format!("header = \"x-api-key: {}\"\n", self.key);
        if method == "post" {
            settings.push_str("header = \"content-type: application/json\"\ndata = \"{}\"\n");
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
        curl.args(["--request", &method.to_uppercase(), "--", &url]);
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
        Ok((status, serde_json::from_str(body).unwrap_or(Value::Null)))
    }
}

/// Calls what only reads, and returns what differs, each difference once.
fn look(document: &Value, installation: &Installation) -> Result<Vec<Finding>> {
    let mut known: BTreeMap<&str, String> = BTreeMap::new();
    known.insert("FolderName", "samples".to_owned());
    let mut findings = Vec::new();
    // Lists come first: they tell which models and tasks there are.
    let (lists, others): (Vec<_>, Vec<_>) = operations(document)
        .filter(|(_, method, _, operation)| *method == "get" || operation["operationId"] == LIST_MODELS)
        .partition(|(path, ..)| !path.contains('{'));
    for (path, method, shared, operation) in lists.into_iter().chain(others) {
        let id = operation["operationId"].as_str().unwrap_or_default();
        let parameters = items(shared).chain(items(&operation["parameters"]));
        let Some(path) = filled(document, path, parameters, &known) else { continue };
        let (status, body) = installation.call(method, &path)?;
        match status {
            200..300 => {}
            // What was listed may be gone, or belong to nobody.
            404 => continue,
            401 => bail!("{id} was refused with 401: {API_KEY} is not a key of this installation"),
            status => bail!("{id} was refused with {status}"),
        }
        let records = &body["data"]["records"];
        for (name, list, field) in [("ModelId", LIST_MODELS, "id"), ("TaskId", "listTasks", "task_id")] {
            let first = records[0][field].as_str().or_else(|| records[0]["id"].as_str());
            if let Some(first) = first.filter(|_| id == list) {
                known.insert(name, encoded(first));
            }
        }
        let response = resolved(document, &operation["responses"]["2XX"]);
        compare(document, &response["content"]["application/json"]["schema"], &body, &mut findings);
    }
    Ok(findings)
}

/// The path with its parameters filled in; none if one of them is not known.
fn filled<'a>(
    document: &'a Value,
    path: &str,
    parameters: impl Iterator<Item = &'a Value>,
    known: &BTreeMap<&str, String>,
) -> Option<String> {
    let mut path = path.to_owned();
    for parameter in parameters.map(|parameter| resolved(document, parameter)) {
        if parameter["in"] == "path" {
            let kind = parameter["schema"]["$ref"].as_str()?.rsplit('/').next()?;
            path = path.replace(&format!("{{{}}}", parameter["name"].as_str()?), known.get(kind)?);
        }
    }
    Some(path)
}

/// The text as a segment of a path.
fn encoded(text: &str) -> String {
    let letter = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(letter).collect()
}
