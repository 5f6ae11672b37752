//! Models of a worker, which runs one task after the other. The node starts it before a claim, and after it exits.

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
use crate::log::RunLog;
use crate::outputs::Failed;
use crate::service::Lease;
use crate::worker::{WorkerCommand, WorkerError, WorkerProcess, WorkerResponse};

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

    pub(super) async fn is_ready(&self) -> Result<(), String> {
        can_write().await?;
        let mut running = self.running.lock().await;
        let worker = self.idle_or_new(running.take()).await.map_err(|error| error.to_string())?;
        *running = Some(worker);
        Ok(())
    }

    pub(super) async fn run(&self, lease: &Lease, inputs: Inputs, log: &RunLog) -> Result<Outputs, Failed> {
        let (_scratch, folder) = scratch().await?;
        let given = given(lease, &folder, inputs).await?;
        let request = serde_json::to_vec(&given)
            .map_err(|cause| Failed::model(format!("the inputs cannot be written as JSON: {cause}")))?;
        let line = self.exchange(&request, log).await.map_err(failed)?;
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
            WorkerResponse { output: Some(_), error: Some(_) } => {
                Err(Failed::model("the worker gave both an output and an error"))
            }
            _ => Err(Failed::model("the worker gave neither an output nor an error")),
        }
    }

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

    async fn exchange(&self, request: &[u8], log: &RunLog) -> Result<Vec<u8>, WorkerError> {
        let mut running = self.running.lock().await;
        // The process is out of its slot until it responds, so that dropping the run kills it.
        let worker = self.idle_or_new(running.take()).await;
        // A start failure is of this machine: the task may succeed on another node.
        let mut worker = worker.map_err(|error| WorkerError::Start(error.to_string()))?;
        worker.begin_log(log);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outputs::Kind;

    #[tokio::test]
    async fn a_worker_gives_an_output_or_an_error() -> Result<(), Box<dyn std::error::Error>> {
        let lease: Lease = serde_json::from_value(json!({
            "task": "a", "attempt": 1, "model": "m", "input": {}, "input_format": {}, "output_format": {},
            "lease_seconds": 30.0
        }))?;
        for (line, expected) in [
            (r#"{"output": {}, "error": {"message": "no"}}"#, "the worker gave both an output and an error"),
            ("{}", "the worker gave neither an output nor an error"),
        ] {
            let script = format!(r#"echo '{{"ready": true}}'; read task; echo '{line}'"#);
            let worker = Worker::new(&serde_json::from_value(json!({ "command": ["sh", "-c", script] }))?)?;
            let failed = worker.run(&lease, Inputs::new(), &RunLog::default()).await.err();
            assert_eq!(failed.map(|failed| failed.message).as_deref(), Some(expected));
        }
        Ok(())
    }

    #[tokio::test]
    async fn a_task_whose_worker_cannot_start_again_is_left_to_another_node()
    -> Result<(), Box<dyn std::error::Error>> {
        let lease: Lease = serde_json::from_value(json!({
            "task": "a", "attempt": 1, "model": "m", "input": {}, "input_format": {}, "output_format": {},
            "lease_seconds": 30.0
        }))?;
        for second_start in ["exit 1", "echo hello"] {
            let folder = tempfile::tempdir()?;
            let script = format!(
                r#"if [ -e started ]; then {second_start}; else touch started; echo '{{"ready": true}}'; fi"#
            );
            let config =
                serde_json::from_value(json!({ "command": ["sh", "-c", script], "folder": folder.path() }))?;
            let worker = Worker::new(&config)?;
            worker.is_ready().await?;
            while worker.running.lock().await.as_mut().is_some_and(WorkerProcess::is_idle) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let failed = worker.run(&lease, Inputs::new(), &RunLog::default()).await.err();
            let kind = failed.as_ref().map(|failed| failed.kind);
            assert_eq!(kind, Some(Kind::Node), "{second_start}: {failed:?}");
        }
        Ok(())
    }
}
