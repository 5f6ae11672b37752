//! Worker processes: programs that stay running and exchange one line of JSON per run over standard input and
//! output. A model is loaded once, and a crash ends only the worker.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use futures_util::FutureExt as _;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

use crate::log::{RunLog, Tail, read_rest};

/// Largest line of a worker, in bytes: lines carry values, not files.
const MAX_LINE: u64 = 8 << 20;
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Command line and settings of a worker process.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct WorkerCommand {
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// Working directory. None: that of this process.
    pub folder: Option<PathBuf>,
    /// True if the worker does not inherit the environment of this process.
    pub clear_environment: bool,
    /// Timeout until the worker is ready.
    pub start_timeout: Duration,
}

impl WorkerCommand {
    /// Makes a command with a start timeout of one minute.
    pub fn new(command: Vec<OsString>) -> Self {
        Self { command, folder: None, clear_environment: false, start_timeout: Duration::from_mins(1) }
    }
}

/// Reason why a worker returned no line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// Start failure or start timeout.
    #[error("{0}")]
    Start(String),
    /// End of the process.
    #[error("{message}")]
    Ended {
        /// Signal that ended the process, if any.
        signal: Option<i32>,
        /// Exit status and last line of the standard error.
        message: String,
        /// End of the standard error.
        stderr: String,
    },
    /// Line that violates the protocol.
    #[error("{0}")]
    Protocol(String),
}

/// Running worker. Dropping it kills the process and its children.
#[derive(Debug)]
pub struct WorkerProcess {
    child: Child,
    _group: Group,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    tail: Tail,
    stderr: JoinHandle<()>,
}

impl WorkerProcess {
    /// Starts the program and waits for the line `{"ready": true}`.
    pub async fn start(command: &WorkerCommand) -> Result<Self, WorkerError> {
        let [program, arguments @ ..] = &command.command[..] else {
            return Err(WorkerError::Start("a worker needs a command".to_owned()));
        };
        let mut process = Command::new(program);
        if command.clear_environment {
            process.env_clear();
        }
        process.args(arguments);
        let Program { child, group, stdin, stdout, stderr } = spawn(process, command.folder.as_deref())
            .map_err(|cause| WorkerError::Start(format!("the worker cannot be started: {cause}")))?;
        let tail = Tail::default();
        let stderr = tokio::spawn(tail.clone().read(stderr));
        let mut worker = Self { child, _group: group, stdin, stdout: BufReader::new(stdout), tail, stderr };
        let ready = tokio::time::timeout(command.start_timeout, worker.read_line()).await;
        let ready = ready.map_err(|_| {
            let seconds = command.start_timeout.as_secs_f64();
            WorkerError::Start(format!("the worker was not ready within {seconds} seconds"))
        })?;
        match serde_json::from_slice::<Value>(&ready?) {
            Ok(line) if line["ready"] == true => Ok(worker),
            _ => Err(WorkerError::Protocol(
                r#"the first line of the worker was not {"ready": true}"#.to_owned(),
            )),
        }
    }

    pub(crate) fn begin_log(&self, log: &RunLog) {
        log.follow(&self.tail);
    }

    /// Returns true if the process runs and wrote nothing since the last exchange: output would pass for a response.
    pub fn is_idle(&mut self) -> bool {
        let is_silent = self.stdout.fill_buf().now_or_never().is_none();
        is_silent && matches!(self.child.try_wait(), Ok(None))
    }

    /// Writes a line and reads one; `line` must contain no line feed. Dropping the future leaves the worker
    /// in the middle of a run: drop the worker too.
    pub async fn exchange(&mut self, line: &[u8]) -> Result<Vec<u8>, WorkerError> {
        debug_assert!(!line.contains(&b'\n'), "a request to a worker has more than one line");
        self.tail.begin_run();
        let mut request = line.to_vec();
        request.push(b'\n');
        let written = async {
            self.stdin.write_all(&request).await?;
            self.stdin.flush().await
        };
        if written.await.is_err() {
            return Err(self.ended().await);
        }
        self.read_line().await
    }

