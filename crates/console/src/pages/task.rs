//! Tasks: the history, newest first, and one task with its inputs and outputs.

use super::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use inferstore::Timestamp;
use inferstore::types::{Descriptor, ModelListRequest, TaskCost, TaskDetail, TaskId, TaskRecord};
use serde_json::{Map, Value};
use tokio::time::timeout;

use crate::call::same_call;
use crate::files::original_name;
use crate::form::title_of;
use crate::runs::Run;
use crate::shown::{compare, output_name, picture, url_of, value};

const DETAIL_TIMEOUT: Duration = Duration::from_secs(1);

const READ: u32 = 100;
pub(crate) const MAX_READ: u64 = 2_000;

/// Reads the history backwards, until `wanted` records match or `MAX_READ` were read. Returns the matches,
/// newest first, and the position to continue from; 0 at the end.
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

impl App {
    /// Returns a task for a list, if the service responds in time. Ended tasks are cached.
    pub(crate) async fn detail(&self, id: &str) -> Option<Arc<TaskDetail>> {
        if let Some(task) = self.details.get(id) {
            return Some(task);
        }
        let task = timeout(DETAIL_TIMEOUT, self.client.task(id).get()).await.ok()?.ok()?;
        let task = Arc::new(task);
        if task.status.as_ref().is_some_and(TaskStatus::is_terminal) {
            self.details.insert(id.to_owned(), Arc::clone(&task), 1);
        }
        Some(task)
    }

    pub(crate) async fn currency(&self) -> &str {
        if let Some(known) = self.currency.get() {
            return known;
        }
        let one = ModelListRequest { limit: Some(1), ..Default::default() };
        let unit = within(async {
            let model = self.client.models_page(one).await?.records.into_iter().next();
            Ok(match model {
                Some(model) => self.client.model(model.id.as_str()).cost().await?,
                None => TaskCost::default(),
            })
        });
        match unit.await {
            Ok(cost) => self.currency.get_or_init(|| cost.unit.or(cost.symbol).unwrap_or_default()),
            Err(_) => "",
        }
    }
}

pub(crate) fn lasted(task: &TaskRecord) -> Option<Duration> {
    let is_over = task.status.as_ref().is_some_and(TaskStatus::is_terminal);
    let time = |stamp: &Option<Timestamp>| stamp.as_ref()?.as_str().parse::<jiff::Timestamp>().ok();
    let [start, end] = [&task.created_at, &task.updated_at].map(time);
    end.filter(|_| is_over)?.duration_since(start?).try_into().ok()
}

pub(crate) fn input_name(task: &TaskDetail) -> Option<String> {
    let url = inputs(task).into_iter().find_map(|(_, value, descriptor)| url_of(value, descriptor))?;
    Some(original_name(url)).filter(|name| !name.is_empty())
}

/// Returns the address of the first picture of the service among the outputs, else among the inputs.
pub(crate) fn picture_of(app: &App, task: &TaskDetail) -> Option<String> {
    let output = output(task);
    let mut all = ordered(&output, task.output_format.as_ref()).into_iter().chain(inputs(task));
    all.find_map(|(_, value, descriptor)| picture(app, value, descriptor)).map(|url| app.link(url))
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
    let unit = app.currency().await;
    let files = run.map(|run| run.files.clone()).unwrap_or_default();
    let name = model.as_deref().map_or_else(|| "Task".to_owned(), titled);
    let body = html! {
        div.heading {
            h1 { (name) " " (badge(task.status.as_ref())) }
            @if let Some(model) = &model { p { a.button href={ "/models/" (segment(model)) "?from=" (segment(id)) } { "Run again" } } }
        }
        @if task.status == Some(TaskStatus::Success) { (result(app, &task, model.as_deref())) } @else { (problem(&task)) }
        div.columns {
            section.card {
                h2 { "Inputs" }
                div.values {
                    @for (name, one, descriptor) in inputs(&task) {
                        @let file = one.as_str().map(original_name).unwrap_or_default();
                        (value(app, name, one, descriptor, &file))
                    }
                }
            }
            section.card {
                h2 { "Task" }
                dl {
                    dt { "Identifier" } dd { a.task href={ "/tasks/" (segment(id)) } { code { (task.task_id.as_str()) } } }
                    @if let Some(model) = &model { dt { "Model" } dd { a href={ "/models/" (segment(model)) } { (model) } } }
                    @if task.status == Some(TaskStatus::Success) { dt { "Cost" } dd { (price(task.cost.as_ref(), unit)) } }
                    dt { "Created" } dd { (when(task.created_at.as_ref())) }
                    dt { "Ended" } dd { (when(task.updated_at.as_ref())) }
                }
            }
        }
        @if let Some(model) = &model { (same_call(model, &task.input_data.clone().unwrap_or_default(), &files)) }
    };
    let status = titled(task.status.as_ref().map_or("unknown", TaskStatus::as_str));
    Ok(page(&format!("{status} · {name}"), "/runs", body))
}

