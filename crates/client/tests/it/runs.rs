//! What a check, a wait and a deadline tell, with the test kit and in virtual time.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::time::Duration;

use futures_util::StreamExt;
use inferstore::testing::ScriptedService;
use inferstore::types::TaskStatus;
use inferstore::{Error, Inputs, ModelOffline, Retry, TaskDisposition, TaskFailure};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::count;

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
async fn a_client_that_is_new_learns_how_long_a_model_takes_from_the_history() {
    let service = ScriptedService::new();
    let mut model = service.model("m").takes(20 * SECOND);
    for _ in 0..6 {
        model = model.succeeds(json!("done"));
    }
    let first = service.client().unwrap();
    for _ in 0..4 {
        first.model("m").run(Inputs::new()).await.unwrap();
    }
    let reads = async |learn| {
        let before = service.requests().len();
        let client = service.client().unwrap();
        client.model("m").run(Inputs::new()).learn_from_history(learn).await.unwrap();
        let requests = &service.requests()[before..];
        (count(requests, "listTasks"), count(requests, "getTask"))
    };
    let (pages, ignorant) = reads(false).await;
    let (pages_read, informed) = reads(true).await;
    assert_eq!((pages, pages_read), (0, 2));
    assert!(informed < ignorant, "{informed} reads, and {ignorant} without the history");
}

#[tokio::test(start_paused = true)]
async fn tasks_in_a_long_history_are_looked_for_on_no_more_pages_than_there_are_tasks() {
    let service = ScriptedService::new();
    let mut model = service.model("m").takes(60 * SECOND);
    for number in 0..450 {
        model = model.succeeds(json!(number));
    }
    let client = service.client().unwrap();
    let mut tasks = Vec::new();
    for _ in 0..450 {
        tasks.push(client.model("m").run(Inputs::new()).start().await.unwrap().id().clone());
    }
    for (waited_for, expected) in [([&tasks[0], &tasks[1]], 3), ([&tasks[448], &tasks[449]], 2)] {
        let before = service.requests().len();
        let outcomes: Vec<_> = client.tasks().wait_all(waited_for).collect().await;
        assert!(outcomes.iter().all(|(_, outcome)| outcome.is_ok()), "{outcomes:?}");
        let pages = count(&service.requests()[before..], "listTasks");
        // The first request is for the length of the history.
        assert_eq!(pages, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_says_how_often_and_how_long_a_call_was_tried() {
    let service = ScriptedService::new();
    for _ in 0..10 {
        service.responds("getBalance", 503, "");
    }
    let started = Instant::now();
    let error = service.client().unwrap().account().balance().await.unwrap_err();
    let context = error.context().unwrap();
    assert_eq!((context.attempts, context.elapsed), (5, started.elapsed()));
    assert!(context.elapsed > Duration::ZERO && error.to_string().contains("after 5 attempts"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_error_says_that_the_retry_budget_is_exhausted() {
    let service = ScriptedService::new();
    let mut retry = Retry::default();
    retry.budget = 1;
    let client = service.client_builder().retry(retry).build().unwrap();
    for _ in 0..3 {
        service.responds("getBalance", 503, "");
    }
    let error = client.account().balance().await.unwrap_err();
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
fn a_model_that_was_offline_before_a_task_was_created_is_worth_another_try() {
    let error = Error::ModelOffline(Box::new(ModelOffline::new("m")));
    assert!(error.is_retryable() && error.hint().contains("no task was created"), "{}", error.hint());
}

#[tokio::test(start_paused = true)]
async fn cancel_on_drop_cancels_no_task_whose_run_has_returned() {
    let service = ScriptedService::new();
    let _ = service.model("m").stays_queued();
    let client = service.client().unwrap();
    let run = || client.model("m").run(Inputs::new()).cancel_on_drop(true);
    let started = run().start().await.unwrap();
    let Err(Error::DeadlineReached(reached)) = run().deadline(10 * SECOND).await else {
        panic!("nothing runs the task")
    };
    assert_eq!(reached.disposition, TaskDisposition::StillRunning);
    sleep(60 * SECOND).await;
    assert!(!service.requests().contains(&"cancelTask"), "{:?}", service.requests());
    assert_eq!(started.get().await.unwrap().status, Some(TaskStatus::InQueue));
}
