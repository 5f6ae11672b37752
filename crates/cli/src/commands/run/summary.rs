//! The summary of a batch: what became of each file, and the exit code.

use std::collections::BTreeMap;
use std::path::PathBuf;

use inferstore::Decimal;
use inferstore::types::TaskId;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::journal::NAME;
use crate::commands::outcome;
use crate::exit;
use crate::failure::{Failure, Result};
use crate::output::{Format, Report};
use crate::settings::Session;
use crate::table::{Cell, Fit, Table};

/// The fields of the record of a file.
pub(super) const FIELDS: [&str; 8] =
    ["candidates", "cost", "error", "file", "output", "outputs", "status", "task"];

/// Status of a file of a batch. The words are a promise to scripts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::commands) enum Status {
    /// Nothing was sent.
    #[default]
    NotStarted,
    /// A task may exist.
    Unknown,
    /// The task goes on.
    Unfinished,
    Success,
    /// The task succeeded, and its outputs are not here.
    NotSaved,
    Failed,
    Canceled,
}

impl Status {
    fn word(self) -> String {
        outcome::text(&json!(self))
    }
}

/// A file of a batch, as far as it came.
#[derive(Debug, Clone, Default)]
pub(in crate::commands) struct FileOutcome {
    pub(in crate::commands) place: usize,
    pub(in crate::commands) file: String,
    pub(in crate::commands) status: Status,
    pub(in crate::commands) task: Option<TaskId>,
    /// Of a task that succeeded.
    pub(in crate::commands) cost: Option<Decimal>,
    /// As text, for its memory.
    pub(in crate::commands) output: Box<RawValue>,
    pub(in crate::commands) outputs: Vec<PathBuf>,
    /// Paid by an earlier start.
    pub(in crate::commands) was_done: bool,
    /// The outcome of another row with the same inputs: nothing was run for this one.
    pub(in crate::commands) is_repeated: bool,
    pub(in crate::commands) failure: Option<Failure>,
}

impl FileOutcome {
    /// Returns the paths of the outputs or, of a task that succeeded without files, the values of its outputs.
    fn output_texts(&self) -> Vec<String> {
        if !self.outputs.is_empty() {
            return self.paths();
        }
        let output = serde_json::from_str(self.output.get()).unwrap_or_default();
        match (self.status, &*outcome::outputs(&output)) {
            (Status::Success, [(_, value)]) => vec![value.clone()],
            (Status::Success, values) => {
                values.iter().map(|(name, value)| format!("{name}={value}")).collect()
            }
            _ => Vec::new(),
        }
    }

    fn paths(&self) -> Vec<String> {
        self.outputs.iter().map(|path| path.display().to_string()).collect()
    }

    fn record(&self) -> Value {
        let mut record = json!({
            "file": self.file,
            "status": self.status,
            "task": self.task,
            "cost": self.own_cost().map(ToString::to_string),
            "outputs": self.paths(),
            "output": self.output,
            "error": self.failure.as_ref().map(|failure| &failure.headline),
        });
        if self.status == Status::Unknown {
            record["candidates"] = self.tasks().into();
        }
        record
    }

    /// The cost, unless another row has it.
    fn own_cost(&self) -> Option<&Decimal> {
        self.cost.as_ref().filter(|_| !self.is_repeated)
    }

    /// The tasks that may go on.
    fn tasks(&self) -> Vec<String> {
        match self.status {
            _ if self.is_repeated => Vec::new(),
            Status::Unfinished => self.task.iter().map(ToString::to_string).collect(),
            Status::Unknown => self.failure.iter().flat_map(|failure| failure.data.clone()).collect(),
            _ => Vec::new(),
        }
    }
}

/// Summary of a batch. Files that are done are kept as they are reported, for their memory.
#[derive(Default)]
pub(super) struct Summary {
    /// The texts of each file in the format of the report.
    lines: BTreeMap<usize, Vec<String>>,
    open: BTreeMap<usize, FileOutcome>,
    cost: Decimal,
    /// Numbers of files that succeeded: all, at earlier starts, and as repeated rows.
    succeeded: usize,
    earlier: usize,
    repeated: usize,
}

