//! Tasks: the history, newest first, and one task with its inputs and outputs.

use super::prelude::*;
use std::collections::BTreeMap;

use inferstore::types::{Descriptor, TaskDetail, TaskId, TaskRecord};
use serde_json::{Map, Value};

use crate::call::same_call;
use crate::runs::Run;
use crate::shown::{compare, picture, value};

/// How many tasks a page shows, how many are read at once, and how many are read to fill a page.
const PAGE: usize = 25;
const READ: u32 = 100;
pub(crate) const MAX_READ: u64 = 2_000;

/// Reads the history backwards, until `wanted` records match or `MAX_READ` were read. Returns them, newest first,
/// and the place where to read on, which is 0 when all was read.
pub(crate) async fn history(
    app: &App,
    before: Option<u64>,
    wanted: usize,
    matches: impl Fn(&TaskRecord) -> bool + Send,
) -> Result<(Vec<TaskRecord>, u64)> {
    let tasks = app.client.tasks();
    let total = match before {
        Some(before) => before,
        None => within(tasks.page(1, 0)).await?.total.unwrap_or_default(),
    };
    let mut found = Vec::new();
    let mut read_to = total;
    while read_to > total.saturating_sub(MAX_READ) && found.len() < wanted {
        let start = read_to.saturating_sub(READ.into());
        let count = u32::try_from(read_to - start).unwrap_or(READ);
        let mut records = within(tasks.page(count, start)).await?.records;
        while found.len() < wanted
            && let Some(record) = records.pop()
        {
            found.extend(Some(record).filter(&matches));
        }
        read_to = start + records.len() as u64;
    }
    Ok((found, read_to))
}

pub(crate) async fn list(app: &App, query: &Words) -> Result<Response> {
    let [model, status] = ["model", "status"].map(|name| word(query, name));
    // The history is oldest first: new tasks do not move a place in it.
    let before = parsed(query, "before")?;
    let matches = |record: &TaskRecord| {
        (status.is_empty() || record.status.as_ref().is_some_and(|own| own.as_str() == status))
            && (model.is_empty() || record.model_id.as_deref() == Some(model))
    };
    let (records, read_to) = history(app, before, PAGE, matches).await?;
    let body = html! {
        div.heading { h1 { "Tasks" } p.muted { "The history of the account, newest first." } }
        form.bar method="get" action="/tasks" {
            label.grow { span.hidden { "Model" } input type="search" name="model" value=(exact(model)) placeholder="Identifier of a model"; }
            (choice("status", "Any status", TaskStatus::KNOWN.iter().map(TaskStatus::as_str), status))
            button type="submit" { "Filter" }
        }
        @if records.is_empty() {
            div.empty { h2 { "No task" } p { @if read_to > 0 { "None of the " (MAX_READ) " latest tasks matches." } @else { a href="/" { "Run a model" } } } }
        } @else {
            div.scroll tabindex="0" role="region" aria-label="Tasks" {
                table {
                    thead { tr { th { "Task" } th { "Model" } th { "Status" } th.end { "Cost" } th { "Created" } } }
                    tbody {
                        @for task in &records {
                            @let model = task.model_id.as_deref().unwrap_or_default();
                            tr {
                                td { a href={ "/tasks/" (segment(task.task_id.as_str())) "?model=" (segment(model)) } { code { (short(&task.task_id)) } } }
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
        @if read_to > 0 {
            p { a.button href={ "/tasks?status=" (segment(status)) "&model=" (segment(model)) "&before=" (read_to) } { "Older tasks" } }
        }
    };
    Ok(page("Tasks", "/tasks", body))
}

pub(crate) async fn show(app: &App, id: &str, query: &Words) -> Result<Response> {
    let task = within(app.client.task(id).get()).await?;
    let run = app.runs.of_task(id);
    let model = match query.get("model").cloned().or_else(|| run.as_ref()?.model.clone()) {
        Some(model) => Some(model).filter(|model| !model.is_empty()),
        None => model_of(app, id).await,
    };
    if !task.status.as_ref().is_some_and(TaskStatus::is_terminal) {
        let run = run.filter(|run| run.progress().end.is_none()).unwrap_or_else(|| {
            let inputs = task.input_data.unwrap_or_default();
            let new = Run::new(model, inputs, Some(TaskId::new(id)));
            app.runs.start(new, Vec::new(), || app.client.task(id).wait().poll(app.poll.clone()).events())
        });
        return Ok(go_to("runs", run.id));
    }
    app.learn_origin().await;
    let files = run.map(|run| run.files.clone()).unwrap_or_default();
    let name = model.as_deref().map_or_else(|| "Task".to_owned(), titled);
    let inputs = task.input_data.clone().unwrap_or_default();
    let body = html! {
        div.heading {
            h1 { (name) " " (badge(task.status.as_ref())) }
            @if let Some(model) = &model {
                p { a.button href={ "/models/" (segment(model)) "?from=" (segment(id)) } { "Run again" } }
            }
        }
        @if task.status == Some(TaskStatus::Success) { (result(app, &task, &inputs)) } @else { (problem(&task)) }
        div.columns {
            section.card {
                h2 { "Inputs" }
                div.values {
                    @for (name, one, descriptor) in ordered(&inputs, task.input_format.as_ref()) {
                        (value(app, name, one, descriptor))
                    }
                }
            }
            aside.card {
                h2 { "Task" }
                dl {
                    dt { "Identifier" } dd { code { (task.task_id.as_str()) } }
                    @if let Some(model) = &model { dt { "Model" } dd { a href={ "/models/" (segment(model)) } { (model) } } }
                    @if task.status == Some(TaskStatus::Success) { dt { "Cost" } dd { (amount(task.cost.as_ref())) } }
                    dt { "Created" } dd { (when(task.created_at.as_ref())) }
                    dt { "Ended" } dd { (when(task.updated_at.as_ref())) }
                }
            }
        }
        @if let Some(model) = &model { (same_call(model, &inputs, &files)) }
    };
    Ok(page(&name, "/tasks", body))
}

/// The model of a task that no page led to: only the history knows it.
async fn model_of(app: &App, id: &str) -> Option<String> {
    let (found, _) = history(app, None, 1, |record| record.task_id.as_str() == id).await.ok()?;
    found.into_iter().next()?.model_id
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
    let before = inputs.iter().find_map(|(_, value, descriptor)| picture(app, value, *descriptor));
    let after = outputs.iter().find_map(|(_, value, descriptor)| picture(app, value, *descriptor));
    html! {
        section.card.result {
            h2 { "Result" }
            @if let (Some(before), Some(after)) = (before, after) { (compare(&app.link(before), &app.link(after))) }
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

/// Cancels a task that is queued.
pub(crate) async fn cancel(app: &App, id: &str) -> Result<Response> {
    let canceled = within(app.client.task(id).cancel()).await;
    let Some(run) = app.runs.of_task(id) else {
        return canceled.map(|()| go_to("tasks", id));
    };
    if let Err(Failure { status, text, .. }) = canceled {
        let outcome = match status.is_client_error() {
            true => "The cancel had no effect",
            false => "Whether the task is canceled is unknown",
        };
        app.runs.note(&run, format!("{outcome}: {text}"));
    }
    Ok(go_to("runs", run.id))
}
