//! Results of checks, waits and deadlines, with the test kit and in virtual time.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::time::Duration;

use inferstore::types::TaskStatus;
use inferstore::{Abandon, Error, Inputs, Retry, TaskDisposition, TaskFailure};
use inferstore_testing::ScriptedService;
use serde_json::json;
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_check_shows_the_inputs_as_they_would_be_sent_and_creates_nothing() {
    let service = ScriptedService::new();
    let _ = service.model("m").declares(json!({
        "angle": {"type": "int", "required": true, "num_config": {"min": 1, "max": 90}, "samples": ["30"]},
        "prompt": {"type": "string", "required": true},
    }));
    let model = service.client().unwrap().model("m");
    let checked = model.run(Inputs::new().set("angle", 45).set("prompt", "a lake")).check().await.unwrap();
    assert_eq!(json!(checked), json!({"angle": "45", "prompt": "a lake"}));
    let error = model.run(Inputs::new().set("angle", 100)).check().await.unwrap_err();
    let Error::Inputs(invalid) = error else { panic!("{error:?}") };
    assert_eq!(invalid.violations.len(), 2, "{invalid}");
    assert!(service.created().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_run_uses_the_declaration_that_was_just_read() {
    let service = ScriptedService::new();
    let _ = service
        .model("m")
        .declares(json!({"angle": {"type": "int", "required": true}}))
        .succeeds(json!("done"));
    let model = service.client().unwrap().model("m");
    model.versioning().await.unwrap();
    model.run(Inputs::new().set("angle", 45)).await.unwrap();
    let reads = service.requests().into_iter().filter(|operation| *operation == "getModelVersioning");
    assert_eq!(reads.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_error_says_how_often_and_how_long_a_call_was_tried() {
    let service = ScriptedService::new();
    for _ in 0..10 {
        service.responds("getBalance", 503, "");
    }
    let started = Instant::now();
    let error = service.client().unwrap().balance().await.unwrap_err();
    let context = error.context().unwrap();
    assert_eq!((context.attempts, context.elapsed), (5, started.elapsed()));
    assert!(context.elapsed > Duration::ZERO && error.to_string().contains("after 5 attempts"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_error_says_that_the_retry_budget_is_exhausted() {
    let service = ScriptedService::new();
    let mut retry = Retry::default();
    retry.budget = 1;
    let client = service.client_builder().settings(|settings| settings.retry = retry).build().unwrap();
    for _ in 0..3 {
        service.responds("getBalance", 503, "");
    }
    let error = client.balance().await.unwrap_err();
    let context = error.context().unwrap();
    assert!(context.attempts == 2 && context.is_budget_exhausted, "{context:?}");
    assert!(error.to_string().contains("the retry budget is exhausted"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_tells_the_last_status_and_the_last_failure() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!("done")).takes(600 * SECOND);
    let task = service.client().unwrap().model("m").run(Inputs::new()).start().await.unwrap();
    let error = task.wait().deadline(30 * SECOND).await.unwrap_err();
    let Error::DeadlineReached(reached) = &error else { panic!("{error:?}") };
    assert_eq!(reached.last_status.as_ref().map(|status| status.as_str()), Some("computing"));
    assert!(std::error::Error::source(&error).is_none(), "{error:?}");

    for _ in 0..200 {
        service.responds("getTask", 500, "busy");
    }
    let error = task.wait().deadline(30 * SECOND).await.unwrap_err();
    let Error::DeadlineReached(reached) = &error else { panic!("{error:?}") };
    assert_eq!((reached.last_status.as_ref(), error.status()), (None, Some(500)));
}

#[test]
fn a_failure_shows_its_detail_unless_that_repeats_the_message() {
    let shown = |detail| {
        let mut failure = TaskFailure::new("task-1", "out of memory");
        failure.detail = Some(detail);
        failure.to_string()
    };
    let message = "the task task-1 failed: out of memory";
    assert_eq!(shown(json!("out of memory")), message);
    assert_eq!(shown(json!({"message": "out of memory", "code": 7})), message);
    assert_eq!(shown(json!("at step 7")), format!("{message} (at step 7)"));
    assert_eq!(shown(json!({"code": 7})), format!("{message} ({{\"code\":7}})"));
}

#[test]
fn a_model_offline_before_the_create_is_worth_another_try() {
    let error = Error::ModelOffline("m".into());
    assert!(error.is_retryable() && error.hint().contains("no task was created"), "{}", error.hint());
}

#[tokio::test(start_paused = true)]
async fn a_started_task_is_kept_and_one_at_its_deadline_is_abandoned() {
    let service = ScriptedService::new();
    let _ = service.model("m").stays_queued();
    let client = service.client().unwrap();
    let run = || client.model("m").run(Inputs::new()).on_abandon(Abandon::Cancel);
    let started = run().start().await.unwrap();
    let Err(Error::DeadlineReached(reached)) = run().deadline(10 * SECOND).await else {
        panic!("nothing runs the task")
    };
    assert_eq!(reached.disposition, TaskDisposition::Canceled);
    sleep(60 * SECOND).await;
    let cancels = service.requests().into_iter().filter(|operation| *operation == "cancelTask");
    assert_eq!(cancels.count(), 1);
    assert_eq!(started.get().await.unwrap().status, Some(TaskStatus::InQueue));
}
