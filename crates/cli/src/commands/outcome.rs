//! The outcome of a task: its report, and its JSON as the service writes it.

use std::time::Duration;

use clap::Args;
use inferstore::types::{self, TaskStatus};
use inferstore::{Client, Error, Outcome, PollInterval, is_http};
use serde_json::{Value, json};

use super::outputs::Saved;
use crate::output::{Format, Report};
use crate::recorded::with_json;
use crate::settings::Session;
use crate::table::Table;
use crate::values::{self, behind_hash, stem_of};

#[derive(Debug, Clone, Args)]
pub(crate) struct WaitOptions {
    /// Wait at most so long, such as 90s, 5m or 1h30m
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) deadline: Option<Duration>,
    /// Cancel the task at the deadline if it is still in the queue
    #[arg(long, requires = "deadline")]
    pub(crate) cancel_at_deadline: bool,
    /// Interval at which the task is read: adaptive, fast (every 2 to 5 seconds), long (every 10 to 30 seconds),
    /// or every so many seconds
    #[arg(long, value_name = "INTERVAL", default_value = "adaptive", value_parser = values::poll_interval, hide_short_help = true)]
    pub(crate) poll: PollInterval,
}

/// The stem of the first stored file among inputs, without the random prefix of the uploads of a run.
pub(super) fn stem_of_inputs<'a>(inputs: impl IntoIterator<Item = &'a Value>) -> Option<String> {
    let stem = stem_of(inputs.into_iter().filter_map(Value::as_str).find(|text| is_http(text))?)?;
    let own = behind_hash(&stem).filter(|own| !own.is_empty());
    Some(own.unwrap_or(&stem).to_owned())
}

/// Reads the task that failed or was canceled as the service writes it, if JSON is written.
pub(crate) async fn ended_task(error: &Error, client: &Client, session: &Session) -> Option<String> {
    let is_ended = matches!(error, Error::TaskFailed(_) | Error::TaskCanceled(_));
    let task = error.task_id().filter(|_| is_ended && session.output.is_json())?;
    with_json(client.task(task).get()).await.ok().map(|(_, json)| json)
}

/// Returns the outcome of a run, in every format. JSON is the task as the service writes it, read once more.
pub(crate) async fn outcome_report(outcome: &Outcome, client: &Client, session: &Session) -> Report {
    let mut json = String::new();
    if session.output.is_json() {
        let read = with_json(client.task(&outcome.task).get()).await;
        // The run is paid, and its outcome is known without the record.
        let known = || {
            json!({
                "task_id": outcome.task,
                "status": TaskStatus::Success,
                "cost": outcome.cost,
                "result": { "result": outcome.output },
            })
        };
        json = read.map_or_else(|_| known().to_string(), |(_, json)| json);
    }
    let mut table = Table::of_fields([
        ("task", Some(outcome.task.to_string())),
        ("cost", outcome.cost.as_ref().map(ToString::to_string)),
    ]);
    for (name, value) in outputs(&outcome.output) {
        table.add([name, value]);
    }
    let mut quiet: Vec<String> = outcome.urls().map(|(_, url)| url.to_owned()).collect();
    if quiet.is_empty() {
        quiet = outputs(&outcome.output).into_iter().map(|(_, value)| value).collect();
    }
    Report { table, json, quiet, ..Report::default() }.of_type::<types::TaskDetail>()
}

/// The fields of an output; an output that has none is one itself.
pub(super) fn outputs(output: &Value) -> Vec<(String, String)> {
    match output {
        Value::Null => Vec::new(),
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), text(value))).collect(),
        other => vec![("output".to_owned(), text(other))],
    }
}

/// A text without quotes, anything else as JSON.
pub(super) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

pub(super) fn with_paths(report: &mut Report, saved: &[Saved], format: Format) {
    for (name, path) in saved {
        report.table.add([format!("{name} in"), path.display().to_string()]);
    }
    if format == Format::Quiet && !saved.is_empty() {
        report.quiet = saved.iter().map(|(_, path)| path.display().to_string()).collect();
    }
}
