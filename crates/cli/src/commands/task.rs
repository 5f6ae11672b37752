//! `inferstore task`.

pub(super) mod identifier;

use std::time::{Duration, SystemTime};

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use inferstore::types::{self, TaskStatus};
use inferstore::{Client, Decimal, Timestamp};

use tokio::time::timeout;

use super::models;
use super::outcome::{self, WaitOptions, ended_task, outcome_report, stem_of_inputs, text, with_paths};
use super::outputs::{OutputArguments, TemplateVariables, make_folder};
use super::run::{self, RunOptions};
use super::signals::interruptible;
use crate::complete;
use crate::failure::{Failure, Result};
use crate::fields;
use crate::lists::{self, Fits};
use crate::output::{Report, closed};
use crate::progress::{Progress, watch};
use crate::recorded::with_json;
use crate::settings::Session;
use crate::table::{Cell, Fit, Table, printable};
use crate::time;
use crate::values;
use identifier::identified;

const WATCH_INTERVAL: Duration = Duration::from_secs(2);

const LOG_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the tasks of the account, newest first
    #[command(visible_alias = "ls")]
    List(ListArguments),
    /// Show a task; with -o, download its outputs
    #[command(
        after_help = "Examples:\n  inferstore task show @last\n  inferstore task show ID -o out.png\n  inferstore task show ID --json=status,cost"
    )]
    Show {
        #[command(flatten)]
        task: OneTask,
        #[command(flatten)]
        outputs: OutputArguments,
    },
    /// Wait until a task has ended
    ///
    /// The exit code says how: 0 success, 6 failed, 7 canceled, 8 not in time.
    #[command(
        after_help = "Examples:\n  inferstore task wait @last --deadline 10m\n  inferstore task wait ID -o outputs/"
    )]
    Wait {
        #[command(flatten)]
        task: OneTask,
        #[command(flatten)]
        wait: WaitOptions,
        #[command(flatten)]
        outputs: OutputArguments,
    },
    /// Cancel tasks that are still in the queue; they are not billed
    #[command(
        after_help = "Examples:\n  inferstore task cancel @last\n  inferstore task list --status in_queue -q | xargs inferstore task cancel"
    )]
    Cancel {
        /// The identifiers of the tasks, their beginnings or ends, or @last
        #[arg(required = true, value_name = "TASK", add = complete::tasks())]
        ids: Vec<String>,
    },
    /// Print the log of a task: the standard error of its model, on a node outside of the service
    #[command(after_help = "Examples:\n  inferstore task logs @last\n  inferstore task logs @last --follow")]
    Logs {
        #[command(flatten)]
        task: OneTask,
        /// Print new lines until the task has ended
        #[arg(short, long)]
        follow: bool,
    },
    /// Run the model of a task again, with the same inputs
    #[command(
        after_help = "Examples:\n  inferstore task rerun @last\n  inferstore task rerun ID angle=45 -o again.png"
    )]
    Rerun {
        #[command(flatten)]
        task: OneTask,
        #[command(flatten)]
        run: Box<RunOptions>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct OneTask {
    /// The identifier of the task, its beginning or its end, or @last
    #[arg(value_name = "TASK", add = complete::tasks())]
    id: String,
}

#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
pub(crate) struct ListArguments {
    /// Number of tasks to show
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Number of tasks to skip
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: u64,
    /// Show all tasks
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Only tasks with this status
    #[arg(long, value_name = "STATUS", value_parser = PossibleValuesParser::new(TaskStatus::KNOWN.iter().map(TaskStatus::as_str)))]
    status: Option<String>,
    /// Only tasks of this model
    #[arg(long, value_name = "MODEL", add = complete::models())]
    model: Option<String>,
    /// Only tasks that were created within this time, such as 90m or 24h
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    since: Option<Duration>,
    /// Only tasks with this text in their identifier or model, in any case
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// Show the list again every 2 seconds, until Ctrl-C
    #[arg(short, long)]
    watch: bool,
}

const LIST_EXAMPLES: &str = "\
Examples:
  inferstore task list
  inferstore task list --status failed --since 24h
  inferstore task list --all --format jsonl
  inferstore task list --json=task_id,status --jq '.[].task_id'";

pub(crate) async fn execute(command: Command, session: Session) -> Result {
    let client = &session.client()?;
    match command {
        Command::Show { task, outputs } => show(&task.id, &outputs, client, &session).await,
        Command::Wait { task, wait, outputs } => wait_for(&task.id, wait, &outputs, client, &session).await,
        Command::Cancel { ids } => cancel(&ids, client, &session).await,
        Command::List(arguments) if arguments.watch => watch_list(&arguments, client, &session).await,
        Command::List(arguments) => session.output.report(&list(&arguments, client).await?),
        Command::Logs { task, follow } => logs(&task.id, follow, client, &session).await,
        Command::Rerun { task, run } => rerun(&task.id, *run, session).await,
    }
}

async fn show(named: &str, outputs: &OutputArguments, client: &Client, session: &Session) -> Result {
    let delivery = outputs.check(make_folder, None, session)?;
    let id = identified(named, client).await?;
    let (task, json) = with_json(client.task(id).get()).await?;
    let result = task.result.clone().unwrap_or_default();
    let error = result.error.as_ref().filter(|error| !error.is_null());
    let message = task.message.clone().filter(|message| !message.is_empty());
    // A detail that only repeats the message adds nothing.
    let error = error.filter(|error| message.as_deref() != error["message"].as_str().or(error.as_str()));
    let output = result.result.unwrap_or_default();
    let mut table = Table::of_fields([
        ("task", Some(Cell::from(task.task_id.as_str()))),
        ("status", task.status.as_ref().map(|status| Cell::status(status.as_str()))),
        ("cost", cost(task.cost.as_ref(), task.status.as_ref()).map(Cell::from)),
        ("message", message.map(Cell::from)),
        ("error", error.map(|error| Cell::from(text(error)))),
        ("created", time::stamp(task.created_at.as_ref())),
        ("updated", time::stamp(task.updated_at.as_ref())),
    ]);
    for (name, value) in task.input_data.iter().flatten() {
        table.add([format!("in {name}"), text(value)]);
    }
    for (name, value) in outcome::outputs(&output) {
        table.add([format!("out {name}"), value]);
    }
    let mut report = Report::of_one(table, json, task.task_id.to_string()).of_type::<types::TaskDetail>();
    if outputs.is_used() && task.status == Some(TaskStatus::Success) {
        let outcome = client.task(task.task_id.as_str()).wait().await?;
        let names = names_of(&task, client).await?;
        let saved = interruptible(delivery.deliver(&outcome, &names, session)).await?;
        with_paths(&mut report, &saved, session.output.options.format);
        if delivery.is_stdout() {
            return Ok(());
        }
    } else if outputs.is_used() {
        session.note("the task has no outputs");
    }
    session.output.report(&report)
}

/// A cost has a meaning only for a success.
fn cost(cost: Option<&Decimal>, status: Option<&TaskStatus>) -> Option<String> {
    cost.filter(|_| status == Some(&TaskStatus::Success)).map(ToString::to_string)
}

/// Returns the names of outputs: the first input that is a URL of a file, without its extension, and the model.
async fn names_of(task: &types::TaskDetail, client: &Client) -> Result<TemplateVariables> {
    let inputs = task.input_data.iter().flatten().map(|(_, value)| value);
    let model = identifier::model_of(task.task_id.as_str(), client).await?;
    Ok(TemplateVariables { input: stem_of_inputs(inputs), model })
}

async fn wait_for(
    named: &str,
    options: WaitOptions,
    outputs: &OutputArguments,
    client: &Client,
    session: &Session,
) -> Result {
    session.output.check_fields(fields::of::<types::TaskDetail>())?;
    let delivery = outputs.check(make_folder, None, session)?;
    let id = identified(named, client).await?;
    let WaitOptions { deadline, cancel_at_deadline, poll } = options;
    let mut progress = Progress::new(&session.output);
    progress.state("task", &format!("waiting for {id}"));
    let wait = client.task(id).wait().deadline(deadline).cancel_at_deadline(cancel_at_deadline).poll(poll);
    let outcome = watch(wait.events(), |event| progress.run(event)).await;
    progress.end();
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            let task = ended_task(&error, client, session).await;
            return Err(Failure::from(error).with_json(task));
        }
    };
    let mut report = outcome_report(&outcome, client, session).await;
    let mut names = TemplateVariables::default();
    if outputs.is_used() {
        names = names_of(&client.task(outcome.task.clone()).get().await?, client).await?;
    }
    let saved = interruptible(delivery.deliver(&outcome, &names, session)).await;
    if !delivery.is_stdout() {
        with_paths(&mut report, saved.as_deref().unwrap_or_default(), session.output.options.format);
        session.output.report(&report)?;
    }
    saved.map(drop)
}

