//! The one place that writes: data to standard output in the format asked for, everything else to standard error.

use std::borrow::Cow;
use std::io::{self, ErrorKind, Write};
#[cfg(unix)]
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::builder::StyledStr;
use clap::{ColorChoice, ValueEnum};
use inferstore::types::TaskDetail;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
#[cfg(unix)]
use tokio::io::Interest;
#[cfg(unix)]
use tokio::net::unix::pipe::Sender;

use crate::environment::Environment;
use crate::exit;
use crate::failure::{Failure, Result};
use crate::fields;
use crate::json;
use crate::table::{Look, Table, painted, printable};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Table,
    /// The payload as the service wrote it; indented on a terminal
    Json,
    /// One JSON value a line: the records of a list
    Jsonl,
    /// The identifier or the URL alone
    Quiet,
}

#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) table: Table,
    pub(crate) below: Vec<String>,
    /// The payload as the service wrote it. Empty: the records are the payload.
    pub(crate) json: String,
    pub(crate) records: Option<Vec<String>>,
    /// The documented fields of the records or the payload, which may be left out.
    pub(crate) fields: &'static [&'static str],
    /// Identifiers or URLs, one a line.
    pub(crate) quiet: Vec<String>,
}

impl Report {
    pub(crate) fn of_one(table: Table, json: impl ToString, quiet: impl Into<String>) -> Self {
        Self { table, json: json.to_string(), quiet: vec![quiet.into()], ..Self::default() }
    }

    pub(crate) fn of_list(table: Table, records: Vec<String>, quiet: Vec<String>) -> Self {
        Self { table, records: Some(records), quiet, ..Self::default() }
    }

