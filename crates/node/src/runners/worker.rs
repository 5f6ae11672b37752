//! Models of a worker: a program that stays running and runs one task after the other. It is started before a
//! task is leased, and again after it has ended.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tokio::sync::Mutex;

use super::Outputs;
use super::command::{can_write, collect, given, limited, scratch};
use crate::Error;
use crate::config::WorkerConfig;
use crate::inputs::Inputs;
use crate::outputs::Failed;
use crate::service::Lease;
use crate::worker::{WorkerCommand, WorkerError, WorkerProcess, WorkerResponse};

/// One process of a worker.
pub(crate) struct Worker {
    command: WorkerCommand,
    running: Mutex<Option<WorkerProcess>>,
}

impl Worker {
    pub(crate) fn new(config: &WorkerConfig) -> Result<Self, Error> {
        if config.command.is_empty() {
            return Err(Error::new("reading the settings", "a worker has a command"));
        }
        let words = limited(&config.command, config.memory_mib)?;
        let mut command = WorkerCommand::new(words.into_iter().map(OsString::from).collect());
        command.folder.clone_from(&config.folder);
        command.start_timeout = Duration::from_secs(config.start_seconds);
        Ok(Self { command, running: Mutex::new(None) })
    }

    /// Starts the process unless it runs.
    pub(super) async fn is_ready(&self) -> Result<(), String> {
        can_write().await?;
        let mut running = self.running.lock().await;
        let worker = self.idle_or_new(running.take()).await.map_err(|error| error.to_string())?;
        *running = Some(worker);
        Ok(())
    }

    /// Runs a task. Dropping the future ends the process with the run.
    pub(super) async fn run(&self, lease: &Lease, inputs: Inputs) -> Result<Outputs, Failed> {
        let (_scratch, folder) = scratch().await?;
        let given = given(lease, &folder, inputs).await?;
        let request = serde_json::to_vec(&given)
            .map_err(|cause| Failed::model(format!("the inputs cannot be written as JSON: {cause}")))?;
        let line = self.exchange(&request).await.map_err(failed)?;
        let response: WorkerResponse = match serde_json::from_slice(&line) {
            Ok(response) => response,
            Err(cause) => {
                self.running.lock().await.take();
                return Err(Failed::model(format!("the line of the worker cannot be read: {cause}")));
            }
        };
        match response {
            WorkerResponse { output: Some(output), error: None } => {
                collect(Path::new(&folder), lease, output).await
            }
            WorkerResponse { output: None, error: Some(error) } => Err(match error.kind.as_str() {
                "input" => Failed::input(error.message),
                "limit" => Failed::limit(error.message),
                _ => Failed::model(error.message),
            }),
            _ => Err(Failed::model("the worker gave neither an output nor an error")),
        }
    }

    /// The process if it waits for a task, and a new one otherwise.
    async fn idle_or_new(&self, kept: Option<WorkerProcess>) -> Result<WorkerProcess, WorkerError> {
        match kept.map(|mut worker| (worker.is_idle(), worker)) {
            Some((true, worker)) => return Ok(worker),
            Some((false, _)) => {
                tracing::warn!(
                    "the worker has ended, or has written more than one line for a task; it is started again"
                );
            }
            None => {}
        }
        WorkerProcess::start(&self.command).await
    }

    async fn exchange(&self, request: &[u8]) -> Result<Vec<u8>, WorkerError> {
        let mut running = self.running.lock().await;
        // Out of its place until it has responded, so that a run that is dropped ends the process.
        let mut worker = self.idle_or_new(running.take()).await?;
        let line = worker.exchange(request).await?;
        *running = Some(worker);
        Ok(line)
    }
}

fn failed(error: WorkerError) -> Failed {
    let failed = Failed::model(error.to_string());
    match error {
        WorkerError::Start(_) => Failed::node("starting the worker", &error),
        WorkerError::Ended { stderr, .. } => Failed { detail: Some(json!({ "stderr": stderr })), ..failed },
        _ => failed,
    }
}
