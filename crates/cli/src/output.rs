//! The one place that writes: data to standard output in the format that was asked for, everything else
//! to standard error.

use std::io::{self, ErrorKind, Write};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use clap::ValueEnum;
use serde_json::value::RawValue;

use crate::environment::Environment;
use crate::exit;
use crate::failure::{Failure, Result};
use crate::table::{Look, Table, painted, printable};

/// How data are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Table,
    /// The payload exactly as the service wrote it
    Json,
    /// One JSON value a line: the records of a list
    Jsonl,
    /// The identifier or the URL alone
    Quiet,
}

/// What a command has to tell, in every format.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// For people.
    pub(crate) table: Table,
    /// What stands below the table, for people.
    pub(crate) below: Option<String>,
    /// The payload as the service wrote it.
    pub(crate) json: String,
    /// The records, if it is a list.
    pub(crate) records: Option<Vec<String>>,
    /// Identifiers or URLs, one a line.
    pub(crate) quiet: Vec<String>,
}

impl Report {
    /// Of one thing.
    pub(crate) fn of_one(table: Table, payload: Option<Box<RawValue>>, quiet: impl Into<String>) -> Self {
        let json = payload.map(|payload| payload.to_string()).unwrap_or_default();
        Self { table, json, quiet: vec![quiet.into()], ..Self::default() }
    }
}

/// Where a command writes.
#[derive(Clone)]
pub(crate) struct Output {
    stdout: Arc<Mutex<Box<dyn Write + Send + Sync>>>,
    stderr: Arc<Mutex<Box<dyn Write + Send + Sync>>>,
    pub(crate) format: Format,
    pub(crate) is_verbose: bool,
    /// Whether a person sees what goes to standard error as it comes.
    pub(crate) is_live: bool,
    stdout_look: Look,
    stderr_has_color: bool,
}

impl Output {
    pub(crate) fn new(environment: &mut Environment, format: Format, is_verbose: bool) -> Self {
        let may_color =
            environment.variable("NO_COLOR").is_none() && environment.variable("TERM") != Some("dumb");
        let width = environment.stdout_is_terminal.then_some(environment.width);
        Self {
            stdout: Arc::new(Mutex::new(std::mem::replace(&mut environment.stdout, Box::new(io::sink())))),
            stderr: Arc::new(Mutex::new(std::mem::replace(&mut environment.stderr, Box::new(io::sink())))),
            format,
            is_verbose,
            is_live: environment.stderr_is_terminal && environment.variable("TERM") != Some("dumb"),
            stdout_look: Look { width, has_color: may_color && environment.stdout_is_terminal },
            stderr_has_color: may_color && environment.stderr_is_terminal,
        }
    }

    /// Data, as they are.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result {
        let mut stdout = self.stdout.lock().unwrap_or_else(PoisonError::into_inner);
        match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
            // Whoever reads has read enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(Failure::local_failure("standard output cannot be written", error)),
            Ok(()) => Ok(()),
        }
    }

    /// A line of data.
    pub(crate) fn data(&self, line: impl AsRef<str>) -> Result {
        self.bytes(format!("{}\n", line.as_ref()).as_bytes())
    }

    /// A line beside the data.
    pub(crate) fn note(&self, line: impl AsRef<str>) {
        let mut stderr = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        // There is nobody left to tell when standard error is closed.
        let _ = writeln!(stderr, "{}", line.as_ref()).and_then(|()| stderr.flush());
    }

    /// What a command has to tell, in the format that was asked for.
    pub(crate) fn report(&self, report: &Report) -> Result {
        match self.format {
            Format::Table => {
                let table = self.drawn(&report.table);
                for part in [Some(&table), report.below.as_ref()].into_iter().flatten() {
                    if !part.is_empty() {
                        self.data(part)?;
                    }
                }
            }
            Format::Json if !report.json.is_empty() => self.data(&report.json)?,
            Format::Json => {}
            Format::Jsonl => {
                let whole = (!report.json.is_empty()).then(|| report.json.clone());
                for record in report.records.clone().unwrap_or_else(|| whole.into_iter().collect()) {
                    self.data(on_one_line(&record))?;
                }
            }
            Format::Quiet => {
                for line in &report.quiet {
                    self.data(printable(line))?;
                }
            }
        }
        Ok(())
    }

    /// A table as it is drawn here.
    pub(crate) fn drawn(&self, table: &Table) -> String {
        table.draw(self.stdout_look)
    }

    /// The same words, emphasized where that is possible.
    pub(crate) fn emphasized(&self, text: &str) -> String {
        painted(text, "1", self.stdout_look.has_color)
    }

    /// What failed, what to try, and on demand what is known besides.
    pub(crate) fn failure(&self, failure: &Failure) {
        let label = |text: &str, style: &str| painted(text, style, self.stderr_has_color);
        let headline: Vec<String> = failure.headline.lines().map(printable).collect();
        self.note(format!("{} {}", label("error:", "1;31"), headline.join("\n  ")));
        if let Some(hint) = &failure.hint {
            self.note(format!("{} {}", label("hint:", "1;36"), printable(hint)));
        }
        if self.is_verbose {
            for line in &failure.context {
                self.note(format!("  {}", printable(line)));
            }
        }
        for line in &failure.data {
            // The failure is told already; that it cannot be told twice changes nothing.
            let _ = self.data(printable(line));
        }
    }

    /// Ends what was begun, and tells the exit code.
    pub(crate) fn end(&self, result: Result) -> u8 {
        match result {
            Ok(()) => exit::DONE,
            Err(failure) => {
                self.failure(&failure);
                failure.code
            }
        }
    }
}

/// What a download goes into.
impl tokio::io::AsyncWrite for Output {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = self.stdout.lock().unwrap_or_else(PoisonError::into_inner).write_all(bytes);
        Poll::Ready(written.map(|()| bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.stdout.lock().unwrap_or_else(PoisonError::into_inner).flush())
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}

/// JSON without the white space between its values, so that it fits on a line.
pub(crate) fn on_one_line(json: &str) -> String {
    let (mut is_text, mut is_escaped) = (false, false);
    json.chars()
        .filter(|c| {
            if is_text {
                is_text = *c != '"' || is_escaped;
                is_escaped = *c == '\\' && !is_escaped;
                return true;
            }
            is_text = *c == '"';
            !c.is_ascii_whitespace()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::on_one_line;

    #[test]
    fn a_record_goes_onto_one_line_and_keeps_its_texts() {
        let json = "{\n  \"a b\": 1.50,\n  \"c\": \"x \\\" y\\\\\", \"d\": [ ]\n}";
        assert_eq!(on_one_line(json), r#"{"a b":1.50,"c":"x \" y\\","d":[]}"#);
    }
}
