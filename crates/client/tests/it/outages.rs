//! Failing or hanging requests of a run, a wait and a create, with the test kit and in virtual time.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, stream};
use inferstore::middleware::{BoxFuture, Middleware, Next};
use inferstore::reqwest::{self, Method, Request, Response};
use inferstore::types::TaskStatus;
use inferstore::{Abandon, Error, File, Inputs, PollInterval, Retry, TaskDisposition};
use inferstore_testing::ScriptedService;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use crate::{count, run};

const SECOND: Duration = Duration::from_secs(1);

/// Effect on requests whose path has this end.
struct To(&'static str, Effect);

#[derive(Clone, Copy)]
enum Effect {
    Hangs,
    /// The request takes effect without a response.
    LosesResponse,
    /// 429 with a `Retry-After` of a minute.
    Refuses,
}

impl Middleware for To {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>> {
        if !request.url().path().ends_with(self.0) {
            return next.run(request);
        }
        match self.1 {
            Effect::Hangs => std::future::pending().boxed(),
            Effect::LosesResponse => async move {
                let _ = next.run(request).await;
                std::future::pending().await
            }
            .boxed(),
            Effect::Refuses => refusal(429, 60),
        }
    }
}

/// Returns a response with this status and a `Retry-After` of this many seconds.
fn refusal<'a>(status: u16, pause: u64) -> BoxFuture<'a, reqwest::Result<Response>> {
    let refusal = axum::http::Response::builder().status(status).header("retry-after", pause);
    std::future::ready(Ok(Response::from(refusal.body("").unwrap()))).boxed()
}

/// Sends responses byte by byte, with gaps below the read timeout.
struct Drips;

impl Middleware for Drips {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>> {
        Box::pin(async move {
            let bytes = next.run(request).await?.bytes().await?;
            let slow = stream::iter(bytes).then(|byte| async move {
                sleep(59 * SECOND).await;
                Ok::<_, std::io::Error>(vec![byte])
            });
            Ok(axum::http::Response::new(reqwest::Body::wrap_stream(slow)).into())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_that_comes_byte_by_byte_holds_a_call_for_ten_read_timeouts() {
    let service = ScriptedService::new().without_idempotency_keys();
    let mut retry = Retry::none();
    retry.max_attempts = 2;
    let client = service
        .client_builder()
        .middleware(Drips)
        .settings(|settings| settings.retry = retry)
        .build()
        .unwrap();
    let started = Instant::now();
    let error = client.balance().await.unwrap_err();
    assert!(matches!(error, Error::Transport(_)) && error.is_retryable(), "{error:?}");
    assert!(format!("{error:?}").contains("600.0 s"), "{error:?}");
    let elapsed = started.elapsed();
    assert!((1_200 * SECOND..1_230 * SECOND).contains(&elapsed), "after {elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_redirect_of_a_gateway_does_not_end_a_wait() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").succeeds(json!("done"));
    let task = run(&service.client().unwrap()).start().await.unwrap();
    service.responds("getTask", 302, "").responds("getTask", 307, "");
    assert_eq!(task.wait().await.unwrap().output, "done");
}

#[tokio::test(start_paused = true)]
async fn a_lost_create_is_not_taken_for_a_task_that_had_ended_before() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").succeeds(json!("first")).succeeds(json!("second"));
    let earlier = run(&service.client().unwrap()).await.unwrap();
    sleep(30 * SECOND).await;
    service.responds("createTask", 502, "");
    let error = run(&service.client().unwrap()).await.unwrap_err();
    let Error::OutcomeUnknown(unknown) = &error else { panic!("{error:?}") };
    assert_eq!(unknown.candidates, [earlier.task], "it may be the one, by a clock that is behind");
    service.loses_response("createTask");
    assert_eq!(run(&service.client().unwrap()).await.unwrap().output, "second");
}

#[tokio::test(start_paused = true)]
async fn a_lost_create_is_not_resent_while_a_candidate_cannot_be_read() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").stays_queued();
    let client = service.client_builder().middleware(To("/detail", Effect::Refuses)).build().unwrap();
    service.loses_response("createTask");
    let create = run(&client).start();
    let error = create.await.unwrap_err();
    assert!(matches!(error, Error::OutcomeUnknown(_)), "{error:?}");
    assert_eq!(service.created().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lost_create_is_found_at_the_end_of_a_long_history() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").succeeds(json!("done"));
    let earlier = service.client().unwrap();
    for number in 0..120 {
        earlier.model("m").run(Inputs::new().set("number", number)).start().await.unwrap();
    }
    service.loses_response("createTask");
    let task = run(&service.client().unwrap()).start().await.unwrap();
    assert_eq!(*task.id(), service.created().remove(120).task);
}

#[tokio::test(start_paused = true)]
async fn the_task_of_a_dropped_run_is_canceled_although_the_service_is_busy() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").stays_queued();
    let client = service.client().unwrap();
    for status in [429, 503, 502] {
        service.responds("cancelTask", status, "");
    }
    let mut run = run(&client).on_abandon(Abandon::Cancel).into_future();
    let waits = timeout(5 * SECOND, &mut run).await;
    assert!(waits.is_err(), "{waits:?}");
    drop(run);
    sleep(60 * SECOND).await;
    let task = client.task(service.created().remove(0).task).get().await.unwrap();
    assert_eq!(task.status, Some(TaskStatus::Canceled));
}

/// Counts cancels, and rejects them with a 503 without `Retry-After`.
#[derive(Clone, Debug, Default)]
struct RefusedCancels(Arc<AtomicU32>);

impl Middleware for RefusedCancels {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>> {
        if request.method() != Method::DELETE {
            return next.run(request);
        }
        match self.0.fetch_add(1, Ordering::Relaxed) {
            0..10 => refusal(503, 0),
            // A flood ends the test.
            _ => std::future::pending().boxed(),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_asks_for_no_pause_is_not_flooded_with_cancels() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").stays_queued();
    let cancels = RefusedCancels::default();
    let client = service.client_builder().middleware(cancels.clone()).build().unwrap();
    let waits = timeout(5 * SECOND, run(&client).on_abandon(Abandon::Cancel)).await;
    assert!(waits.is_err(), "{waits:?}");
    sleep(120 * SECOND).await;
    let sent = cancels.0.load(Ordering::Relaxed);
    assert!((2..10).contains(&sent), "{sent}");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_at_the_deadline_is_sent_again_after_a_limit_of_requests() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").stays_queued();
    service.responds("cancelTask", 429, "");
    let run = run(&service.client().unwrap()).deadline(20 * SECOND).on_abandon(Abandon::Cancel);
    let error = run.await.unwrap_err();
    let Error::DeadlineReached(reached) = &error else { panic!("{error:?}") };
    assert_eq!(reached.disposition, TaskDisposition::Canceled);
}

#[tokio::test(start_paused = true)]
async fn a_task_leased_before_its_cancel_is_waited_for_until_the_deadline() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").succeeds(json!("done")).takes(9 * SECOND);
    let task = run(&service.client().unwrap()).start().await.unwrap();
    // At once, and at the last read before the cancel, after eight seconds.
    let queued = json!({ "task_id": task.id(), "status": "in_queue" });
    for _ in 0..2 {
        service.responds("getTask", 200, json!({ "status": "success", "message": "ok", "data": queued }));
    }
    let wait = task.wait().poll(PollInterval::every(100 * SECOND)).deadline(10 * SECOND);
    assert_eq!(wait.cancel_at_deadline(true).await.unwrap().output, "done");
    assert_eq!(count(&service.requests(), "cancelTask"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_model_without_a_name_is_refused_before_anything_is_sent() {
    let service = ScriptedService::new().without_idempotency_keys();
    let client = service.client().unwrap();
    let inputs = || Inputs::new().file("input", File::bytes("a.png", b"pixels".to_vec()));
    let run = || client.model("").run(inputs()).options(|options| options.skip_validation = true);
    for error in [run().await.unwrap_err(), run().check().await.unwrap_err()] {
        assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
    }
    assert!(service.requests().is_empty(), "{:?}", service.requests());
}

#[tokio::test(start_paused = true)]
async fn a_create_under_way_in_one_client_is_waited_for_by_another() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").succeeds(json!("done"));
    let first = service.client_builder().middleware(To("/model/m/task", Effect::Hangs)).build().unwrap();
    let prepared = first.model("m").prepare(Inputs::new()).await.unwrap();
    sleep(600 * SECOND).await;
    // A gateway may hold a sent create.
    let dropped = timeout(SECOND, first.adopt_or_start(prepared.clone())).await;
    assert!(dropped.is_err(), "{dropped:?}");
    let started = Instant::now();
    service.client().unwrap().adopt_or_start(prepared).await.unwrap();
    assert!(started.elapsed() > 50 * SECOND, "after {:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_the_deadline_cut_off_is_deleted_when_asked_for() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").succeeds(json!("done"));
    let client = service.client_builder().middleware(To(".png", Effect::LosesResponse)).build().unwrap();
    let inputs = Inputs::new().file("input", File::bytes("a.png", b"pixels".to_vec()));
    let run = client
        .model("m")
        .run(inputs)
        .options(|options| options.delete_inputs_after = true)
        .deadline(5 * SECOND);
    let error = run.await.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    let requests = service.requests();
    assert_eq!((count(&requests, "upload"), count(&requests, "deleteFile")), (1, 1), "{requests:?}");
}

#[tokio::test(start_paused = true)]
async fn inputs_that_a_model_declares_since_a_moment_are_not_refused() {
    let service = ScriptedService::new().without_idempotency_keys();
    let model = service.model("m").succeeds(json!("done")).declares(json!({"a": {"type": "string"}}));
    let client = service.client().unwrap();
    let inputs = || Inputs::new().set("a", "text");
    client.model("m").run(inputs()).check().await.unwrap();
    let _ = model.declares(json!({"a": {"type": "string"}, "b": {"type": "string"}}));
    client.model("m").run(inputs().set("b", "text")).check().await.unwrap();
    let error = client.model("m").run(inputs().set("c", "text")).check().await.unwrap_err();
    assert!(matches!(error, Error::Inputs(_)), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn what_a_model_declares_shows_no_secret_in_an_error() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").declares(json!({
        "isk_test": {"type": "options", "samples": ["isk_test", "policy=SECRETSECRET"], "required": true},
    }));
    let client = service.client().unwrap();
    for inputs in [Inputs::new(), Inputs::new().set("isk_test", "x"), Inputs::new().set("isk_tes", "x")] {
        let error = client.model("m").run(inputs).await.unwrap_err();
        let Error::Inputs(_) = &error else { panic!("{error:?}") };
        let shown = format!("{error:?} {error}");
        assert!(!shown.contains("isk_test\"") && !shown.contains("SECRETSECRET"), "{shown}");
    }
}
