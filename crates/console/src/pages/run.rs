//! Runs: list of runs in progress and of the history, and the progress of one run.

use super::prelude::*;
use std::convert::Infallible;
use std::sync::Arc;

use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::StreamExt;
use futures_util::future::join_all;
use inferstore::types::{ModelListRequest, TaskId, TaskRecord};
use jiff::SignedDuration;
use serde_json::json;

use super::task::{MAX_READ, history, input_name, lasted, picture_of};
use crate::call::same_call;
use crate::runs::{Progress, Run};

const PAGE: usize = 25;
const MODELS: u32 = 100;

pub(crate) async fn events(app: &App, query: &Words) -> Response {
    let one = word(query, "run").parse().ok();
    let after = word(query, "after").parse().unwrap_or_default();
    let unit = app.currency().await.to_owned();
    let event = move |(run, progress): (Arc<Run>, Progress)| {
        let html = if one.is_some() { steps(&run, &progress) } else { run_row(&run, &progress, &unit) };
        let html = printable(&html.into_string());
        let state = printable(&state(&progress).0);
        let data = json!({ "run": run.id, "html": html, "state": state, "over": progress.end.is_some() });
        Ok::<_, Infallible>(Event::default().data(data.to_string()))
    };
    let changes = app.runs.changes(one, after).map(event);
    let changes = changes.take_until(app.ended.clone().cancelled_owned());
    Sse::new(changes).keep_alive(KeepAlive::default()).into_response()
}

pub(crate) async fn list(app: &App, query: &Words) -> Result<Response> {
    let [model, status, day] = ["model", "status", "day"].map(|name| word(query, name));
    // The history is oldest first, so new tasks do not shift positions.
    let before = parsed::<u32>(query, "before")?.map(u64::from);
    // Days begin at midnight in the zone of the browser, in minutes before UTC.
    let zone = parsed::<i16>(query, "zone")?.unwrap_or_default();
    let local = |at: jiff::Timestamp| (at - SignedDuration::from_mins(zone.into())).to_string();
    let is_shown = |own: Option<&str>, state: &str, at: &str| {
        (status.is_empty() || state == status)
            && (model.is_empty() || own == Some(model))
            && (day.is_empty()
                || at.parse().map_or_else(|_| at.starts_with(day), |at| local(at).starts_with(day)))
    };
    let matches = |record: &TaskRecord| {
        let state = record.status.as_ref().map_or("", TaskStatus::as_str);
        is_shown(record.model_id.as_deref(), state, record.created_at.as_ref().map_or("", |at| at.as_str()))
    };
    app.learn_origin().await;
    let some_models = ModelListRequest { limit: Some(MODELS), ..Default::default() };
    let (unit, models, found) = tokio::join!(
        app.currency(),
        within(app.client.models_page(some_models)),
        history(app, before, PAGE, matches)
    );
    let (records, read_to) = found?;
    let models = models.map(|page| page.records).unwrap_or_default();
    let seen = app.runs.count();
    // The first page includes runs that the history lacks or shows with an old status.
    let runs = app.runs.list().into_iter().map(|run| (run.progress(), run));
    let runs: Vec<_> = runs.filter(|(progress, _)| before.is_none() && !progress.has_result()).collect();
    let is_running = runs.iter().any(|(progress, _)| progress.end.is_none());
    let is_in_history = |record: &&TaskRecord| {
        runs.iter().all(|(progress, _)| progress.task.as_ref() != Some(&record.task_id))
    };
    let rows = join_all(records.iter().filter(is_in_history).map(|record| task_row(app, record, unit))).await;
    let mut rows: Vec<_> = rows.into_iter().map(|(at, row)| (at, html! { li { (row) } })).collect();
    rows.extend(runs.iter().filter_map(|(progress, run)| {
        let at = run.created.to_string();
        is_shown(run.model.as_deref(), state(progress).1, &at)
            .then(|| (at, html! { li data-run=(run.id) { (run_row(run, progress, unit)) } }))
    }));
    rows.sort_by(|(one, _), (other, _)| other.cmp(one));
    let is_filtered = [model, status, day].iter().any(|filter| !filter.is_empty());
    let body = html! {
        div.heading { h1 { "Runs" } p.muted { "Newest first, with those that other programs of the account have started." } }
        form.bar method="get" action="/runs" {
            (choice("model", "All models", models.iter().map(|model| model.id.as_str()), model))
            (choice("status", "Any state", TaskStatus::KNOWN.iter().map(TaskStatus::as_str), status))
            input type="date" name="day" value=(day) aria-label="Day";
            input type="hidden" name="zone" value=(zone);
            button type="submit" { "Filter" }
            @if is_filtered { a.button href="/runs" { "Show all" } }
        }
        @if rows.is_empty() {
            div.empty {
                @if is_filtered { h2 { "No run matches" } @if read_to > 0 { p { "None of the " (MAX_READ) " latest tasks does." } } }
                @else { h2 { "Nothing has run yet" } p { a href="/" { "Choose a model" } } }
            }
        }
        ul.runs data-live=[(before.is_none() && !is_filtered).then(|| format!("/runs/events?after={seen}"))] { @for (_, row) in rows { (row) } }
        @if read_to > 0 {
            p { a.button href={ "/runs?status=" (segment(status)) "&model=" (segment(model)) "&day=" (segment(day)) "&zone=" (zone) "&before=" (read_to) } { "Older runs" } }
        }
    };
    Ok(page_that_reloads("Runs", "/runs", is_running.then_some(3), body))
}

