//! A client as a process that is given work line by line, and what the system knows about it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// A backstop: no piece of work takes so long.
const SILENCE: Duration = Duration::from_secs(120);

pub(super) struct Consumer {
    process: Child,
    work: ChildStdin,
    answers: Receiver<String>,
}

/// How a piece of work went.
pub(super) struct Done {
    pub(super) is_ok: bool,
    /// The result, or why there is none.
    pub(super) told: String,
    pub(super) seconds: f64,
}

impl Consumer {
    /// Starts it, and waits until it has loaded what it needs.
    pub(super) fn start(command: &mut Command) -> Result<Self> {
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let work = process.stdin.take().context("a client has no input")?;
        let output = process.stdout.take().context("a client has no output")?;
        let (told, answers) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // Nobody listens when the work was given up.
                let _ = told.send(line);
            }
        });
        let consumer = Self { process, work, answers };
        let line = consumer.hear()?;
        ensure!(line == "ready", "a client is not ready but says {line}");
        Ok(consumer)
    }

    pub(super) fn done(&mut self, work: &str) -> Result<Done> {
        let began = Instant::now();
        writeln!(self.work, "{work}").context("a client takes no work")?;
        let line = self.hear()?;
        let seconds = began.elapsed().as_secs_f64();
        match line.split_once(' ') {
            Some(("ok", told)) => Ok(Done { is_ok: true, told: told.to_owned(), seconds }),
            Some(("failed", told)) => Ok(Done { is_ok: false, told: told.to_owned(), seconds }),
            _ => bail!("a client says {line:?} to {work:?}"),
        }
    }

    /// As [`done`](Self::done), where nothing can go wrong; returns the seconds.
    pub(super) fn succeeds(&mut self, work: &str) -> Result<f64> {
        let done = self.done(work)?;
        ensure!(done.is_ok, "{work}: {}", done.told);
        Ok(done.seconds)
    }

    fn hear(&self) -> Result<String> {
        self.answers.recv_timeout(SILENCE).context("a client says nothing")
    }

    /// The seconds that all its threads were on a processor.
    pub(super) fn processor_seconds(&self) -> Result<f64> {
        let mut seconds = 0.0;
        let tasks = format!("/proc/{}/task", self.process.id());
        for task in fs::read_dir(tasks).context("this needs Linux")? {
            // A thread may have ended meanwhile.
            let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
            let nanoseconds = text.split(' ').next().and_then(|word| word.parse().ok());
            seconds += Duration::from_nanos(nanoseconds.context("the system tells no time")?).as_secs_f64();
        }
        Ok(seconds)
    }

    /// The most memory that it has had, in MB.
    pub(super) fn most_megabytes(&self) -> Result<f64> {
        let status =
            fs::read_to_string(format!("/proc/{}/status", self.process.id())).context("this needs Linux")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kibibytes: Option<f64> = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        Ok(kibibytes.context("the system tells no memory")? * 1.024 / 1000.0)
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
