//! Tasks: the history, newest first, and one task with its inputs and outputs.

use super::prelude::*;
use std::collections::BTreeMap;

use inferstore::types::{Descriptor, TaskDetail, TaskId, TaskRecord, TaskStatus};
use serde_json::{Map, Value};

use crate::call::same_call;
use crate::runs::Run;
use crate::shown::{compare, picture, value};

/// How many tasks a page shows, how many are read at once, and how many are read to fill a page.
const PAGE: usize = 25;
const READ: u32 = 100;
const MAX_READ: u64 = 2_000;

/// Tasks of the history, newest first.
pub(crate) struct History {
    pub(crate) records: Vec<TaskRecord>,
    /// The place where to read on; 0 when all was read.
    pub(crate) read_to: u64,
}

/// Reads the history backwards, until `wanted` records match or `max_read` were read.
pub(crate) async fn history(
    app: &App,
    before: Option<u64>,
    wanted: usize,
    max_read: u64,
    matches: impl Fn(&TaskRecord) -> bool + Send,
) -> Result<History> {
    let tasks = app.client.tasks();
    let total = match before {
        Some(before) => before,
        None => within(tasks.page(1, 0)).await?.total.unwrap_or_default(),
    };
    let mut history = History { records: Vec::new(), read_to: total };
    while history.read_to > total.saturating_sub(max_read) && history.records.len() < wanted {
        let start = history.read_to.saturating_sub(READ.into());
        let count = u32::try_from(history.read_to - start).unwrap_or(READ);
        let mut records = within(tasks.page(count, start)).await?.records;
        while history.records.len() < wanted
            && let Some(record) = records.pop()
        {
            history.records.extend(Some(record).filter(&matches));
        }
        history.read_to = start + records.len() as u64;
    }
    Ok(history)
}

pub(crate) async fn list(State(app): State<Shared>, Query(query): Query<Words>) -> Result<Markup> {
    let [model, status] = ["model", "status"].map(|name| word(&query, name));
    // The history is oldest first: new tasks do not move a place in it.
    let before = word(&query, "before").parse().ok();
    let matches = |record: &TaskRecord| {
        (status.is_empty() || record.status.as_ref().is_some_and(|own| own.as_str() == status))
            && (model.is_empty() || record.model_id.as_deref() == Some(model))
    };
    let history = history(&app, before, PAGE, MAX_READ, matches).await?;
    let body = html! {
        div.heading { h1 { "Tasks" } p.muted { "The history of the account, newest first." } }
        form.bar method="get" action="/tasks" {
            label.grow { span.hidden { "Model" } input type="search" name="model" value=(model) placeholder="Identifier of a model"; }
            (choice("status", "Any status", TaskStatus::KNOWN.iter().map(TaskStatus::as_str), status))
            button type="submit" { "Filter" }
        }
        @if history.records.is_empty() {
            div.empty { h2 { "No task" } p { @if history.read_to > 0 { "None of the " (MAX_READ) " latest tasks matches." } @else { a href="/" { "Run a model" } } } }
        } @else { (table(&history.records)) }
        @if history.read_to > 0 {
            p { a.button href={ "/tasks?status=" (status) "&model=" (segment(model)) "&before=" (history.read_to) } { "Older tasks" } }
        }
    };
    Ok(page("Tasks", "/tasks", body))
}

fn table(records: &[TaskRecord]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Tasks" {
            table {
                thead { tr { th { "Task" } th { "Model" } th { "Status" } th.end { "Cost" } th { "Created" } } }
                tbody {
                    @for task in records {
                        @let model = task.model_id.as_deref().unwrap_or_default();
                        tr {
                            td { a href={ "/tasks/" (segment(task.task_id.as_str())) "?model=" (segment(model)) } { code { (task.task_id.as_str().chars().take(12).collect::<String>()) } } }
                            td { (titled(model)) }
                            td { (badge(task.status.as_ref())) }
                            td.end { @if task.status == Some(TaskStatus::Success) { (amount(task.cost.as_ref())) } }
                            td { (when(task.created_at.as_ref())) }
                        }
                    }
                }
            }
        }
    }
}

pub(crate) async fn show(
    State(app): State<Shared>,
    Path(id): Path<String>,
    Query(query): Query<Words>,
) -> Result<Response> {
    let task = within(app.client.task(id.as_str()).get()).await?;
    let run = app.runs.of_task(&id);
    let model = match query.get("model").cloned().or_else(|| run.as_ref()?.model.clone()) {
        Some(model) => Some(model).filter(|model| !model.is_empty()),
        None => model_of(&app, &id).await,
    };
    if !task.status.as_ref().is_some_and(TaskStatus::is_terminal) {
        let run = run.filter(|run| run.progress().end.is_none()).unwrap_or_else(|| {
            let inputs = task.input_data.unwrap_or_default();
            let new = Run::new(model, inputs, Some(TaskId::new(&id)));
            app.runs.start(new, Vec::new(), || app.client.task(id.as_str()).wait().events())
        });
        return Ok(Redirect::to(&format!("/runs/{}", run.id)).into_response());
    }
    let files = run.map(|run| run.files.clone()).unwrap_or_default();
    let name = model.as_deref().map_or_else(|| "Task".to_owned(), titled);
    let inputs = task.input_data.clone().unwrap_or_default();
    let body = html! {
        div.heading {
            h1 { (name) " " (badge(task.status.as_ref())) }
            @if let Some(model) = &model {
                p { a.button href={ "/models/" (segment(model)) "?from=" (segment(&id)) } { "Run again" } }
            }
        }
        @if task.status == Some(TaskStatus::Success) { (result(&app, &task, &inputs)) } @else { (problem(&task)) }
        div.columns {
            section.card {
                h2 { "Inputs" }
                div.values {
                    @for (name, one, descriptor) in ordered(&inputs, task.input_format.as_ref()) {
                        (value(&app, name, one, descriptor))
                    }
                }
            }
            aside { (facts(&task, model.as_deref())) }
        }
        @if let Some(model) = &model { (same_call(model, &inputs, &files)) }
    };
    Ok(page(&name, "/tasks", body).into_response())
}