async fn cancel(named: &[String], client: &Client, session: &Session) -> Result {
    let mut ids = Vec::new();
    for named in named {
        ids.push(identified(named, client).await?);
    }
    let mut canceled = Vec::new();
    let mut failures = Vec::new();
    for id in ids {
        match client.task(id.as_str()).cancel().await {
            Ok(()) => {
                session.note(format!("task {id} is canceled and is not billed"));
                canceled.push(id);
            }
            // The other tasks are canceled nevertheless.
            Err(error) => failures.push(Failure::from(error)),
        }
    }
    session.output.report(&Report { quiet: canceled, ..Report::default() })?;
    session.output.failures(failures)
}

async fn logs(named: &str, follow: bool, client: &Client, session: &Session) -> Result {
    let task = client.task(identified(named, client).await?);
    let (mut shown, mut attempt) = (0, None);
    loop {
        // The log of a task that has ended is complete.
        let has_ended = !follow || task.poll().await?.outcome.is_some();
        let (log, json) = with_json(task.logs()).await?;
        let (text, offset) = (log.text.unwrap_or_default(), log.offset.unwrap_or_default());
        let offset = usize::try_from(offset).unwrap_or_default();
        let end = offset + text.len();
        if session.output.is_json() {
            if has_ended {
                let report = Report::of_one(Table::default(), json, text).of_type::<types::TaskLogs>();
                return session.output.report(&report);
            }
        } else if end > shown || log.attempt != attempt {
            // Each attempt begins a new log.
            let known = if log.attempt == attempt { shown } else { 0 };
            if offset > known {
                session.note(format!("{} bytes of the log are not kept", offset - known));
            }
            // The end of the log that was shown may lie within a character of this log.
            let new = &text[text.floor_char_boundary(known.saturating_sub(offset))..];
            let lines: Vec<String> = new.split('\n').map(printable).collect();
            session.output.bytes(lines.join("\n").as_bytes())?;
            (shown, attempt) = (end, log.attempt);
        }
        if has_ended && end == 0 {
            session.note("the log is empty: only models on nodes elsewhere write one");
        }
        if has_ended || is_closed_within(LOG_INTERVAL, session).await {
            return Ok(());
        }
    }
}

