//! Models that are programs: JSON on standard input and output, files by path in a folder that exists for one run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command as Process;

use super::Outputs;
use crate::Error;
use crate::config::check_program;
use crate::inputs::{Input, Inputs};
use crate::log::{RunLog, Tail, read_rest};
use crate::outputs::{Failed, Output, OutputFile};
use crate::service::{Descriptor, Lease};
use crate::worker::{Program, spawn};

/// Limit on the standard output of a program, in bytes: it carries values, not files.
const MAX_RESPONSE: u64 = 8 << 20;
const MAX_FILE: u64 = inferstore_fetch::MAX_FILE;

const TRACEPARENT: &str = "TRACEPARENT";

pub(crate) struct Command {
    program: String,
    words: Vec<String>,
    folder: Option<PathBuf>,
}

#[derive(Serialize)]
pub(super) struct Given<'a> {
    task: &'a str,
    model: &'a str,
    /// Folder for output files; relative paths in the output start here.
    folder: &'a Path,
    inputs: BTreeMap<String, Box<RawValue>>,
    output_format: &'a BTreeMap<String, Descriptor>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<&'a str>,
}

impl Command {
    pub(super) fn new(
        command: &[String],
        folder: Option<&Path>,
        memory_mib: Option<u64>,
    ) -> Result<Self, Error> {
        let words = limited(command, memory_mib)?;
        let program = command.first().cloned().unwrap_or_default();
        Ok(Self { program, words, folder: folder.map(Path::to_owned) })
    }

    pub(super) async fn is_ready(&self) -> Result<(), String> {
        let is_there = check_program("the command", &self.program, self.folder.as_deref());
        is_there.map_err(|cause| cause.to_string())?;
        can_write().await
    }

    pub(super) async fn run(&self, lease: &Lease, inputs: Inputs, log: &RunLog) -> Result<Outputs, Failed> {
        let (_scratch, folder) = scratch().await?;
        let given = given(lease, &folder, inputs).await?;
        let given = serde_json::to_vec(&given).map_err(|cause| here("writing the inputs", &cause))?;
        let (status, written, tail) = self.talk(&given, &folder, lease.traceparent.as_deref(), log).await?;
        if !status.success() {
            return Err(failed(format!("the command ended with {status}"), &tail));
        }
        let written: BTreeMap<String, Value> = serde_json::from_slice(&written).map_err(|cause| {
            failed(format!("the command did not write a JSON object of outputs: {cause}"), &tail)
        })?;
        collect(&folder, lease, written).await
    }

    /// Starts the program, writes the request and waits. Dropping the future kills the program and its children.
    async fn talk(
        &self,
        given: &[u8],
        scratch: &Path,
        traceparent: Option<&str>,
        log: &RunLog,
    ) -> Result<(ExitStatus, Vec<u8>, Tail), Failed> {
        let [program, arguments @ ..] = &self.words[..] else {
            return Err(Failed::model("there is no command"));
        };
        let mut process = Process::new(program);
        process.args(arguments).env("INFERSTORE_RUN_FOLDER", scratch);
        // The node's own trace is not the trace of the task.
        process.env_remove(TRACEPARENT).envs(traceparent.map(|traceparent| (TRACEPARENT, traceparent)));
        let Program { mut child, group: _group, mut stdin, stdout, stderr } =
            spawn(process, self.folder.as_deref())
                .map_err(|cause| Failed::node(&format!("starting {program}"), &cause))?;
        let tail = Tail::default();
        log.follow(&tail);
        let mut reading = tokio::spawn(tail.clone().read(stderr));
        let say = async {
            // A program that does not read its input reports the problem in its output.
            let _ = stdin.write_all(given).await;
            drop(stdin);
        };
        let listen = async move {
            let mut written = Vec::new();
            stdout.take(MAX_RESPONSE + 1).read_to_end(&mut written).await.map(|_| written)
        };
        let ((), written) = tokio::join!(say, listen);
        let written = written.map_err(|cause| here("reading what the command wrote", &cause))?;
        if written.len() as u64 > MAX_RESPONSE {
            return Err(Failed::limit(format!("the command wrote more than {MAX_RESPONSE} bytes")));
        }
        let status = child.wait().await.map_err(|cause| here("waiting for the command", &cause))?;
        read_rest(&mut reading).await;
        Ok((status, written, tail))
    }
}