/// The model of a task that no page led to: only the history knows it.
async fn model_of(app: &App, id: &str) -> Option<String> {
    let found = history(app, None, 1, 500, |record| record.task_id.as_str() == id).await.ok()?;
    found.records.into_iter().next()?.model_id
}

/// Values in the order that the model declares.
fn ordered<'a>(
    values: &'a Map<String, Value>,
    format: Option<&'a BTreeMap<String, Descriptor>>,
) -> Vec<(&'a String, &'a Value, Option<&'a Descriptor>)> {
    let descriptor = |name: &str| format.and_then(|format| format.get(name));
    let mut values: Vec<_> = values.iter().map(|(name, value)| (name, value, descriptor(name))).collect();
    values.sort_by_key(|(.., descriptor)| descriptor.and_then(|one| one.position).unwrap_or(i64::MAX));
    values
}

fn result(app: &App, task: &TaskDetail, inputs: &Map<String, Value>) -> Markup {
    let output = task.result.as_ref().and_then(|result| result.result.clone()).unwrap_or_default();
    let output = match output {
        Value::Object(output) => output,
        other => Map::from_iter([("output".to_owned(), other)]),
    };
    let inputs = ordered(inputs, task.input_format.as_ref());
    let outputs = ordered(&output, task.output_format.as_ref());
    let is_picture = |(name, value, descriptor): &(&String, &Value, Option<&Descriptor>)| {
        Some((app.link(picture(value, *descriptor)?, name), name.to_string()))
    };
    let before = inputs.iter().find_map(is_picture);
    let after = outputs.iter().find_map(is_picture);
    html! {
        section.card.result {
            h2 { "Result" }
            @if let (Some((before, input)), Some((after, output))) = (&before, &after) {
                (compare((before, input), (after, output)))
            }
            div.values { @for (name, one, descriptor) in outputs { (value(app, name, one, descriptor)) } }
        }
    }
}

fn problem(task: &TaskDetail) -> Markup {
    let detail =
        task.result.as_ref().and_then(|result| result.error.as_ref()).filter(|detail| !detail.is_null());
    let is_failed = task.status == Some(TaskStatus::Failed);
    html! {
        section.card.failure {
            h2 { @if is_failed { "The model failed" } @else { "The task was canceled" } }
            @if let Some(message) = &task.message { p { (message) } }
            @if let Some(detail) = detail.filter(|detail| detail.as_str() != task.message.as_deref()) {
                pre tabindex="0" aria-label="Detail" { (serde_json::to_string_pretty(detail).unwrap_or_default()) }
            }
            p.hint { "It is not billed." }
        }
    }
}

fn facts(task: &TaskDetail, model: Option<&str>) -> Markup {
    let time = |stamp: Option<&inferstore::Timestamp>| stamp?.to_system_time();
    let created = time(task.created_at.as_ref());
    let ended = time(task.updated_at.as_ref());
    let took = created.zip(ended).and_then(|(created, ended)| ended.duration_since(created).ok());
    html! {
        section.card {
            h2 { "Task" }
            dl {
                dt { "Identifier" } dd { code { (task.task_id.as_str()) } }
                @if let Some(model) = model { dt { "Model" } dd { a href={ "/models/" (segment(model)) } { (model) } } }
                @if task.status == Some(TaskStatus::Success) { dt { "Cost" } dd { (amount(task.cost.as_ref())) } }
                dt { "Created" } dd { (when(task.created_at.as_ref())) }
                @if let Some(took) = took { dt { "Took" } dd { (format!("{:.1} s", took.as_secs_f64())) } }
            }
        }
    }
}

/// Cancels a task that is queued.
pub(crate) async fn cancel(State(app): State<Shared>, Path(id): Path<String>) -> Result<Response> {
    let canceled = within(app.client.task(id.as_str()).cancel()).await;
    let Some(run) = app.runs.of_task(&id) else {
        canceled?;
        return Ok(Redirect::to(&format!("/tasks/{}", segment(&id))).into_response());
    };
    if let Err(Failure { text, .. }) = canceled {
        app.runs.note(&run, format!("The cancel had no effect: {text}"));
    }
    Ok(Redirect::to(&format!("/runs/{}", run.id)).into_response())
}