/// Returns the model of a task opened by its address: only the history has it.
async fn model_of(app: &App, id: &str) -> Option<String> {
    let (found, _) = history(app, None, 1, |record| record.task_id.as_str() == id).await.ok()?;
    found.into_iter().next()?.model_id
}

type Entry<'a> = (&'a String, &'a Value, Option<&'a Descriptor>);

fn inputs(task: &TaskDetail) -> Vec<Entry<'_>> {
    ordered(task.input_data.iter().flatten(), task.input_format.as_ref())
}

fn ordered<'a>(
    values: impl IntoIterator<Item = (&'a String, &'a Value)>,
    format: Option<&'a BTreeMap<String, Descriptor>>,
) -> Vec<Entry<'a>> {
    let entry = |(name, value)| (name, value, format.and_then(|format| format.get(name)));
    let mut entries: Vec<Entry<'a>> = values.into_iter().map(entry).collect();
    entries.sort_by_key(|(.., descriptor)| descriptor.and_then(|one| one.position).unwrap_or(i64::MAX));
    entries
}

fn output(task: &TaskDetail) -> Map<String, Value> {
    match task.result.as_ref().and_then(|result| result.result.clone()) {
        Some(Value::Object(output)) => output,
        Some(other) => Map::from_iter([("output".to_owned(), other)]),
        None => Map::new(),
    }
}

fn result(app: &App, task: &TaskDetail, model: Option<&str>) -> Markup {
    let output = output(task);
    let outputs = ordered(&output, task.output_format.as_ref());
    let before = inputs(task).into_iter().find_map(|(_, value, descriptor)| picture(app, value, descriptor));
    let input = input_name(task);
    let named = |name: &str, value: &Value| {
        let field = (name, outputs.len() > 1);
        output_name(input.as_deref(), model, field, value.as_str().unwrap_or_default())
    };
    let is_picture = |value: &Value, descriptor| picture(app, value, descriptor).is_some();
    let first = outputs.iter().position(|(_, value, descriptor)| is_picture(value, *descriptor));
    html! {
        section.card.result {
            h2 { "Result" }
            @if let Some((name, value, _)) = first.and_then(|first| outputs.get(first)) {
                (compare(before.map(|url| app.link(url)).as_deref(), &app.link(value.as_str().unwrap_or_default()), &named(name, value)))
            }
            div.values {
                @for (index, (name, one, descriptor)) in outputs.iter().enumerate() { @if Some(index) != first { (value(app, name, one, *descriptor, &named(name, one))) } }
            }
        }
    }
}

fn problem(task: &TaskDetail) -> Markup {
    let detail =
        task.result.as_ref().and_then(|result| result.error.as_ref()).filter(|detail| !detail.is_null());
    let is_failed = task.status == Some(TaskStatus::Failed);
    // Messages use names of inputs; the form has titles.
    let mut message = task.message.clone().unwrap_or_default();
    for (name, _, descriptor) in inputs(task) {
        let title = title_of(name, descriptor);
        message = message.replace(&format!("`{name}`"), &format!("“{title}”"));
        if let Some(rest) = message.strip_prefix(&format!("{name}: ")) {
            message = format!("{title}: {rest}");
        }
    }
    html! {
        section.card.failure {
            h2 { @if is_failed { span.hidden { "Error: " } "The model failed" } @else { "The task was canceled" } }
            @if !message.is_empty() { p { (message) } }
            p.hint { "It is not billed." }
            @if let Some(detail) = detail.filter(|detail| detail.as_str() != task.message.as_deref()) {
                details {
                    summary { "Details" }
                    pre tabindex="0" role="group" aria-label="Details" { (serde_json::to_string_pretty(detail).unwrap_or_default()) }
                }
            }
        }
    }
}

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
