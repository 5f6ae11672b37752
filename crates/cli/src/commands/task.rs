//! `inferstore task`.

use clap::{Args, Subcommand};
use inferstore::types::{self, TaskStatus};
use inferstore::{Client, PollInterval};
use std::time::Duration;

use serde_json::value::RawValue;

use crate::failure::Result;
use crate::lists::{self, Listed};
use crate::output::Report;
use crate::progress::{Progress, watch};
use crate::settings::Session;
use crate::table::Table;
use crate::values;

/// Look at tasks, wait for them, cancel them
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show a task
    #[command(after_help = "Examples:\n  inferstore task show ID\n  inferstore task show ID --format json")]
    Show(OneTask),
    /// Wait until a task has ended
    Wait(WaitArguments),
    /// Cancel a task that is still in the queue; it is not billed
    #[command(after_help = "Examples:\n  inferstore task cancel ID")]
    Cancel(OneTask),
    /// List the tasks of the account, oldest first
    List(ListArguments),
}

/// One task.
#[derive(Debug, Args)]
pub(crate) struct OneTask {
    /// The identifier of the task
    id: String,
}

/// Wait until a task has ended
///
/// The exit code says how: 0 success, 6 failed, 7 canceled, 8 not in time.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  inferstore task wait ID --deadline 10m")]
pub(crate) struct WaitArguments {
    /// The identifier of the task
    id: String,
    /// Wait at most so long, such as 90s, 5m or 1h30m
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    deadline: Option<Duration>,
    /// Cancel the task at the deadline if it is still in the queue
    #[arg(long, requires = "deadline")]
    cancel_at_deadline: bool,
    /// How often the task is read: adaptive, fast (every 2 to 5 seconds), long (every 10 to 30 seconds),
    /// or every so many seconds
    #[arg(long, value_name = "INTERVAL", default_value = "adaptive", value_parser = values::poll_interval)]
    poll: PollInterval,
}

/// List the tasks of the account, oldest first
#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
pub(crate) struct ListArguments {
    /// How many tasks to show
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// How many tasks to skip
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "newest")]
    offset: u64,
    /// Show the newest tasks instead of the oldest, still in their order
    #[arg(long)]
    newest: bool,
    /// Show all tasks, page after page
    #[arg(long, conflicts_with_all = ["newest", "limit"])]
    all: bool,
    /// Only tasks with this status, such as in_queue, computing, success, failed or canceled; reads the
    /// whole history
    #[arg(long, value_name = "STATUS", conflicts_with = "newest")]
    status: Option<String>,
    /// Only tasks of this model; reads the whole history
    #[arg(long, value_name = "ID", conflicts_with = "newest")]
    model: Option<String>,
}

const LIST_EXAMPLES: &str = "\
Examples:
  inferstore task list --newest
  inferstore task list --status failed --limit 100
  inferstore task list --all --format jsonl";

/// The most that the service returns at once.
const PAGE: u32 = 100;

pub(crate) async fn execute(command: Command, session: &Session) -> Result {
    let client = &session.client()?;
    match command {
        Command::Show(task) => show(&task.id, client, session).await,
        Command::Wait(arguments) => wait(arguments, client, session).await,
        Command::Cancel(task) => cancel(&task.id, client, session).await,
        Command::List(arguments) => list(arguments, client, session).await,
    }
}

async fn show(id: &str, client: &Client, session: &Session) -> Result {
    let task = client.task(id).get().await?;
    let result = task.result.clone().unwrap_or_default();
    let mut table = Table::of_fields([
        ("task", Some(task.task_id.to_string())),
        ("status", task.status.as_ref().map(ToString::to_string)),
        ("cost", cost(&task)),
        ("message", task.message.clone()),
        ("error", result.error.filter(|error| !error.is_null()).map(|error| error.to_string())),
        ("created", task.created_at.as_ref().map(|stamp| stamp.as_str().to_owned())),
        ("updated", task.updated_at.as_ref().map(|stamp| stamp.as_str().to_owned())),
    ]);
    for (name, value) in task.input_data.iter().flatten() {
        table.add([format!("in {name}"), text(value)]);
    }
    for (name, value) in outputs(&result.result.unwrap_or_default()) {
        table.add([format!("out {name}"), value]);
    }
    session.output.report(&Report::of_one(table, session.payload(), task.task_id.to_string()))
}

