//! Runs of test programs, each with one mutant enabled.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use inferstore_contract::tools::must;

use super::in_parallel;
use super::switches::{ON, REACHED};

/// Minimum, so that a busy machine is not mistaken for a mutant.
const MIN_TIMEOUT: Duration = Duration::from_secs(60);

const MAX_TIMEOUT: Duration = Duration::from_mins(30);

/// Number of tests run first: quick ones that reach few mutants, which probably catch one.
const FIRST_TESTS: usize = 8;

/// Test program and its working directory.
pub(super) struct Binary {
    pub(super) program: PathBuf,
    pub(super) folder: PathBuf,
}

/// Tests of some programs, and the mutants that each reaches.
pub(super) struct Tests {
    binaries: Vec<Binary>,
    arguments: &'static [&'static str],
    tests: Vec<Test>,
}

struct Test {
    binary: usize,
    name: String,
    time: Duration,
    reached: HashSet<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Caught,
    TimedOut,
    Missed,
}

impl Verdict {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Caught => "caught",
            Self::TimedOut => "timed out",
            Self::Missed => "missed",
        }
    }
}

impl Tests {
    /// Runs all tests that match the filters in `arguments` without a mutant, each in a process of its own. They must
    /// pass.
    pub(super) fn traced(
        binaries: Vec<Binary>,
        arguments: &'static [&'static str],
        scratch: &Path,
    ) -> Result<Self> {
        let mut names = Vec::new();
        for (index, binary) in binaries.iter().enumerate() {
            let list =
                must("the tests", binary.command().args(arguments).args(["--list", "--format=terse"]))?
                    .stdout;
            let list = String::from_utf8(list).context("a test has no name in UTF-8")?;
            let tests = list.lines().filter_map(|line| line.strip_suffix(": test"));
            names.extend(tests.map(|name| (index, name.to_owned())));
        }
        fs::create_dir_all(scratch).context("cannot make a folder")?;
        let tests = in_parallel(&names, |index, (binary, name)| {
            let file = scratch.join(index.to_string());
            fs::write(&file, "").with_context(|| format!("cannot write {}", file.display()))?;
            let mut command = binaries[*binary].command();
            command.args(arguments).args(["--exact", name]).env(REACHED, &file);
            let start = Instant::now();
            ensure!(outcome_of(command, MAX_TIMEOUT)? == Verdict::Missed, "{name} fails without a mutant");
            let time = start.elapsed();
            let reached = fs::read_to_string(&file).context("cannot read what a test reached")?;
            let reached = reached.lines().filter_map(|line| line.parse().ok()).collect();
            Ok(Test { binary: *binary, name: name.clone(), time, reached })
        })?;
        Ok(Self { binaries, arguments, tests })
    }

    pub(super) fn run(&self, mutant: usize) -> Result<Verdict> {
        let mut tests: Vec<&Test> = self.tests.iter().filter(|test| test.reached.contains(&mutant)).collect();
        tests.sort_by_key(|test| test.time * test.reached.len() as u32);
        let (first, others) = tests.split_at(FIRST_TESTS.min(tests.len()));
        for tests in [first, others] {
            for (index, binary) in self.binaries.iter().enumerate() {
                let tests: Vec<_> = tests.iter().filter(|test| test.binary == index).collect();
                if tests.is_empty() {
                    continue;
                }
                let mut command = binary.command();
                command
                    .args(self.arguments)
                    .arg("--exact")
                    .args(tests.iter().map(|test| &test.name))
                    .env(ON, mutant.to_string());
                let time: Duration = tests.iter().map(|test| test.time).sum();
                let outcome = outcome_of(command, (time * 2).max(MIN_TIMEOUT))?;
                if outcome != Verdict::Missed {
                    return Ok(outcome);
                }
            }
        }
        Ok(Verdict::Missed)
    }
}

impl Binary {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder).env("INSTA_UPDATE", "no");
        command
    }
}

fn outcome_of(mut command: Command, timeout: Duration) -> Result<Verdict> {
    // Killed tests leave files behind.
    let temporary = tempfile::tempdir().context("cannot make a folder")?;
    command.stdout(Stdio::piped()).stderr(Stdio::null()).env("TMPDIR", temporary.path());
    // A process group, so that child processes of a test end with it.
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

    let start = Instant::now();
    let early = loop {
        match lines.recv_timeout(timeout.saturating_sub(start.elapsed())) {
            Ok(line) if line.starts_with("test ") && line.ends_with("FAILED") => {
                break Some(Verdict::Caught);
            }
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) => break Some(Verdict::TimedOut),
            Err(RecvTimeoutError::Disconnected) => break None,
        }
    };
    if early.is_some() {
        kill(child.id());
    }
    let status = child.wait().context("cannot wait for the tests")?;
    kill(child.id());
    Ok(early.unwrap_or(if status.success() { Verdict::Missed } else { Verdict::Caught }))
}

fn kill(group: u32) {
    let _ = Command::new("kill").args(["-KILL", "--", &format!("-{group}")]).stderr(Stdio::null()).status();
}
