//! Errors of runs: limits, failed tasks, deadlines, creates whose outcome is unknown, outputs of another type.

use std::time::Duration;

use inferstore::types::TaskStatus;
use inferstore::{
    CallContext, CostLimit, DeadlineReached, Error, HistoryRead, Outcome, PreparedRun, Retry,
    TaskDisposition, TaskFailure, UnknownOutcome,
};
use serde_json::{Value, json};

use super::{Report, failed, service};
use crate::{lists, run};

#[tokio::test(start_paused = true)]
async fn limits() {
    let service = service();
    let client = service.client().unwrap();
    let mut report = Report::default();
    let _ = service.model("m").costs("0.5".parse().unwrap());
    report.add("too expensive", &failed(run(&client).max_cost("0.1").await));
    service.responds("getModelCost", 200, r#"{"status": "success", "data": {}}"#);
    report.add("without a price", &failed(run(&client).max_cost("0.1").await));
    report.add("a limit made by hand", &Error::CostLimitExceeded(Box::<CostLimit>::default()));
    let _ = service.model("m").is_offline();
    report.add("offline", &failed(run(&client).options(|options| options.require_serving = true).await));
    insta::assert_snapshot!(report.render());
}

#[tokio::test(start_paused = true)]
async fn tasks() {
    let mut report = Report::default();
    let failure = |message: &str, detail: Value| {
        let mut failure = TaskFailure::new("task-1", message);
        failure.detail = Some(detail).filter(|detail| !detail.is_null());
        Error::TaskFailed(Box::new(failure))
    };
    report.add("failed", &failure("", Value::Null));
    report.add("with a message", &failure("out of memory", Value::Null));
    report.add("with the same detail", &failure("out of memory", json!({"message": "out of memory"})));
    report.add("with a text", &failure("out of memory", json!("12 GiB were needed")));
    report.add("with a detail", &failure("out of memory", json!({"code": 7, "needed": "12 GiB"})));
    for kind in ["input", "limit", "model", "service", "new"] {
        let detail = json!({"kind": kind, "message": "the reason"});
        report.add(format!("of the kind {kind}"), &failure("the reason", detail));
    }
    report.add("canceled", &Error::TaskCanceled("task-1".into()));
    let outcome =
        || Outcome::new("task-1", json!({"picture": "https://host.example/a.png", "score": "high"}));
    report.add("another type", &failed(outcome().typed::<Vec<String>>()));
    report.add("no such URL", &failed(outcome().url("mask").map(drop)));
    report.add("no URL at all", &failed(Outcome::new("task-1", json!(7)).url("mask").map(drop)));
    insta::assert_snapshot!(report.render());
}

#[tokio::test(start_paused = true)]
async fn deadlines() {
    let mut report = Report::default();
    for disposition in [
        TaskDisposition::NotCreated,
        TaskDisposition::Canceled,
        TaskDisposition::StillRunning,
        TaskDisposition::CancelUnknown,
        TaskDisposition::Unknown,
        TaskDisposition::NoTask,
    ] {
        let mut reached = DeadlineReached::default();
        reached.disposition = disposition;
        reached.elapsed = Duration::from_millis(61_250);
        let has_task = !matches!(disposition, TaskDisposition::NotCreated | TaskDisposition::NoTask);
        reached.task = has_task.then(|| "task-1".into());
        reached.last_status = has_task.then_some(TaskStatus::InQueue);
        report.add(format!("{disposition:?}"), &Error::DeadlineReached(Box::new(reached)));
    }
    let service = service();
    let client =
        service.client_builder().settings(|settings| settings.retry = Retry::none()).build().unwrap();
    for _ in 0..99 {
        service.loses_response("getTask");
    }
    report.add("no read succeeds", &failed(run(&client).deadline(Duration::from_secs(10)).await));
    report.add("before the create", &failed(run(&client).deadline(Duration::ZERO).await));
    insta::assert_snapshot!(report.render());
}

/// Makes an error of a create of unknown outcome.
fn unknown(status: Option<u16>, candidates: &[&str], history: HistoryRead, is_prepared: bool) -> Error {
    let mut unknown = UnknownOutcome::default();
    unknown.context = CallContext::new("createTask", status);
    unknown.context.message = status.map(|_| "the gateway gave up".to_owned());
    unknown.candidates = candidates.iter().map(|task| (*task).into()).collect();
    unknown.history = history;
    unknown.is_prepared = is_prepared;
    Error::OutcomeUnknown(Box::new(unknown))
}

#[tokio::test(start_paused = true)]
async fn outcomes() {
    let mut report = Report::default();
    for (title, status, is_prepared) in [
        ("lost", None, false),
        ("504", Some(504), false),
        ("200 without an identifier", Some(200), false),
        ("prepared", None, true),
    ] {
        for history in [HistoryRead::Complete, HistoryRead::Partial, HistoryRead::Unreadable] {
            for candidates in [&[][..], &["task-1"], &["task-1", "task-2"]] {
                report.add(title, &unknown(status, candidates, history, is_prepared));
            }
        }
    }
    let service = service();
    let client =
        service.client_builder().settings(|settings| settings.retry = Retry::none()).build().unwrap();
    let prepared: PreparedRun = run(&client).prepare().await.unwrap();
    let prepared = serde_json::from_value(serde_json::to_value(prepared).unwrap()).unwrap();
    let another =
        service.client_builder().settings(|settings| settings.retry = Retry::none()).build().unwrap();
    // Lets the client learn that the service has no idempotency keys.
    another.balance().await.unwrap();
    let record = json!({"task_id": "task-9", "model_id": "m"});
    lists(&service, &json!({"total": 1, "records": [record]}));
    service.responds(
        "getTask",
        200,
        r#"{"status": "success", "data": {"task_id": "task-9", "input_data": null}}"#,
    );
    report.add("a prepared run", &failed(another.adopt_or_start(prepared).await));
    insta::assert_snapshot!(report.render());
}