/// A cost has a meaning only for a success.
fn cost(task: &types::TaskDetail) -> Option<String> {
    task.cost.as_ref().filter(|_| task.status == Some(TaskStatus::Success)).map(ToString::to_string)
}

async fn wait(arguments: WaitArguments, client: &Client, session: &Session) -> Result {
    let WaitArguments { id, deadline, cancel_at_deadline, poll } = arguments;
    let mut progress = Progress::new(&session.output);
    progress.state("task", &format!("waiting for {id}"));
    let wait = client.task(id).wait().deadline(deadline).cancel_at_deadline(cancel_at_deadline).poll(poll);
    let outcome = watch(wait.events(), |event| progress.run(event)).await;
    progress.end();
    session.output.report(&outcome_report(&outcome?, session.payload()))
}

/// What a run returned, in every format.
pub(crate) fn outcome_report(outcome: &inferstore::Outcome, payload: Option<Box<RawValue>>) -> Report {
    let mut table = Table::of_fields([
        ("task", Some(outcome.task.to_string())),
        ("cost", outcome.cost.as_ref().map(ToString::to_string)),
    ]);
    for (name, value) in outputs(&outcome.output) {
        table.add([name, value]);
    }
    let urls: Vec<String> = outcome.urls().map(|(_, url)| url.to_owned()).collect();
    let quiet = if urls.is_empty() {
        outputs(&outcome.output).into_iter().map(|(_, value)| value).collect()
    } else {
        urls
    };
    let json = payload.map(|payload| payload.to_string()).unwrap_or_default();
    Report { table, json, quiet, ..Report::default() }
}

/// The fields of an output; an output that has none is one itself.
fn outputs(output: &serde_json::Value) -> Vec<(String, String)> {
    match output {
        serde_json::Value::Null => Vec::new(),
        serde_json::Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), text(value))).collect()
        }
        other => vec![("output".to_owned(), text(other))],
    }
}

/// A text without quotes, anything else as JSON.
fn text(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

async fn cancel(id: &str, client: &Client, session: &Session) -> Result {
    client.task(id).cancel().await?;
    session.output.note(format!("task {id} is canceled and is not billed"));
    session.output.report(&Report { quiet: vec![id.to_owned()], ..Report::default() })
}

async fn list(arguments: ListArguments, client: &Client, session: &Session) -> Result {
    let ListArguments { limit, mut offset, newest, all, status, model } = arguments;
    let tasks = &client.tasks();
    if newest {
        let total = tasks.page(1, 0).await?.total.unwrap_or(0);
        offset = total.saturating_sub(u64::from(limit));
    }
    let is_filtered = status.is_some() || model.is_some();
    let mut listed = if all || is_filtered || limit > PAGE {
        lists::all(session, offset, |offset, _| tasks.page(PAGE, offset)).await?
    } else {
        lists::page(session, tasks.page(limit, offset)).await?
    };
    if is_filtered || (limit > PAGE && !all) {
        let fits = |task: &types::TaskRecord| {
            status.as_ref().is_none_or(|status| task.status.as_ref().is_some_and(|s| s.as_str() == status))
                && model.as_ref().is_none_or(|model| task.model_id.as_ref() == Some(model))
        };
        let most = if all { usize::MAX } else { usize::try_from(limit).unwrap_or(usize::MAX) };
        listed.keep(fits, most);
    }
    let table = history(&listed);
    session.output.report(&listed.report("records", table, |task| task.task_id.to_string()))
}

fn history(listed: &Listed<types::TaskRecord>) -> Table {
    let mut table = Table::new(["TASK", "STATUS", "MODEL", "COST", "CREATED"]);
    for (task, _) in &listed.records {
        let cost = task.cost.as_ref().filter(|_| task.status == Some(TaskStatus::Success));
        table.add([
            task.task_id.to_string(),
            task.status.as_ref().map(ToString::to_string).unwrap_or_default(),
            task.model_id.clone().unwrap_or_default(),
            cost.map(ToString::to_string).unwrap_or_default(),
            task.created_at.as_ref().map(|stamp| stamp.as_str().to_owned()).unwrap_or_default(),
        ]);
    }
    table
}