pub(super) fn limited(words: &[String], memory_mib: Option<u64>) -> Result<Vec<String>, Error> {
    let mut limited = Vec::new();
    if let Some(mib) = memory_mib {
        // Only `unsafe` code could set limits between fork and exec; `prlimit` of util-linux does it without.
        let works = std::process::Command::new("prlimit").arg("--version").stdout(Stdio::null()).status();
        if !works.is_ok_and(|status| status.success()) {
            let message = "memory_mib needs the program prlimit (of util-linux), and it is not here";
            return Err(Error::new("limiting a command", message));
        }
        limited = ["prlimit".to_owned(), format!("--as={}", mib << 20), "--core=0".to_owned()].to_vec();
    }
    limited.extend_from_slice(words);
    Ok(limited)
}

/// Creates the folder of a run. Dropping the first value removes it.
pub(super) async fn scratch() -> Result<(TempDir, PathBuf), Failed> {
    let failed = |cause| Failed::node("making a folder for a run", &cause);
    let scratch = TempDir::with_prefix("inferstore-run-").map_err(failed)?;
    let folder = tokio::fs::canonicalize(scratch.path()).await.map_err(failed)?;
    Ok((scratch, folder))
}

pub(super) async fn can_write() -> Result<(), String> {
    let (_scratch, folder) = scratch().await.map_err(|failed| failed.message)?;
    let written = tokio::fs::write(folder.join("probe"), vec![0; 64 << 10]).await;
    written.map_err(|cause| format!("writing to {} failed: {cause}", folder.display()))
}

pub(super) async fn given<'a>(
    lease: &'a Lease,
    folder: &'a Path,
    inputs: Inputs,
) -> Result<Given<'a>, Failed> {
    Ok(Given {
        task: &lease.task,
        model: &lease.model,
        inputs: lay_out(folder, inputs).await?,
        folder,
        output_format: &lease.output_format,
        traceparent: lease.traceparent.as_deref(),
    })
}

async fn lay_out(folder: &Path, inputs: Inputs) -> Result<BTreeMap<String, Box<RawValue>>, Failed> {
    let failed = |cause: std::io::Error| Failed::node("writing the inputs", &cause);
    let place = folder.join("inputs");
    tokio::fs::create_dir(&place).await.map_err(failed)?;
    let mut given = BTreeMap::new();
    for (name, input) in inputs {
        let value = match input {
            Input::Value(value) => value,
            Input::File { bytes, extension } => {
                // Parameter names are plain already; this is the last check before they become paths.
                let plain: String = name.chars().filter(|letter| letter.is_ascii_alphanumeric()).collect();
                let number = given.len();
                let end = if extension.is_empty() { String::new() } else { format!(".{extension}") };
                let path = place.join(format!("{number}-{plain}{end}"));
                tokio::fs::write(&path, bytes).await.map_err(failed)?;
                to_raw_value(&path).map_err(|cause| here("writing the inputs", &cause))?
            }
        };
        given.insert(name, value);
    }
    Ok(given)
}

pub(super) async fn collect(
    folder: &Path,
    lease: &Lease,
    written: BTreeMap<String, Value>,
) -> Result<Outputs, Failed> {
    let mut outputs = Outputs::new();
    for (name, value) in written {
        let Some(declared) = lease.output_format.get(&name).filter(|declared| declared.is_file()) else {
            outputs.insert(name, Output::Value(value));
            continue;
        };
        let no_file =
            |why: &str| Failed::model(format!("the output {name} is not a file of this run: {why}"));
        let path = value.as_str().ok_or_else(|| no_file("the command has to give its path"))?;
        let place = folder.join(path);
        let found = tokio::fs::canonicalize(&place).await;
        let found =
            found.map_err(|_| no_file(&format!("there is nothing at this path, {}", place.display())))?;
        if !found.starts_with(folder) {
            return Err(no_file("it does not lie in the folder of the run"));
        }
        let about = tokio::fs::metadata(&found).await.map_err(|cause| here("reading an output", &cause))?;
        if !about.is_file() {
            return Err(no_file("it is something else"));
        }
        if about.len() > MAX_FILE {
            return Err(Failed::limit(format!("the output {name} is larger than {MAX_FILE} bytes")));
        }
        let bytes = tokio::fs::read(&found).await.map_err(|cause| here("reading an output", &cause))?;
        let called = found.file_name().and_then(|called| called.to_str());
        let file = OutputFile::guessed(bytes, called, declared);
        outputs.insert(name, Output::File(file));
    }
    Ok(outputs)
}

fn failed(what: String, tail: &Tail) -> Failed {
    let (message, stderr) = tail.explain(what);
    Failed { detail: Some(json!({ "stderr": stderr })), ..Failed::model(message) }
}