    async fn read_line(&mut self) -> Result<Vec<u8>, WorkerError> {
        let mut line = Vec::new();
        let read = (&mut self.stdout).take(MAX_LINE + 1).read_until(b'\n', &mut line).await;
        if line.len() as u64 > MAX_LINE {
            return Err(WorkerError::Protocol(format!(
                "the worker wrote a line of more than {MAX_LINE} bytes"
            )));
        }
        match read {
            Ok(_) if line.ends_with(b"\n") => Ok(line),
            _ => Err(self.ended().await),
        }
    }

    async fn ended(&mut self) -> WorkerError {
        let status = tokio::time::timeout(EXIT_TIMEOUT, self.child.wait()).await;
        read_rest(&mut self.stderr).await;
        let (how, signal) = match status {
            Ok(Ok(status)) => (
                format!("the worker ended with {status}"),
                std::os::unix::process::ExitStatusExt::signal(&status),
            ),
            _ => ("the worker closed its output".to_owned(), None),
        };
        let (message, stderr) = self.tail.explain(how);
        WorkerError::Ended { signal, message, stderr }
    }
}

/// Result that a worker writes for a run: outputs by name, or an error.
#[derive(Debug, Deserialize)]
pub struct WorkerResponse {
    /// Outputs by name.
    pub output: Option<BTreeMap<String, Value>>,
    /// Error of the run.
    pub error: Option<RunError>,
}

/// Error of a run.
#[derive(Debug, Deserialize)]
pub struct RunError {
    /// Cause: `input`, `limit`, or anything else for the model.
    #[serde(default)]
    pub kind: String,
    /// Message for people.
    pub message: String,
}

pub(crate) struct Program {
    pub(crate) child: Child,
    pub(crate) group: Group,
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: ChildStderr,
}

pub(crate) fn spawn(mut process: Command, folder: Option<&Path>) -> io::Result<Program> {
    process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    process.process_group(0).kill_on_drop(true);
    if let Some(folder) = folder {
        process.current_dir(folder);
    }
    remove_secrets(&mut process);
    let mut child = process.spawn()?;
    let group = Group::of(&child);
    match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
        (Some(stdin), Some(stdout), Some(stderr)) => Ok(Program { child, group, stdin, stdout, stderr }),
        _ => Err(io::Error::other("it has no pipes")),
    }
}

fn remove_secrets(process: &mut Command) {
    const SECRETS: [&str; 4] =
        ["INFERSTORE_NODE_KEY", "INFERSTORE_API_KEY", "INFERSTORE_FIRST_KEY", "INFERSTORE_DATABASE"];
    for name in SECRETS {
        process.env_remove(name);
    }
}