fn row(
    address: &str,
    picture: Option<&str>,
    model: Option<&str>,
    name: Option<&str>,
    [state, duration, cost, created]: [Markup; 4],
) -> Markup {
    html! {
        div.thumbnail { @if let Some(picture) = picture { img src={ (picture) "?small" } alt="" loading="lazy"; } }
        p.what { a href=(address) { (model.map_or_else(|| "Task".to_owned(), titled)) } @if let Some(name) = name { " " span.muted { (name) } } }
        p.state { (state) }
        p.duration { (duration) }
        p.cost { (cost) }
        p.created { (created) }
    }
}

fn task_address(task: &TaskId, model: Option<&str>) -> String {
    format!("/tasks/{}?model={}", segment(task.as_str()), segment(model.unwrap_or_default()))
}

async fn task_row(app: &App, record: &TaskRecord, unit: &str) -> (String, Markup) {
    let task = app.detail(record.task_id.as_str()).await;
    let name = task.as_deref().and_then(input_name);
    let picture = task.as_ref().and_then(|task| picture_of(app, task));
    let model = record.model_id.as_deref();
    let address = task_address(&record.task_id, model);
    let is_success = record.status == Some(TaskStatus::Success);
    let cells = [
        badge(record.status.as_ref()),
        html! { @if let Some(time) = lasted(record) { (duration(time)) } },
        html! { @if is_success { (price(record.cost.as_ref(), unit)) } },
        when(record.created_at.as_ref()),
    ];
    let at = record.created_at.as_ref().map(|at| at.as_str().to_owned()).unwrap_or_default();
    (at, row(&address, picture.as_deref(), model, name.as_deref(), cells))
}

fn run_row(run: &Run, progress: &Progress, unit: &str) -> Markup {
    let address = match &progress.task {
        Some(task) if progress.has_result() => task_address(task, run.model.as_deref()),
        _ => format!("/runs/{}", run.id),
    };
    let name = run.files.values().next().map(String::as_str);
    let cells = [
        html! { (state_badge(progress)) " " span.muted { (summary(progress)) } },
        clock(progress),
        html! { @if let Some(Ok(cost)) = &progress.end { (price(cost.as_ref(), unit)) } },
        html! { time datetime=(run.created) { (run.created.strftime("%F %T UTC")) } },
    ];
    row(&address, run.picture.as_deref(), run.model.as_deref(), name, cells)
}

fn state(progress: &Progress) -> (String, &str) {
    match (&progress.end, &progress.status) {
        (Some(Ok(_)), _) => ("Success".to_owned(), "success"),
        (Some(Err(_)), _) if !progress.has_result() => ("Problem".to_owned(), "failed"),
        (_, Some(status)) => (titled(status.as_str()), status.as_str()),
        (_, None) => ("Starting".to_owned(), "computing"),
    }
}

fn state_badge(progress: &Progress) -> Markup {
    let (word, class) = state(progress);
    html! { span.badge.(class) { (word) } }
}

