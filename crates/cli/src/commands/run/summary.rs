//! The summary of a batch: what became of each file, and the exit code.

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
use crate::output::Report;
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

/// Reports what became of each file, in their order, and the sum.
pub(super) fn report(ended: &mut [FileOutcome], total: usize, session: &Session) -> Result {
    ended.sort_by_key(|ended| ended.place);
    let ended = &*ended;
    let columns = [("FILE", Fit::Keep), ("STATUS", Fit::Keep), ("COST", Fit::Drop(1)), ("OUTPUT", Fit::Keep)];
    let mut table = if ended.is_empty() { Table::default() } else { Table::new(columns) };
    for ended in ended.iter().filter(|ended| !ended.is_repeated) {
        if let Some(failure) = &ended.failure {
            session.output.error_line(&failure.headline);
        }
    }
    // A batch may have very many files: they are made into one form.
    let (recorded, shown) = if session.output.is_json() { (ended, &[][..]) } else { (&[][..], ended) };
    for ended in shown {
        table.add([
            Cell::from(ended.file.as_str()),
            Cell::status(&ended.status.word()),
            Cell::from(ended.own_cost().map(ToString::to_string).unwrap_or_default()),
            Cell::from(ended.output_texts().join(" ")),
        ]);
    }
    let cost: Decimal = ended.iter().filter(|ended| !ended.was_done).filter_map(FileOutcome::own_cost).sum();
    let all = |status: Status| ended.iter().filter(move |ended| ended.status == status);
    let (succeeded, repeated) =
        (all(Status::Success), all(Status::Success).filter(|ended| ended.is_repeated));
    let earlier = all(Status::Success).filter(|ended| ended.was_done && !ended.is_repeated);
    let others = [
        (earlier.count(), "of them earlier"),
        (repeated.count(), "of them repeated rows"),
        (all(Status::NotSaved).count(), "not saved"),
        (all(Status::Unfinished).count(), "unfinished"),
    ];
    let others = others.iter().filter(|(count, _)| *count > 0);
    let others: String = others.map(|(count, what)| format!(", {count} {what}")).collect();
    let below = vec![format!("{} of {total} succeeded{others}; cost {cost}", succeeded.count())];
    let records: Vec<String> = recorded.iter().map(|ended| ended.record().to_string()).collect();
    let quiet = shown.iter().flat_map(FileOutcome::output_texts).collect();
    session.output.report_done(&Report { below, fields: &FIELDS, ..Report::of_list(table, records, quiet) })
}

/// The failure of the batch, with the tasks that may go on: JSON has them in its records.
pub(super) fn failure_of(ended: &[FileOutcome], code: u8, headline: String, hint: String) -> Failure {
    let data = ended.iter().flat_map(FileOutcome::tasks).collect();
    Failure { data, ..Failure::new(code, headline).with_hint(hint) }
}

/// The result of a batch that was not interrupted: with the exit code of its files if they have the same.
pub(super) fn result(ended: &[FileOutcome]) -> Result {
    let failures: Vec<(&Failure, Status)> =
        ended.iter().filter_map(|ended| Some((ended.failure.as_ref()?, ended.status))).collect();
    // Those that were not started have no cause of their own.
    let mut causes = failures.iter().filter(|(_, status)| *status != Status::NotStarted);
    let Some((first, _)) = causes.next().or(failures.first()) else { return Ok(()) };
    let is_the_same = causes.all(|(failure, _)| failure.code == first.code);
    // What says that nothing was created, or sent, is about that file.
    let is_untrue = first.code == exit::INPUT && ended.iter().any(|ended| ended.task.is_some());
    let code = if is_the_same && !is_untrue { first.code } else { exit::FAILED };
    let hint = first.hint.as_deref().map(|hint| hint.trim_end_matches("; nothing was sent"));
    let hint = hint.map(|hint| format!("{hint}. Then ")).unwrap_or_default();
    let hint = format!("{hint}the same command continues: {NAME} in the folder of -o has what is done");
    let open =
        failures.iter().filter(|(_, status)| matches!(status, Status::Unfinished | Status::Unknown)).count();
    let headline = match (failures.len() - open, open) {
        (failed, 0) => format!("{failed} of {} files failed", ended.len()),
        (0, open) => format!("{open} of {} files are unfinished", ended.len()),
        (failed, open) => format!("{failed} of {} files failed, and {open} are unfinished", ended.len()),
    };
    Err(failure_of(ended, code, headline, hint))
}