/// Makes the failure of a run that has begun. A retry would probably fail in the same way.
fn here(doing: &str, cause: &dyn std::error::Error) -> Failed {
    tracing::error!(%cause, "{doing} failed");
    Failed::model(format!("the node failed at {doing}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_command_finds_the_trace_of_its_task() -> Result<(), Box<dyn std::error::Error>> {
        let script = r#"cat > /dev/null; printf '{"seen":"%s"}' "$TRACEPARENT""#;
        let command = Command::new(&["sh", "-c", script].map(str::to_owned), None, None)?;
        for trace in [Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), None] {
            let lease: Lease = serde_json::from_value(json!({
                "task": "t", "attempt": 1, "model": "m", "input": {}, "input_format": {},
                "output_format": {}, "lease_seconds": 30.0, "traceparent": trace
            }))?;
            let folder = TempDir::new()?;
            let given = given(&lease, folder.path(), Inputs::new()).await.map_err(|failed| failed.message)?;
            assert_eq!(serde_json::to_value(&given)?.get("traceparent"), trace.map(Value::from).as_ref());
            let outputs = command
                .run(&lease, Inputs::new(), &RunLog::default())
                .await
                .map_err(|failed| failed.message)?;
            let Some(Output::Value(seen)) = outputs.get("seen") else { return Err("no output".into()) };
            assert_eq!(seen, trace.unwrap_or_default());
        }
        Ok(())
    }

    #[tokio::test]
    async fn a_child_that_holds_standard_error_alone_does_not_delay_the_result()
    -> Result<(), Box<dyn std::error::Error>> {
        let script = r#"sleep 600 >/dev/null </dev/null & echo '{"seen": "it"}'"#;
        let command = Command::new(&["sh", "-c", script].map(str::to_owned), None, None)?;
        let lease: Lease = serde_json::from_value(json!({
            "task": "t", "attempt": 1, "model": "m", "input": {}, "input_format": {}, "output_format": {},
            "lease_seconds": 30.0
        }))?;
        let log = RunLog::default();
        let ran =
            tokio::time::timeout(Duration::from_mins(1), command.run(&lease, Inputs::new(), &log)).await?;
        assert!(matches!(ran, Ok(outputs) if outputs.len() == 1));
        Ok(())
    }

    #[tokio::test]
    async fn the_commands_of_the_page_copy_a_file() -> Result<(), Box<dyn std::error::Error>> {
        let page = include_str!("../../../../docs/nodes.md");
        for (mark, shell) in [("```python\n", "python3"), ("```sh\n#!/bin/sh", "sh")] {
            let (_, block) = page.split_once(mark).ok_or("the page has no such command")?;
            let (program, _) = block.split_once("```").ok_or("the block does not end")?;
            let program = format!("{}{program}", mark.split('\n').next_back().unwrap_or_default());
            let command = Command::new(&[shell, "-c", &program].map(str::to_owned), None, None)?;
            let lease: Lease = serde_json::from_value(json!({
                "task": "t", "attempt": 1, "model": "m", "input": {}, "input_format": {},
                "output_format": { "output": { "type": "file" } }, "lease_seconds": 30.0
            }))?;
            let picture = Input::File { bytes: b"a picture".to_vec(), extension: "png".to_owned() };
            let inputs = Inputs::from([("input".to_owned(), picture)]);
            let outputs =
                command.run(&lease, inputs, &RunLog::default()).await.map_err(|failed| failed.message)?;
            let Some(Output::File(copy)) = outputs.get("output") else { return Err("no output".into()) };
            assert_eq!(&copy.bytes[..], b"a picture", "{shell}");
        }
        Ok(())
    }

    #[tokio::test]
    async fn a_missing_output_is_named_with_the_folder_of_its_run() -> Result<(), Box<dyn std::error::Error>>
    {
        let lease: Lease = serde_json::from_value(json!({
            "task": "t", "attempt": 1, "model": "m", "input": {}, "input_format": {},
            "output_format": { "picture": { "type": "file" } }, "lease_seconds": 30.0
        }))?;
        let folder = TempDir::new()?;
        let written = BTreeMap::from([("picture".to_owned(), json!("edges.png"))]);
        let failed = collect(folder.path(), &lease, written).await.err().ok_or("it is collected")?;
        let place = folder.path().join("edges.png");
        let expected = format!("there is nothing at this path, {}", place.display());
        assert!(failed.message.ends_with(&expected), "{}", failed.message);
        Ok(())
    }
}