fn uploaded(progress: &Progress) -> (u64, u64) {
    progress.uploads.values().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

fn summary(progress: &Progress) -> String {
    let (sent, whole) = uploaded(progress);
    match &progress.end {
        Some(Err(failure)) => failure.text.clone(),
        None if sent < whole => format!("{} of {}", size(sent), size(whole)),
        _ => String::new(),
    }
}

/// Renders the duration so far. JavaScript advances it between events.
fn clock(progress: &Progress) -> Markup {
    let seconds = format!("{:.1} s", progress.elapsed.as_secs_f64());
    html! {
        @if progress.end.is_none() { span data-elapsed=(progress.elapsed.as_millis()) { (seconds) } } @else { (seconds) }
    }
}

pub(crate) async fn show(app: &App, id: &str) -> Result<Response> {
    let run = id.parse().ok().and_then(|id| app.runs.get(id)).ok_or_else(|| {
        let forgotten = Failure::not_found("The console was started anew and does not know this run.");
        forgotten.with_hint("look for its task in the list of runs")
    })?;
    let progress = run.progress();
    if let (true, Some(task)) = (progress.has_result(), &progress.task) {
        return Ok(go_to("tasks", task.as_str()));
    }
    let name = run.model.as_deref().map_or_else(|| "Task".to_owned(), titled);
    let is_over = progress.end.is_some();
    let expected = app.runs.usual(&run).filter(|_| !is_over);
    let is_offline = match &run.model {
        Some(model) if !is_over => {
            let serving = within(app.client.model(model.as_str()).serving()).await;
            serving.is_ok_and(|status| status.serving == Some(false))
        }
        _ => false,
    };
    let body = html! {
        div.heading {
            h1 { (name) }
            @if let Some(model) = &run.model { p.muted { "Run of " a href={ "/models/" (segment(model)) } { (model) } } }
        }
        section.card data-live=[(!is_over).then(|| format!("/runs/events?run={id}"))] {
            h2.hidden { "Progress" }
            div data-run=(run.id) { (steps(&run, &progress)) }
            @if let Some(time) = expected { p.muted { "Usually " (duration(time)) " with files of this size." } }
            @if is_offline { p { "No node serves the model now: the task waits for one." } }
            // Separate from the steps, whose clock changes too often for a screen reader.
            p.hidden role="status" { (state(&progress).0) }
        }
        @if let Some(model) = &run.model { (same_call(model, &run.inputs, &run.files)) }
    };
    let title = format!("{} · {name}", state(&progress).0);
    Ok(page_that_reloads(&title, "/runs", (!is_over).then_some(2), body))
}

fn steps(run: &Run, progress: &Progress) -> Markup {
    let is_created = progress.task.is_some();
    let status = progress.status.as_ref();
    let is_over = progress.end.is_some();
    let (sent, whole) = uploaded(progress);
    let is_queued = matches!(status, Some(TaskStatus::InQueue));
    let is_computing = matches!(status, Some(TaskStatus::Computing));
    let is_done = matches!(progress.end, Some(Ok(_)));
    let steps = [
        ("Upload", is_created, !is_created && !is_over),
        ("Queue", is_computing || is_done, is_created && (is_queued || status.is_none()) && !is_over),
        ("Compute", is_done, is_computing && !is_over),
    ];
    html! {
        ol.steps {
            @for (name, is_done, is_now) in steps {
                li.done[is_done] .now[is_now] aria-current=[is_now.then_some("step")] {
                    span { (name) }
                    span.hidden { @if is_done { ": done" } @else if is_now { ": in progress" } @else { ": not yet" } }
                    @if name == "Upload" && whole > 0 {
                        small.muted { " " (size(sent)) " of " (size(whole)) }
                        @if sent < whole { progress max=(whole) value=(sent) aria-label="Upload" {} }
                    }
                }
            }
        }
        p.clock { (state_badge(progress)) " " (clock(progress)) @if let Some(task) = &progress.task { " · " a.task href={ "/tasks/" (segment(task.as_str())) } { "Task " (short(task)) } } }
        @if let Some(note) = &progress.note { p { (note) } }
        @if let (Some(task), true, false) = (&progress.task, is_queued, is_over) {
            form method="post" action={ "/tasks/" (segment(task.as_str())) "/cancel" } { button.quiet type="submit" { "Cancel" } " " span.muted { "A canceled task is not billed." } }
        }
        @if is_computing && !is_over {
            p.muted { "A task that computes cannot be canceled. It goes on when this page is closed, and is then under Runs." }
        }
        @if let Some(Err(failure)) = &progress.end {
            (failure)
            p { @if let Some(model) = &run.model { a.button href={ "/models/" (segment(model)) } { "Back to the model" } " " }
                @if let Some(task) = &progress.task { a.button href={ "/tasks/" (segment(task.as_str())) } { "Look at the task again" } } }
        }
    }
}
