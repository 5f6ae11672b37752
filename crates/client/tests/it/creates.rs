//! Retries of a create, with the test kit and in virtual time.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use inferstore::middleware::{BoxFuture, Middleware, Next};
use inferstore::reqwest::{self, Method, Request, Response, header::DATE};
use inferstore::{Abandon, Error, Inputs, PreparedRun, RunEvent};
use inferstore_testing::ScriptedService;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{count, lists, run};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_rejected_create_is_not_sent_again() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").succeeds(json!("done"));
    let client = service.client().unwrap();
    for status in [429, 503] {
        service.responds("createTask", status, r#"{"status": "fail", "message": "busy"}"#);
        let error = run(&client).await.unwrap_err();
        assert_eq!(error.status(), Some(status), "{error:?}");
        assert!(service.created().is_empty() && !error.is_retryable(), "{error:?}");
    }
    assert_eq!(count(&service.requests(), "createTask"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_create_without_a_trace_is_not_sent_again() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").succeeds(json!("done"));
    service.responds("createTask", 502, "");
    let error = run(&service.client().unwrap()).await.unwrap_err();
    assert!(matches!(error, Error::OutcomeUnknown(_)), "{error:?}");
    assert_eq!((count(&service.requests(), "createTask"), service.created().len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_lost_response_never_creates_a_second_task() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").succeeds(json!("done"));
    let client = service.client().unwrap();
    service.loses_response("createTask");
    let outcome = run(&client).await.unwrap();
    assert_eq!((outcome.output, count(&service.requests(), "createTask")), (json!("done"), 1));
}

#[tokio::test(start_paused = true)]
async fn a_lost_create_that_may_be_one_of_several_tasks_is_not_sent_again() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").stays_queued();
    let client = service.client().unwrap();
    for _ in 0..2 {
        run(&service.client().unwrap()).start().await.unwrap();
    }
    service.responds("createTask", 502, "");
    let error = run(&client).start().await.unwrap_err();
    let Error::OutcomeUnknown(unknown) = &error else { panic!("{error:?}") };
    assert_eq!((unknown.candidates.len(), service.created().len()), (2, 2));
    assert_eq!(count(&service.requests(), "listTasks"), 1, "another look can only show more of them");
}

#[tokio::test(start_paused = true)]
async fn a_lost_task_that_two_pages_of_the_history_show_is_one_task() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").stays_queued();
    let client = service.client().unwrap();
    let task = run(&service.client().unwrap()).start().await.unwrap();
    let of_others = |number| json!({ "task_id": format!("task-of-others-{number}"), "model_id": "other" });
    let lost = json!({ "task_id": task.id(), "model_id": "m" });
    let page = |records: Vec<Value>| {
        let data = json!({ "total": 250, "records": records });
        lists(&service, &data);
    };
    page((0..100).map(of_others).collect());
    page([lost.clone()].into_iter().chain((151..250).map(of_others)).collect());
    // No task was added since the total was counted.
    page(Vec::new());
    // Meanwhile the oldest task was deleted, so that all others moved up by one.
    page((51..150).map(of_others).chain([lost]).collect());
    service.responds("createTask", 502, "");
    assert_eq!(run(&client).start().await.unwrap().id(), task.id());
    assert_eq!(count(&service.requests(), "listTasks"), 4);
}

#[tokio::test(start_paused = true)]
async fn a_lost_task_is_found_in_a_history_without_total_after_a_while() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").stays_queued();
    let client = service.client().unwrap();
    let task = run(&service.client().unwrap()).start().await.unwrap();
    let page = |records: Value| {
        let data = json!({ "records": records });
        lists(&service, &data);
    };
    page(json!([]));
    page(json!([]));
    page(json!([{ "task_id": task.id(), "model_id": "m" }]));
    service.responds("createTask", 502, "");
    let lost_at = Instant::now();
    assert_eq!(run(&client).start().await.unwrap().id(), task.id());
    let backoff = inferstore::Retry::default().initial_backoff;
    assert!(lost_at.elapsed() >= 3 * backoff, "each pause is longer: {:?}", lost_at.elapsed());
}

struct SlowFirst {
    delay: Duration,
    has_created: AtomicBool,
}

impl Middleware for SlowFirst {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>> {
        Box::pin(async move {
            let is_create = request.method() == Method::POST && request.url().path().ends_with("/task");
            if is_create && !self.has_created.swap(true, Ordering::Relaxed) {
                tokio::time::sleep(self.delay).await;
            }
            next.run(request).await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_task_is_found_once_the_other_create_has_its_own_task() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").stays_queued();
    let slow = SlowFirst { delay: Duration::from_millis(300), has_created: false.into() };
    let client = service.client_builder().middleware(slow).build().unwrap();
    service.loses_response("createTask");
    let (slow, lost) = tokio::join!(run(&client).start(), run(&client).start());
    let mut found = [slow, lost].map(|task| task.unwrap().id().to_string());
    found.sort();
    assert_eq!(found, ["task-1", "task-2"]);
}

#[tokio::test(start_paused = true)]
async fn a_prepared_run_with_a_lost_create_waits_for_the_settle_time() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").succeeds(json!("done"));
    let client = service
        .client_builder()
        .settings(|settings| settings.create_settle_time = 300 * SECOND)
        .build()
        .unwrap();
    let prepared = client.model("m").prepare(Inputs::new()).await.unwrap();
    tokio::time::sleep(400 * SECOND).await;
    service.responds("createTask", 502, "");
    let error = client.adopt_or_start(prepared.clone()).await.unwrap_err();
    assert!(matches!(error, Error::OutcomeUnknown(_)), "{error:?}");
    let lost_at = Instant::now();
    client.adopt_or_start(prepared).await.unwrap();
    assert!(lost_at.elapsed() > 290 * SECOND, "after {:?}", lost_at.elapsed());
    assert_eq!(count(&service.requests(), "createTask"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_search_of_the_history_is_followed_by_a_pause_whatever_the_backoff() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").succeeds(json!("done"));
    let mut retry = inferstore::Retry::default();
    retry.initial_backoff = Duration::ZERO;
    let client = service.client_builder().build().unwrap();
    let prepared = client.model("m").prepare(Inputs::new()).await.unwrap();
    let journal = serde_json::to_string(&prepared).unwrap();
    let after = service.client_builder().settings(|settings| settings.retry = retry).build().unwrap();
    after.adopt_or_start(serde_json::from_str(&journal).unwrap()).await.unwrap();
    let searches = count(&service.requests(), "listTasks");
    assert!(searches < 100, "{searches} in a minute");
}

#[tokio::test(start_paused = true)]
async fn a_prepared_run_is_the_one_that_a_journal_kept() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").succeeds(json!("done"));
    let client = service.client().unwrap();
    let prepared = client.model("m").prepare(Inputs::new().set("prompt", "a lake")).await.unwrap();
    let kept: PreparedRun = serde_json::from_str(&serde_json::to_string(&prepared).unwrap()).unwrap();
    assert_eq!(kept, prepared);
    let other = client.model("m").prepare(Inputs::new().set("prompt", "a hill")).await.unwrap();
    assert_ne!(other, prepared);
}

#[tokio::test(start_paused = true)]
async fn a_prepared_run_that_was_read_back_is_created_only_within_its_limits() {
    let service = ScriptedService::new().without_idempotency_keys();
    let model = service.model("m").costs("0.01".parse().unwrap()).succeeds(json!("done"));
    let client = service.client().unwrap();
    let prepared = client.model("m").run(Inputs::new()).max_cost("100").prepare().await.unwrap();
    let kept = serde_json::to_string(&prepared).unwrap();
    let model = model.costs("900".parse().unwrap());
    let error = client.adopt_or_start(serde_json::from_str(&kept).unwrap()).await.unwrap_err();
    assert!(matches!(error, Error::CostLimitExceeded(_)), "{error:?}");
    let _ = model.is_offline();
    let mut prepared: PreparedRun = serde_json::from_str(&kept).unwrap();
    prepared.max_cost = None;
    prepared.require_serving = true;
    let error = client.adopt_or_start(prepared).await.unwrap_err();
    assert!(matches!(error, Error::ModelOffline(_)), "{error:?}");
    assert_eq!(count(&service.requests(), "createTask"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_dropped_at_the_event_before_its_create_sends_none() {
    for policy in [Abandon::Leave, Abandon::Cancel, Abandon::CancelAndDelete] {
        let service = ScriptedService::new().without_idempotency_keys();
        let _ = service.model("m").succeeds(json!("done"));
        let client = service.client().unwrap();
        let start = || client.model("m").run(Inputs::new()).on_abandon(policy);
        let mut events = start().events();
        while events.next().await.is_some_and(|event| event != RunEvent::Creating) {}
        // Such as for the consent of a person.
        tokio::time::sleep(60 * SECOND).await;
        drop(events);
        tokio::time::sleep(60 * SECOND).await;
        assert_eq!(count(&service.requests(), "createTask"), 0, "{policy:?}");
        let mut events = start().events();
        while events.next().await.is_some_and(|event| event != RunEvent::Creating) {}
        tokio::time::sleep(60 * SECOND).await;
        events.finish().await.unwrap();
        start().await.unwrap();
        assert_eq!(service.created().len(), 2, "{policy:?}");
    }
}

/// Drops runs on the thread of the test, while a worker of the runtime sends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_dropped_on_another_thread_sends_no_create() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!("done"));
    let client = service.client().unwrap();
    for _ in 0..100 {
        let mut events = client.model("m").run(Inputs::new()).on_abandon(Abandon::Cancel).events();
        while events.next().await.is_some_and(|event| event != RunEvent::Creating) {}
        drop(events);
    }
    // Whatever was spawned has ended when all handles of the client are gone.
    let requests = || service.requests().len();
    let mut before = 0;
    while std::mem::replace(&mut before, requests()) != requests() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(count(&service.requests(), "createTask"), 0);
}

/// Service whose clock is ahead of this machine's, at the latest after the first create.
struct Ahead {
    by: Duration,
    is_ahead: AtomicBool,
}

impl Middleware for Ahead {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>> {
        if request.method() == Method::POST && request.url().path().ends_with("/task") {
            self.is_ahead.store(true, Ordering::Relaxed);
        }
        Box::pin(async move {
            let mut response = next.run(request).await?;
            let ahead = if self.is_ahead.load(Ordering::Relaxed) { self.by } else { Duration::ZERO };
            let date = httpdate::fmt_http_date(SystemTime::now() + ahead);
            response.headers_mut().insert(DATE, date.parse().unwrap());
            Ok(response)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_prepared_run_is_found_although_the_local_clock_was_set_back() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").succeeds(json!("done"));
    let client = |by| {
        let ahead = Ahead { by, is_ahead: true.into() };
        service.client_builder().middleware(ahead).build().unwrap()
    };
    let before = client(Duration::ZERO);
    let prepared = before.model("m").prepare(Inputs::new()).await.unwrap();
    let journal = serde_json::to_string(&prepared).unwrap();
    let task = before.adopt_or_start(prepared).await.unwrap();
    // Five minutes pass while this machine is suspended.
    let after = client(300 * SECOND);
    let adopted = after.adopt_or_start(serde_json::from_str(&journal).unwrap()).await.unwrap();
    assert_eq!((adopted.id(), service.created().len()), (task.id(), 1));
}

#[tokio::test(start_paused = true)]
async fn a_prepared_run_that_is_read_twice_becomes_one_task() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").succeeds(json!("done"));
    let before = service.client().unwrap();
    let prepared = before.model("m").prepare(Inputs::new()).await.unwrap();
    let journal = serde_json::to_string(&prepared).unwrap();
    let read = || serde_json::from_str(&journal).unwrap();
    for client in [before, service.client().unwrap()] {
        // The second call began before the first one had its task.
        let (one, other) = tokio::join!(client.adopt_or_start(read()), client.adopt_or_start(read()));
        let later = client.adopt_or_start(read()).await.unwrap();
        assert_eq!([one.unwrap().id(), other.unwrap().id()], [later.id(); 2]);
        assert_eq!(service.created().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_prepared_run_with_other_inputs_is_another_run() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").succeeds(json!("done"));
    let client = service.client().unwrap();
    let prepared = client.model("m").prepare(Inputs::new().set("prompt", "a lake")).await.unwrap();
    let mut other = prepared.clone();
    other.inputs["prompt"] = json!("a hill");
    let ids = [client.adopt_or_start(prepared).await.unwrap(), client.adopt_or_start(other).await.unwrap()];
    assert_ne!(ids[0].id(), ids[1].id());
    assert_eq!(service.created().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_prepared_run_keeps_its_limits_until_its_create() {
    let service = ScriptedService::new().without_idempotency_keys();
    let model = service.model("m").costs("0.01".parse().unwrap()).succeeds(json!("done"));
    let client = service.client().unwrap();
    let mut prepared = client.model("m").run(Inputs::new()).max_cost("100").prepare().await.unwrap();
    let _ = model.costs("900".parse().unwrap());
    let error = client.adopt_or_start(prepared.clone()).await.unwrap_err();
    assert!(matches!(error, Error::CostLimitExceeded(_)), "{error:?}");
    prepared.max_cost = None;
    let started = Instant::now();
    client.adopt_or_start(prepared).await.unwrap();
    assert_eq!(started.elapsed(), Duration::ZERO, "no create was sent that could still appear");
}

#[tokio::test(start_paused = true)]
async fn a_prepared_run_with_a_rejected_create_is_created_at_once() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").succeeds(json!("done"));
    let client = service.client().unwrap();
    let prepared = client.model("m").prepare(Inputs::new()).await.unwrap();
    service.responds("createTask", 402, "");
    let error = client.adopt_or_start(prepared.clone()).await.unwrap_err();
    assert!(error.is_insufficient_balance(), "{error:?}");
    let started = Instant::now();
    client.adopt_or_start(prepared).await.unwrap();
    assert_eq!((started.elapsed(), service.created().len()), (Duration::ZERO, 1));
}

#[tokio::test(start_paused = true)]
async fn a_lost_task_is_found_although_this_machine_was_suspended_meanwhile() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").succeeds(json!("done"));
    let ahead = Ahead { by: 600 * SECOND, is_ahead: false.into() };
    let client = service.client_builder().middleware(ahead).build().unwrap();
    service.loses_response("createTask");
    run(&client).await.unwrap();
    assert_eq!(count(&service.requests(), "createTask"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_no_price_can_be_compared_with_refuses_the_run() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").succeeds(json!("done"));
    service.responds("getModelCost", 200, json!({ "status": "success", "data": {} }));
    let error = run(&service.client().unwrap()).max_cost("1").await.unwrap_err();
    assert!(matches!(&error, Error::CostLimitExceeded(limit) if limit.quote.is_none()), "{error:?}");
    assert!(error.to_string().contains("states no price") && error.hint().contains("max_cost"), "{error:?}");
    assert!(service.created().is_empty());
}

#[test]
fn a_create_that_is_lost_with_its_runtime_is_named() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").succeeds(json!("done"));
    let mut run = run(&service.client().unwrap())
        .on_abandon(Abandon::Cancel)
        .options(|options| options.skip_validation = true)
        .into_future();
    runtime.block_on(async {
        // The run has passed the create to the runtime.
        for _ in 0..3 {
            assert!(run.poll_unpin(&mut Context::from_waker(Waker::noop())).is_pending());
        }
    });
    drop(runtime);
    let error = run.now_or_never().unwrap().unwrap_err();
    assert!(matches!(error, Error::OutcomeUnknown(_)), "{error:?}");
    assert!(error.to_string().contains("createTask got no usable response"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_create_that_was_sent_before_a_crash_is_waited_for_and_not_sent_again() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").succeeds(json!({}));
    let before = service.client().unwrap();
    let prepared = before.model("m").prepare(Inputs::new()).await.unwrap();
    let journal = serde_json::to_string(&prepared).unwrap();
    let after = service.client().unwrap();
    // The age of the client that takes the run over does not matter.
    tokio::time::sleep(600 * SECOND).await;
    // A gateway holds the create of the killed process.
    let held = tokio::spawn(async move {
        tokio::time::sleep(30 * SECOND).await;
        before.adopt_or_start(prepared).await.unwrap().id().clone()
    });
    let task = after.adopt_or_start(serde_json::from_str(&journal).unwrap()).await.unwrap();
    assert_eq!(*task.id(), held.await.unwrap());
    assert_eq!(service.created().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_prepared_run_without_trace_is_created_once_none_can_appear() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").succeeds(json!({}));
    let before = service.client().unwrap();
    let client = service
        .client_builder()
        .settings(|settings| settings.create_settle_time = 10 * SECOND)
        .build()
        .unwrap();
    let mut read = Vec::new();
    for _ in 0..2 {
        let prepared = before.model("m").prepare(Inputs::new()).await.unwrap();
        let journal = serde_json::to_string(&prepared).unwrap();
        read.push(serde_json::from_str(&journal).unwrap());
    }
    let started = Instant::now();
    for prepared in read {
        client.adopt_or_start(prepared).await.unwrap();
        assert_eq!(started.elapsed().as_secs(), 10, "since they were read");
    }
    assert_eq!(service.created().len(), 2, "each of the two runs has its task");
}

#[tokio::test(start_paused = true)]
async fn a_task_from_long_before_a_lost_create_is_not_taken_for_its_task() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").stays_queued();
    run(&service.client().unwrap()).start().await.unwrap();
    // Ten minutes later, by the clock of the service.
    let ahead = Ahead { by: 600 * SECOND, is_ahead: true.into() };
    let client = service.client_builder().middleware(ahead).build().unwrap();
    service.responds("createTask", 502, "");
    let error = run(&client).start().await.unwrap_err();
    assert!(matches!(&error, Error::OutcomeUnknown(unknown) if unknown.candidates.is_empty()), "{error:?}");
}