#[derive(Debug)]
pub(crate) struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> WorkerCommand {
        let mut command = WorkerCommand::new(["sh", "-c", script].map(OsString::from).to_vec());
        command.start_timeout = Duration::from_secs(5);
        command
    }

    #[tokio::test]
    async fn a_worker_takes_one_line_after_the_other() -> Result<(), WorkerError> {
        let script = r#"echo '{"ready": true}'; while read line; do echo "got $line"; done"#;
        let mut worker = WorkerProcess::start(&shell(script)).await?;
        for line in ["one", "two"] {
            assert_eq!(worker.exchange(line.as_bytes()).await?, format!("got {line}\n").into_bytes());
        }
        Ok(())
    }

    #[tokio::test]
    async fn a_child_of_a_worker_in_python_reads_no_task() -> Result<(), Box<dyn std::error::Error>> {
        let model = r#"
import subprocess, sys
sys.path.insert(0, sys.argv[1])
from worker import serve
serve({"m": lambda inputs, folder: {"read": subprocess.run(["head", "-c", "1"], capture_output=True).stdout.decode()}})
"#;
        let library = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/vision");
        let mut worker = WorkerProcess::start(&WorkerCommand::new(
            ["python3", "-c", model, library].map(OsString::from).to_vec(),
        ))
        .await?;
        let task = br#"{"model": "m", "inputs": {}, "folder": "/"}"#;
        let line = tokio::time::timeout(Duration::from_mins(1), worker.exchange(task)).await??;
        assert_eq!(serde_json::from_slice::<Value>(&line)?, serde_json::json!({ "output": { "read": "" } }));
        Ok(())
    }

    #[tokio::test]
    async fn a_worker_that_wrote_too_much_or_has_ended_is_not_idle() -> Result<(), WorkerError> {
        for (script, is_idle) in
            [("echo one; sleep 60", true), ("echo one; echo two; sleep 60", false), ("echo one", false)]
        {
            let script = format!(r#"echo '{{"ready": true}}'; read line; {script}"#);
            let mut worker = WorkerProcess::start(&shell(&script)).await?;
            assert!(worker.is_idle(), "{script}");
            assert_eq!(worker.exchange(b"x").await?, b"one\n");
            for _ in 0..100 {
                if !worker.is_idle() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            assert_eq!(worker.is_idle(), is_idle, "{script}");
        }
        Ok(())
    }

    #[tokio::test]
    async fn a_worker_that_ends_says_how() -> Result<(), WorkerError> {
        let script = r#"echo '{"ready": true}'; read line; echo first >&2; echo "it broke" >&2; exit 3"#;
        let mut worker = WorkerProcess::start(&shell(script)).await?;
        let ended = worker.exchange(b"x").await;
        assert!(matches!(&ended, Err(WorkerError::Ended { signal: None, .. })), "{ended:?}");
        assert!(ended.is_err_and(|error| error.to_string().contains("exit status: 3")));
        let script = r#"echo '{"ready": true}'; read line; kill -9 $$"#;
        let killed = WorkerProcess::start(&shell(script)).await?.exchange(b"x").await;
        assert!(matches!(&killed, Err(WorkerError::Ended { signal: Some(9), .. })), "{killed:?}");
        Ok(())
    }

    #[tokio::test]
    async fn a_worker_that_ends_tells_nothing_of_an_earlier_run() -> Result<(), WorkerError> {
        let script = r#"echo '{"ready": true}'; read line; echo "of one" >&2; echo done; read line; echo "$line" >&2; exit 3"#;
        let mut worker = WorkerProcess::start(&shell(script)).await?;
        worker.exchange(b"one").await?;
        while worker.tail.explain(String::new()).1.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let Err(WorkerError::Ended { message, stderr, .. }) = worker.exchange(b"of two").await else {
            return Err(WorkerError::Protocol("it did not end".to_owned()));
        };
        assert_eq!((&*message, &*stderr), ("the worker ended with exit status: 3: of two", "of two"));
        Ok(())
    }

    #[tokio::test]
    async fn what_a_worker_wrote_last_is_told_however_late_it_is_read() -> Result<(), WorkerError> {
        // The first child writes to standard error after the worker's exit; the second holds the pipe open.
        let script =
            r#"echo '{"ready": true}'; read line; exec >&-; (sleep 0.1; echo "it broke" >&2) & exit 3"#;
        let ended = WorkerProcess::start(&shell(script)).await?.exchange(b"x").await;
        assert!(ended.is_err_and(|error| error.to_string().ends_with("exit status: 3: it broke")));
        let script = r#"echo '{"ready": true}'; read line; echo "it broke" >&2; exec >&-; sleep 60 & exit 3"#;
        let ended = WorkerProcess::start(&shell(script)).await?.exchange(b"x").await;
        assert!(ended.is_err_and(|error| error.to_string().ends_with("exit status: 3: it broke")));
        Ok(())
    }

    #[test]
    fn a_program_starts_without_the_keys_of_this_process() {
        let mut process = Command::new("true");
        remove_secrets(&mut process);
        let removed: Vec<_> = process.as_std().get_envs().filter(|(_, value)| value.is_none()).collect();
        assert_eq!(removed.len(), 4, "{removed:?}");
    }

    #[tokio::test]
    async fn a_program_that_is_no_worker_is_refused() {
        for (script, expected) in [
            ("exit 1", "ended with exit status: 1"),
            ("echo hello; sleep 60", "first line"),
            ("head -c 9000000 /dev/zero; sleep 60", "more than"),
        ] {
            let refused = WorkerProcess::start(&shell(script)).await.map(drop);
            assert!(refused.as_ref().is_err_and(|error| error.to_string().contains(expected)), "{refused:?}");
        }
        let mut late = shell("sleep 60");
        late.start_timeout = Duration::from_millis(50);
        let refused = WorkerProcess::start(&late).await.map(drop);
        assert!(refused.is_err_and(|error| error.to_string().contains("not ready")));
    }
}