impl Summary {
    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    pub(super) fn add(&mut self, ended: FileOutcome, session: &Session) {
        let lines = match session.output.options.format {
            Format::Json | Format::Jsonl => vec![ended.record().to_string()],
            Format::Quiet => ended.output_texts(),
            Format::Table => {
                let cost = ended.own_cost().map(ToString::to_string).unwrap_or_default();
                vec![ended.file.clone(), ended.status.word(), cost, ended.output_texts().join(" ")]
            }
        };
        self.lines.insert(ended.place, lines);
        if !ended.was_done {
            self.cost += ended.own_cost().cloned().unwrap_or_default();
        }
        if ended.status == Status::Success {
            self.succeeded += 1;
            self.repeated += usize::from(ended.is_repeated);
            self.earlier += usize::from(ended.was_done && !ended.is_repeated);
        }
        if ended.status != Status::Success || ended.failure.is_some() {
            self.open.insert(ended.place, ended);
        }
    }

    pub(super) fn report(&mut self, total: usize, session: &Session) -> Result {
        for ended in self.open.values().filter(|ended| !ended.is_repeated) {
            if let Some(failure) = &ended.failure {
                session.output.error_line(&failure.headline);
            }
        }
        let count = |status: Status| self.open.values().filter(|ended| ended.status == status).count();
        let others = [
            (self.earlier, "of them earlier"),
            (self.repeated, "of them repeated rows"),
            (count(Status::NotSaved), "not saved"),
            (count(Status::Unfinished), "unfinished"),
        ];
        let others = others.iter().filter(|(count, _)| *count > 0);
        let others: String = others.map(|(count, what)| format!(", {count} {what}")).collect();
        let below = vec![format!("{} of {total} succeeded{others}; cost {}", self.succeeded, self.cost)];
        let columns =
            [("FILE", Fit::Keep), ("STATUS", Fit::Keep), ("COST", Fit::Drop(1)), ("OUTPUT", Fit::Keep)];
        let mut table = if self.lines.is_empty() { Table::default() } else { Table::new(columns) };
        let mut texts = Vec::new();
        for (_, lines) in std::mem::take(&mut self.lines) {
            match (session.output.options.format, <[String; 4]>::try_from(lines)) {
                (Format::Table, Ok([file, status, cost, output])) => {
                    table.add([
                        Cell::from(file),
                        Cell::status(&status),
                        Cell::from(cost),
                        Cell::from(output),
                    ]);
                }
                (_, Ok(lines)) => texts.extend(lines),
                (_, Err(lines)) => texts.extend(lines),
            }
        }
        let report = match session.output.is_json() {
            true => Report::of_list(table, texts, Vec::new()),
            false => Report::of_list(table, Vec::new(), texts),
        };
        session.output.report_done(&Report { below, fields: &FIELDS, ..report })
    }

    /// The failure of the batch, with the tasks that may go on: JSON has them in its records.
    pub(super) fn failure(&self, code: u8, headline: String, hint: String) -> Failure {
        let data = self.open.values().flat_map(FileOutcome::tasks).collect();
        Failure { data, ..Failure::new(code, headline).with_hint(hint) }
    }

    /// The result of a batch that was not interrupted: with the exit code of its files if they have the same.
    pub(super) fn result(&self, total: usize) -> Result {
        let failures: Vec<(&Failure, Status)> =
            self.open.values().filter_map(|ended| Some((ended.failure.as_ref()?, ended.status))).collect();
        // Those that were not started have no cause of their own.
        let mut causes = failures.iter().filter(|(_, status)| *status != Status::NotStarted);
        let Some((first, _)) = causes.next().or(failures.first()) else { return Ok(()) };
        let is_the_same = causes.all(|(failure, _)| failure.code == first.code);
        // What says that nothing was created, or sent, is about that file.
        let has_task = self.succeeded > 0 || self.open.values().any(|ended| ended.task.is_some());
        let is_untrue = first.code == exit::INPUT && has_task;
        let code = if is_the_same && !is_untrue { first.code } else { exit::FAILED };
        let hint = first.hint.as_deref().map(|hint| hint.trim_end_matches("; nothing was sent"));
        let hint = hint.map(|hint| format!("{hint}. Then ")).unwrap_or_default();
        let hint = format!("{hint}the same command continues: {NAME} in the folder of -o has what is done");
        let is_open =
            |(_, status): &&(&Failure, Status)| matches!(status, Status::Unfinished | Status::Unknown);
        let open = failures.iter().filter(is_open).count();
        let headline = match (failures.len() - open, open) {
            (failed, 0) => format!("{failed} of {total} files failed"),
            (0, open) => format!("{open} of {total} files are unfinished"),
            (failed, open) => format!("{failed} of {total} files failed, and {open} are unfinished"),
        };
        Err(self.failure(code, headline, hint))
    }
}
