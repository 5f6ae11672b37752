//! Runs of test programs, each with one mutant on.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::switches::VARIABLE;

/// Shorter ones would take a busy machine for a mutant.
const MIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Of the tests without a mutant.
const MAX_TIMEOUT: Duration = Duration::from_mins(30);

/// A program of tests, and where it runs.
pub(super) struct Binary {
    pub(super) program: PathBuf,
    pub(super) folder: PathBuf,
}

pub(super) struct Tests {
    binaries: Vec<Binary>,
    filter: String,
    timeout: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Caught,
    TimedOut,
    Missed,
}

impl Outcome {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Caught => "caught",
            Self::TimedOut => "timed out",
            Self::Missed => "missed",
        }
    }
}

impl Tests {
    pub(super) fn new(binaries: Vec<Binary>) -> Self {
        Self { binaries, filter: String::new(), timeout: MAX_TIMEOUT }
    }

    /// Only the tests whose path contains this text.
    pub(super) fn filtered(self, filter: String) -> Self {
        Self { filter, ..self }
    }

    /// Runs them without a mutant: they must pass, and five times their time is the timeout.
    pub(super) fn measured(self) -> Result<Self> {
        let start = Instant::now();
        ensure!(self.run_all(None)? == Outcome::Missed, "the tests fail without a mutant");
        Ok(Self { timeout: (start.elapsed() * 5).max(MIN_TIMEOUT), ..self })
    }

    /// Runs them with a mutant, `first` those whose path contains this text, up to the first failure.
    pub(super) fn run(&self, mutant: usize, first: Option<&str>) -> Result<Outcome> {
        if let Some(first) = first {
            for binary in &self.binaries {
                let outcome = self.run_one(binary, Some(mutant), first)?;
                if outcome != Outcome::Missed {
                    return Ok(outcome);
                }
            }
        }
        self.run_all(Some(mutant))
    }

    fn run_all(&self, mutant: Option<usize>) -> Result<Outcome> {
        for binary in &self.binaries {
            let outcome = self.run_one(binary, mutant, &self.filter)?;
            if outcome != Outcome::Missed {
                return Ok(outcome);
            }
        }
        Ok(Outcome::Missed)
    }

    fn run_one(&self, binary: &Binary, mutant: Option<usize>, filter: &str) -> Result<Outcome> {
        let mut command = Command::new(&binary.program);
        command.arg(filter).current_dir(&binary.folder).stdout(Stdio::piped()).stderr(Stdio::null());
        command.env("CARGO_MANIFEST_DIR", &binary.folder).env("INSTA_UPDATE", "no");
        command.envs(mutant.map(|number| (VARIABLE, number.to_string())));
        // A group of its own, so that the processes that a test started end with it.
        let mut child = command.process_group(0).spawn().context("cannot run the tests")?;
        let output = child.stdout.take().context("the tests have no output")?;
        let (send, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });

        let end = Instant::now() + self.timeout;
        let early = loop {
            match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) if line.starts_with("test ") && line.ends_with("FAILED") => {
                    break Some(Outcome::Caught);
                }
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => break Some(Outcome::TimedOut),
                Err(RecvTimeoutError::Disconnected) => break None,
            }
        };
        if early.is_some() {
            kill(child.id());
        }
        let status = child.wait().context("cannot wait for the tests")?;
        // A mutant may have left a process behind.
        kill(child.id());
        Ok(early.unwrap_or(if status.success() { Outcome::Missed } else { Outcome::Caught }))
    }
}

/// Ends all processes of a group.
fn kill(group: u32) {
    // Fails when there are none left.
    let _ = Command::new("kill").args(["-KILL", "--", &format!("-{group}")]).stderr(Stdio::null()).status();
}
