//! Worker processes of the built-in models: started on demand, reused for later tasks, and replaced when they end.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use inferstore_node::{RunError, WorkerCommand, WorkerError, WorkerProcess, WorkerResponse};
use parking_lot::Mutex;
use serde_json::Value;
use tempfile::TempDir;

use super::Nodes;
use super::inputs::TaskInputs;
use super::local_node::run_timeout;
use super::run_folder::{LaidOut, Outputs, collect, lay_out};
use crate::config::Config;
use crate::folder::RUNS;
use crate::models::Failed;
use crate::models::Request;
use crate::object_storage::outlast_outage;
use crate::queue::Lease;
use crate::{Error, Result};

const MAX_ATTEMPTS: u32 = 6;
const START_BACKOFF: Duration = Duration::from_millis(100);

pub(super) struct ModelProcesses {
    command: WorkerCommand,
    folder: PathBuf,
    idle: Mutex<Vec<WorkerProcess>>,
}

impl ModelProcesses {
    pub(super) fn new(config: &Config, data: &Path) -> Result<Option<Self>> {
        let Some(command) = &config.model_process else { return Ok(None) };
        let folder = data.join(RUNS);
        // Files of an earlier service that was killed.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder)
            .map_err(|cause| Error::keeping("creating a folder for runs", cause))?;
        let folder =
            std::path::absolute(&folder).map_err(|cause| Error::new("finding the folder for runs", cause))?;
        let mut words = command.clone();
        words.push(OsString::from(config.limits.pixels.to_string()));
        words.push(OsString::from(config.limits.memory.to_string()));
        let mut command = WorkerCommand::new(words);
        command.clear_environment = true;
        Ok(Some(Self { command, folder, idle: Mutex::default() }))
    }

    /// Runs a task within the memory left for all runs. Dropping the future kills the process of the run.
    pub(super) async fn run(
        &self,
        nodes: &Nodes,
        lease: &Lease,
        inputs: TaskInputs,
    ) -> Result<Outputs, Failed> {
        let folder = outlast_outage(async || {
            TempDir::with_prefix_in("run-", &self.folder)
                .map_err(|cause| Error::keeping("creating the folder of a run", cause))
        })
        .await?;
        let limit = nodes.limits.run;
        let LaidOut { values, files, bytes } = lay_out(nodes, inputs, folder.path()).await?;
        let mut request = Request {
            model: lease.model.clone(),
            folder: folder.path().to_owned(),
            inputs: values,
            files,
            seconds: limit.as_secs_f64(),
            measure: true,
        };
        let measured = {
            // The process reads the files to measure them.
            let _memory = nodes.local.reserve_memory(bytes).await?;
            self.exchange(&request, limit).await?
        };
        let _memory = match measured.get("memory").and_then(Value::as_u64) {
            Some(memory) => nodes.local.reserve_memory(memory).await?,
            None => return Err(Failed::model("the model reported no memory size")),
        };
        request.measure = false;
        let outputs = self.exchange(&request, limit).await?;
        collect(lease, folder.path(), outputs).await
    }

    async fn exchange(&self, request: &Request, limit: Duration) -> Result<BTreeMap<String, Value>, Failed> {
        let line =
            serde_json::to_vec(request).map_err(|cause| Error::new("writing the inputs of a run", cause))?;
        let mut attempt = 0;
        let line = loop {
            attempt += 1;
            let exchanged = tokio::time::timeout(run_timeout(limit), self.exchange_once(&line)).await;
            let Ok(exchanged) = exchanged else { return Err(inferstore_models::Error::TimedOut.into()) };
            match exchanged {
                Ok(line) => break line,
                Err(error) if attempt < MAX_ATTEMPTS && is_retried(&error) => {
                    tracing::warn!(%error, model = request.model, attempt, "a model process has ended; the run begins again");
                    if matches!(error, WorkerError::Start(_)) {
                        tokio::time::sleep(START_BACKOFF * 2_u32.pow(attempt)).await;
                    }
                }
                Err(error) => return Err(failed(&error, &request.model)),
            }
        };
        let response: WorkerResponse = serde_json::from_slice(&line)
            .map_err(|cause| Error::new("reading the line of a model process", cause))?;
        match response {
            WorkerResponse { output: Some(output), error: None } => Ok(output),
            WorkerResponse { error: Some(RunError { kind, message }), .. } => Err(match kind.as_str() {
                "input" => Failed::input(message),
                "limit" => Failed { kind: "limit", message },
                _ => Failed::model(message),
            }),
            _ => Err(Failed::model("the model gave neither an output nor an error")),
        }
    }

    async fn exchange_once(&self, line: &[u8]) -> Result<Vec<u8>, WorkerError> {
        let mut process = match self.take_idle() {
            Some(process) => process,
            None => WorkerProcess::start(&self.command).await?,
        };
        let response = process.exchange(line).await?;
        self.idle.lock().push(process);
        Ok(response)
    }

    fn take_idle(&self) -> Option<WorkerProcess> {
        let mut idle = self.idle.lock();
        while let Some(mut process) = idle.pop() {
            if process.is_idle() {
                return Some(process);
            }
        }
        None
    }
}

/// Returns true if the process was killed from outside or could not start: the run may succeed in another process.
fn is_retried(error: &WorkerError) -> bool {
    const KILL: i32 = 9;
    const TERMINATE: i32 = 15;
    match error {
        WorkerError::Ended { signal, .. } => matches!(signal, Some(KILL | TERMINATE)),
        WorkerError::Start(_) => true,
        _ => false,
    }
}

fn failed(error: &WorkerError, model: &str) -> Failed {
    const PROCESSOR_TIME: i32 = 24;
    tracing::error!(%error, model, "a model process has ended in the middle of a run");
    match error {
        WorkerError::Ended { signal: Some(PROCESSOR_TIME), .. } => inferstore_models::Error::TimedOut.into(),
        WorkerError::Ended { stderr, .. } if stderr.contains("memory allocation of") => {
            let message = "the run took more memory than it may and was stopped; send a smaller picture";
            Failed { kind: "limit", message: message.to_owned() }
        }
        WorkerError::Ended { .. } => Failed::model("the model crashed"),
        _ => Failed {
            kind: "service",
            message: "the process that runs the model cannot be started".to_owned(),
        },
    }
}
