//! Runs of this console: all of them, and the progress of one.

use super::prelude::*;
use axum::response::sse::{KeepAlive, Sse};
use futures_util::StreamExt;

use crate::call::same_call;
use crate::runs::{Progress, Run};

/// The changes of one run, or of all, as they happen.
pub(crate) fn events(app: &App, query: &Words) -> Response {
    let changes = app.runs.changes(word(query, "run").parse().ok());
    let changes = changes.take_until(app.ended.clone().cancelled_owned());
    Sse::new(changes).keep_alive(KeepAlive::default()).into_response()
}

pub(crate) fn list(app: &App) -> Response {
    let runs = app.runs.list();
    let is_running = runs.iter().any(|run| run.progress().end.is_none());
    let body = html! {
        div.heading { h1 { "Runs" } p.muted { "What this console has started or watches, as it happens. The whole history is under Tasks." } }
        @if runs.is_empty() {
            div.empty { h2 { "Nothing has run yet" } p { a href="/" { "Choose a model" } } }
        } @else {
            div.scroll tabindex="0" role="region" aria-label="Runs" {
                table {
                    thead { tr { th { "Run" } th { "Model" } th { "Status" } th { "Progress" } th.end { "Time" } } }
                    tbody data-live="/runs/events" { @for run in &runs { tr data-run=(run.id) { (row(run, &run.progress())) } } }
                }
            }
        }
    };
    page_that_reloads("Runs", "/runs", is_running.then_some(3), body)
}

/// One run as the cells of a row.
pub(crate) fn row(run: &Run, progress: &Progress) -> Markup {
    let model = run.model.as_deref().map_or_else(|| "Task".to_owned(), titled);
    html! {
        td { a href={ "/runs/" (run.id) } { "Run " (run.id) } }
        td { (model) }
        td { (state_badge(progress)) }
        td { (summary(progress)) }
        td.end { (seconds(progress)) }
    }
}

/// The status in a word, and the class of its badge.
pub(crate) fn state(progress: &Progress) -> (String, &str) {
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

fn summary(progress: &Progress) -> String {
    let (sent, whole) = progress.uploads.values().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    match &progress.end {
        Some(Ok(cost)) => format!("Cost {}", amount(cost.as_ref())),
        Some(Err(failure)) => failure.text.clone(),
        None if sent < whole => format!("Uploading {} of {}", size(sent), size(whole)),
        None => String::new(),
    }
}

fn seconds(progress: &Progress) -> String {
    format!("{:.1} s", progress.elapsed.as_secs_f64())
}

pub(crate) fn show(app: &App, id: &str) -> Result<Response> {
    let forgotten = || Failure::not_found("The console does not know this run. Its task is in the history.");
    let run = id.parse().ok().and_then(|id| app.runs.get(id)).ok_or_else(forgotten)?;
    let progress = run.progress();
    if let (true, Some(task)) = (progress.has_result(), &progress.task) {
        return Ok(go_to("tasks", task.as_str()));
    }
    let name = run.model.as_deref().map_or_else(|| "Task".to_owned(), titled);
    let body = html! {
        div.heading {
            h1 { (name) }
            p.muted { "Run " (run.id) @if let Some(model) = &run.model { " of " a href={ "/models/" (segment(model)) } { (model) } } }
        }
        section.card data-live=[progress.end.is_none().then(|| format!("/runs/events?run={id}"))] {
            h2.hidden { "Progress" }
            div data-run=(run.id) { (steps(&run, &progress)) }
            // The clock of the steps changes too often to be read aloud.
            p.hidden role="status" { (state(&progress).0) }
        }
        @if let Some(model) = &run.model { (same_call(model, &run.inputs, &run.files)) }
    };
    Ok(page_that_reloads(&name, "/runs", progress.end.is_none().then_some(2), body))
}

/// How far a run is, step by step.
pub(crate) fn steps(run: &Run, progress: &Progress) -> Markup {
    let is_created = progress.task.is_some();
    let status = progress.status.as_ref();
    let is_over = progress.end.is_some();
    let (sent, whole) = progress.uploads.values().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let is_queued = matches!(status, Some(TaskStatus::InQueue));
    let is_computing = matches!(status, Some(TaskStatus::Computing));
    let is_done = matches!(progress.end, Some(Ok(_)));
    // Each step: its name, whether it is done, and whether it is the present one.
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
                    @if name == "Upload" && whole > 0 {
                        small.muted { " " (size(sent)) " of " (size(whole)) }
                        @if sent < whole { progress max=(whole) value=(sent) aria-label="Upload" {} }
                    }
                }
            }
        }
        p.clock { (state_badge(progress)) " " (seconds(progress)) @if let Some(task) = &progress.task { " · " a href={ "/tasks/" (segment(task.as_str())) } { "Task " (short(task)) } } }
        @if let Some(note) = &progress.note { p { (note) } }
        @if let (Some(task), true, false) = (&progress.task, is_queued, is_over) {
            form method="post" action={ "/tasks/" (segment(task.as_str())) "/cancel" } { button.quiet type="submit" { "Cancel" } " " span.muted { "A canceled task is not billed." } }
        }
        @if let Some(Err(failure)) = &progress.end {
            (failure)
            p { @if let Some(model) = &run.model { a.button href={ "/models/" (segment(model)) } { "Back to the model" } " " }
                @if let Some(task) = &progress.task { a.button href={ "/tasks/" (segment(task.as_str())) } { "Look at the task again" } } }
        }
    }
}