    fn payload(&self) -> Cow<'_, str> {
        match &self.records {
            Some(records) if self.json.is_empty() => format!("[{}]", records.join(",")).into(),
            _ => self.json.as_str().into(),
        }
    }

    /// The records, or the payload alone.
    fn records(&self) -> Cow<'_, [String]> {
        let whole = || (!self.json.is_empty()).then(|| self.json.clone()).into_iter().collect();
        self.records.as_deref().map_or_else(whole, Cow::Borrowed)
    }

    pub(crate) fn of_type<T: DeserializeOwned>(self) -> Self {
        Self { fields: fields::of::<T>(), ..self }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct OutputOptions {
    pub(crate) format: Format,
    /// The fields of JSON output; all if there are none.
    pub(crate) fields: Vec<String>,
    pub(crate) jq: Option<String>,
    pub(crate) color: ColorChoice,
    pub(crate) is_verbose: bool,
    /// Standard error gets errors alone.
    pub(crate) has_errors_alone: bool,
}

#[derive(Clone)]
pub(crate) struct Output {
    stdout: Arc<Mutex<Box<dyn Write + Send + Sync>>>,
    is_closed: Arc<AtomicBool>,
    stderr: Arc<Mutex<Box<dyn Write + Send + Sync>>>,
    pub(crate) options: OutputOptions,
    /// Standard error is a terminal that shows progress.
    pub(crate) is_live: bool,
    /// The terminal has no escape sequences.
    is_dumb: bool,
    stdout_look: Look,
    stderr_has_color: bool,
}

impl Output {
    pub(crate) fn new(environment: &mut Environment, options: OutputOptions) -> Self {
        let is_dumb = environment.variable("TERM") == Some("dumb");
        let is_forced = environment.variable("CLICOLOR_FORCE").is_some_and(|value| value != "0");
        let is_refused = environment.variable("NO_COLOR").is_some() || is_dumb;
        let has_color = |is_terminal: bool| match options.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            // On a terminal, unless NO_COLOR is set; everywhere if CLICOLOR_FORCE is set.
            ColorChoice::Auto => !is_refused && (is_terminal || is_forced),
        };
        let stdout_look = Look {
            width: environment.stdout_is_terminal.then_some(environment.width),
            has_color: has_color(environment.stdout_is_terminal),
            has_links: environment.stdout_is_terminal && has_color(true),
        };
        Self {
            is_live: environment.stderr_is_terminal && !is_dumb && !options.has_errors_alone,
            is_dumb,
            stdout_look,
            stderr_has_color: has_color(environment.stderr_is_terminal),
            is_closed: Arc::default(),
            stdout: Arc::new(Mutex::new(std::mem::replace(&mut environment.stdout, Box::new(io::sink())))),
            stderr: Arc::new(Mutex::new(std::mem::replace(&mut environment.stderr, Box::new(io::sink())))),
            options,
        }
    }

    /// Data, as they are. Nothing fails when their reader has read enough.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result {
        let mut stdout = self.stdout.lock();
        let Err(error) = stdout.write_all(bytes).and_then(|()| stdout.flush()) else { return Ok(()) };
        if error.kind() != ErrorKind::BrokenPipe {
            return Err(Failure::local_failure("standard output cannot be written", error));
        }
        self.is_closed.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Returns true when the reader of standard output has gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    pub(crate) fn data(&self, line: impl AsRef<str>) -> Result {
        self.bytes(format!("{}\n", line.as_ref()).as_bytes())
    }

    /// Clears the screen and goes to its first line, where a terminal shows a table.
    pub(crate) fn clear(&self) -> Result {
        match self.is_terminal() && !self.is_dumb && self.options.format == Format::Table {
            true => self.bytes(b"\x1b[2J\x1b[H"),
            false => Ok(()),
        }
    }

    /// A line beside the data, unless errors alone are written.
    pub(crate) fn note(&self, line: impl AsRef<str>) {
        if !self.options.has_errors_alone {
            self.error_line(line);
        }
    }

    /// A line of an error, without control characters: it may hold foreign text.
    pub(crate) fn error_line(&self, line: impl AsRef<str>) {
        self.to_stderr(&(printable(line.as_ref()) + "\n"));
    }

    pub(crate) fn note_table(&self, table: &Table) {
        let look = Look { has_color: self.stderr_has_color, has_links: false, ..self.stdout_look };
        self.to_stderr(&(table.draw(look) + "\n"));
    }

    /// A question beside the data; the response is typed on the same line.
    pub(crate) fn prompt(&self, question: &str) {
        self.to_stderr(&printable(question));
    }

    fn to_stderr(&self, text: &str) {
        let mut stderr = self.stderr.lock();
        // A closed standard error leaves nowhere to report to.
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    }

    /// Writes the report of something that was done, and may have been paid. Where the filter fails, all of it goes to
    /// standard error, and the code is not that of a wrong command line, which would say that nothing was sent.
    pub(crate) fn report_done(&self, report: &Report) -> Result {
        self.report_or(report, || {
            let report = match self.options.format {
                Format::Jsonl => report.records(),
                _ => vec![report.payload().into_owned()].into(),
            };
            report.iter().for_each(|json| self.unfiltered(json));
            Ok(())
        })
    }

    /// Writes the report of a new key, which is shown once. Where the filter fails, all of it goes to standard output:
    /// the log of a program often has standard error.
    pub(crate) fn report_key(&self, report: &Report) -> Result {
        self.report_or(report, || self.data(self.indented(&report.payload())))
    }

    /// Writes a report, and where the filter fails what `write_all` writes.
    fn report_or(&self, report: &Report, write_all: impl FnOnce() -> Result) -> Result {
        let Err(failure) = self.report(report) else { return Ok(()) };
        // Nothing was written.
        if failure.code == exit::USAGE {
            write_all()?;
        }
        Err(failure.with_code(exit::FAILED))
    }

    /// Writes JSON that a filter cannot use to standard error: nobody may lose what was paid.
    fn unfiltered(&self, json: &str) {
        json::indented(json, false).lines().for_each(|line| self.error_line(line));
    }

    /// Writes a report in the format that was asked for; nothing where the filter fails.
    pub(crate) fn report(&self, report: &Report) -> Result {
        match self.options.format {
            Format::Table => {
                let table = self.drawn(&report.table);
                let below = report.below.iter().map(|line| printable(line));
                let table = Some(table).filter(|table| !table.is_empty());
                table.into_iter().chain(below).try_for_each(|part| self.data(part))
            }
            Format::Json => {
                // A list may be very long.
                if let (Some(records), true) = (&report.records, report.json.is_empty() && self.is_raw()) {
                    self.bytes(b"[")?;
                    for (index, record) in records.iter().enumerate() {
                        self.bytes(if index == 0 { b"" } else { b"," })?;
                        self.bytes(record.as_bytes())?;
                    }
                    return self.bytes(b"]\n");
                }
                let json = match (self.has_fields(), &report.records) {
                    (false, _) => report.payload(),
                    (true, None) => self.selected(report)?.concat().into(),
                    (true, Some(_)) => format!("[{}]", self.selected(report)?.join(",")).into(),
                };
                if json.is_empty() {
                    return Ok(());
                }
                self.bytes(self.filtered(&json)?.as_bytes())
            }
            Format::Jsonl => {
                let line = |record: &String| match self.options.jq {
                    Some(_) => self.filtered(record),
                    None => Ok(self.line(json::on_one_line(record))),
                };
                let lines: String = self.selected(report)?.iter().map(line).collect::<Result<_>>()?;
                self.bytes(lines.as_bytes())
            }
            Format::Quiet => report.quiet.iter().try_for_each(|line| self.data(printable(line))),
        }
    }

    pub(crate) fn is_json(&self) -> bool {
        matches!(self.options.format, Format::Json | Format::Jsonl)
    }

    fn is_raw(&self) -> bool {
        !self.has_fields() && self.options.jq.is_none() && !self.is_terminal()
    }

    pub(crate) fn has_fields(&self) -> bool {
        !self.options.fields.is_empty()
    }

    /// Writes a response, filtered if asked. If the filter fails after a change, the response goes to standard error.
    pub(crate) fn response(&self, json: &str, is_read: bool) -> Result {
        match self.filtered(json) {
            Err(failure) if !is_read => {
                self.unfiltered(json);
                Err(failure.with_code(exit::FAILED))
            }
            lines => self.bytes(lines?.as_bytes()),
        }
    }

    fn filtered(&self, json: &str) -> Result<String> {
        let Some(expression) = &self.options.jq else { return Ok(self.indented(json) + "\n") };
        Ok(json::filtered(json, expression)?.into_iter().map(|value| self.line(value)).collect())
    }

    /// A line of data that are not changed unless a terminal shows them.
    fn line(&self, text: String) -> String {
        if self.is_terminal() { printable(&text) + "\n" } else { text + "\n" }
    }

    fn indented(&self, json: &str) -> String {
        match self.is_terminal() {
            true => json::indented(json, self.stdout_look.has_color),
            false => json.to_owned(),
        }
    }

    pub(crate) fn check_expression(&self) -> Result {
        self.options.jq.as_deref().map_or(Ok(()), |expression| json::compiled(expression).map(drop))
    }

    /// Fails when a field that was asked for is none of those that the report will have.
    pub(crate) fn check_fields(&self, documented: &[&str]) -> Result {
        json::check_fields(&self.options.fields, &documented.iter().copied().collect())
    }

    fn selected<'a>(&self, report: &'a Report) -> Result<Cow<'a, [String]>> {
        match self.has_fields() {
            true => json::select(&report.records(), &self.options.fields, report.fields).map(Cow::Owned),
            false => Ok(report.records()),
        }
    }

    pub(crate) fn help(&self, help: &StyledStr) -> Result {
        let text = if self.stdout_look.has_color { help.ansi().to_string() } else { help.to_string() };
        self.bytes(text.as_bytes())
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.stdout_look.width.is_some()
    }

    pub(crate) fn drawn(&self, table: &Table) -> String {
        table.draw(self.stdout_look)
    }

    pub(crate) fn emphasized(&self, text: &str) -> String {
        painted(text, "1", self.stdout_look.has_color)
    }

    pub(crate) fn failure(&self, failure: &Failure) {
        let label = |text: &str, style: &str| painted(text, style, self.stderr_has_color);
        let headline = failure.headline.replace('\n', "\n  ");
        self.to_stderr(&format!("{} {headline}\n", label("error:", "1;31")));
        if let Some(hint) = &failure.hint {
            self.to_stderr(&format!("{} {}\n", label("hint:", "1;36"), printable(hint)));
        }
        if self.options.is_verbose {
            for line in &failure.context {
                self.error_line(format!("  {line}"));
            }
        }
        // The failure is reported already.
        if !self.is_json() {
            for line in &failure.data {
                let _ = self.data(printable(line));
            }
        } else if let Some(json) = &failure.json {
            // Of a task whose fields are not known, they are null.
            let fields = if json.starts_with("{\"candidates\"") { &[] } else { fields::of::<TaskDetail>() };
            let _ = self.report_done(&Report { json: json.to_string(), fields, ..Report::default() });
        }
    }

    /// Reports several failures, and returns the last one as that of the command.
    pub(crate) fn failures(&self, mut failures: Vec<Failure>) -> Result {
        let Some(last) = failures.pop() else { return Ok(()) };
        for failure in &failures {
            self.failure(failure);
        }
        Err(last)
    }

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

/// Ends when the reader of the standard output of this process has gone. Without it, only a write shows that.
pub(crate) async fn closed() {
    #[cfg(unix)]
    {
        let stdout = io::stdout().as_fd().try_clone_to_owned().and_then(Sender::from_owned_fd_unchecked);
        if let Ok(stdout) = stdout
            && stdout.ready(Interest::ERROR).await.is_ok()
        {
            return;
        }
    }
    // A file has no reader, and other systems do not tell.
    std::future::pending::<()>().await;
}