async fn rerun(named: &str, options: RunOptions, session: Session) -> Result {
    let client = session.client()?;
    let id = identified(named, &client).await?;
    let task = client.task(id.as_str()).get().await?;
    let Some(model) = identifier::model_of(&id, &client).await? else {
        return Err(Failure::usage(format!("the history does not show the model of the task {id}"))
            .with_hint("`inferstore task show` prints its inputs; run the model with them"));
    };
    run::again(model, task.input_data.unwrap_or_default(), options, session).await
}

async fn list(arguments: &ListArguments, client: &Client) -> Result<Report> {
    let ListArguments { limit, offset, all, status, model, since, search, .. } = arguments;
    let search = search.as_ref().map(|text| text.to_lowercase());
    // The clock of this machine may be wrong. A record comes with a response, which shows that of the service.
    let earliest = || client.service_time().unwrap_or_else(SystemTime::now).checked_sub((*since)?);
    let tasks = &client.tasks();
    let fits = |task: &types::TaskRecord| {
        let created = task.created_at.as_ref().and_then(Timestamp::to_system_time);
        status.as_ref().is_none_or(|status| task.status.as_ref().is_some_and(|s| s.as_str() == status))
            && model.as_ref().is_none_or(|model| task.model_id.as_ref() == Some(model))
            && earliest().is_none_or(|earliest| created.is_some_and(|created| created >= earliest))
            && search.as_ref().is_none_or(|text| {
                let model = task.model_id.as_deref().unwrap_or_default();
                [task.task_id.as_str(), model].iter().any(|name| name.to_lowercase().contains(text))
            })
    };
    let is_filtered = status.is_some() || model.is_some() || since.is_some() || search.is_some();
    let fits: Fits<'_, types::TaskRecord> = if is_filtered { Some(&fits) } else { None };
    let limit = if *all { u64::MAX } else { u64::from(*limit) };
    let listed = lists::newest(*offset, limit, fits, |limit, offset| tasks.page(limit, offset)).await?;
    if let Some(model) = model.as_ref().filter(|_| listed.records.is_empty()) {
        models::check_exists(model, client).await?;
    }
    let columns = [
        ("TASK", Fit::Keep),
        ("STATUS", Fit::Keep),
        ("MODEL", Fit::Drop(1)),
        ("COST", Fit::Drop(3)),
        ("CREATED", Fit::Drop(2)),
    ];
    let cells = |task: &types::TaskRecord| {
        vec![
            Cell::from(task.task_id.as_str()),
            Cell::status(task.status.as_ref().map_or("", TaskStatus::as_str)),
            Cell::from(task.model_id.as_deref().unwrap_or_default()),
            Cell::from(cost(task.cost.as_ref(), task.status.as_ref()).unwrap_or_default()),
            time::age(task.created_at.as_ref()),
        ]
    };
    Ok(listed.report("records", columns, cells, |task| task.task_id.to_string()))
}

async fn watch_list(arguments: &ListArguments, client: &Client, session: &Session) -> Result {
    let mut last = String::new();
    loop {
        let report = list(arguments, client).await?;
        let drawn = format!("{}\n{}", session.output.drawn(&report.table), report.quiet.join(" "));
        if drawn != last {
            session.output.clear()?;
            session.output.report(&report)?;
            last = drawn;
        }
        if is_closed_within(WATCH_INTERVAL, session).await {
            return Ok(());
        }
    }
}

/// Waits so long, or until the reader of standard output has gone. Returns true if it has.
async fn is_closed_within(interval: Duration, session: &Session) -> bool {
    session.output.is_closed() || timeout(interval, closed()).await.is_ok()
}
