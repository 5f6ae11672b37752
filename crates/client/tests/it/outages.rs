//! What a run, a wait and a create do when one request fails or hangs, with the test kit and in virtual time.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, stream};
use inferstore::middleware::{BoxFuture, Middleware, Next};
use inferstore::reqwest::{self, Method, Request, Response};
use inferstore::testing::ScriptedService;
use inferstore::types::TaskStatus;
use inferstore::{Error, File, Inputs, PollInterval, Retry, RunEvent, TaskDisposition};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use crate::{count, run};

const SECOND: Duration = Duration::from_secs(1);

const HISTORY: &str = "/task/histories";

/// Requests whose path ends with this.
struct To(&'static str, Effect);

#[derive(Clone, Copy)]
enum Effect {
    /// Nothing is sent.
    Hangs,
    /// The request has its effect, and no response comes.
    LosesResponse,
    /// A 429 that asks for a minute.
    Refuses,
    /// The response comes after a second.
    Delays,
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
            Effect::Delays => sleep(SECOND).then(|()| next.run(request)).boxed(),
        }
    }
}

/// A response with this status that asks for a pause of so many seconds.
fn refusal<'a>(status: u16, pause: u64) -> BoxFuture<'a, reqwest::Result<Response>> {
    let refusal = axum::http::Response::builder().status(status).header("retry-after", pause);
    std::future::ready(Ok(Response::from(refusal.body("").unwrap()))).boxed()
}

/// Counts the requests whose path ends with this.
#[derive(Clone, Debug)]
struct Asked(&'static str, Arc<AtomicU32>);

impl Middleware for Asked {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>> {
        self.1.fetch_add(u32::from(request.url().path().ends_with(self.0)), Ordering::Relaxed);
        next.run(request)
    }
}

#[tokio::test(start_paused = true)]
async fn outcomes_come_although_the_read_of_another_task_hangs() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!("done"));
    let client = service.client_builder().middleware(To("/task-7/detail", Effect::Hangs)).build().unwrap();
    let mut tasks = Vec::new();
    for _ in 0..20 {
        tasks.push(run(&client).start().await.unwrap().id().clone());
    }
    sleep(10 * SECOND).await;
    let mut all = client.tasks().wait_all(tasks);
    let first = async {
        for _ in 0..19 {
            all.next().await.unwrap().1.unwrap();
        }
    };
    timeout(10 * SECOND, first).await.unwrap();
    let late = run(&client).start().await.unwrap();
    all.add(late.id());
    let (task, outcome) = timeout(90 * SECOND, all.next()).await.unwrap().unwrap();
    assert!(task == *late.id() && outcome.is_ok(), "{task}: {outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_added_does_not_wait_for_the_last_other_one_that_hangs() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!("done"));
    let client = service.client_builder().middleware(To("/task-1/detail", Effect::Hangs)).build().unwrap();
    let hanging = run(&client).start().await.unwrap();
    let late = run(&client).start().await.unwrap();
    let mut all = client.tasks().wait_all([hanging.id()]);
    assert!(timeout(10 * SECOND, all.next()).await.is_err());
    all.add(late.id());
    let (task, outcome) = timeout(90 * SECOND, all.next()).await.unwrap().unwrap();
    assert!(task == *late.id() && outcome.is_ok(), "{task}: {outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn a_program_can_make_calls_between_outcomes_although_one_request_at_a_time_is_allowed() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!("done"));
    let builder = service.client_builder().max_concurrent_requests(1);
    let client = builder.middleware(To("/detail", Effect::Delays)).build().unwrap();
    let mut tasks = Vec::new();
    for _ in 0..3 {
        tasks.push(run(&client).start().await.unwrap().id().clone());
    }
    sleep(10 * SECOND).await;
    let mut all = client.tasks().wait_all(tasks);
    while let Some((task, outcome)) = all.next().await {
        outcome.unwrap();
        timeout(60 * SECOND, client.task(task).get()).await.unwrap().unwrap();
    }
}

/// Sends the bytes of each response one by one, so slowly that the gaps between them are no timeout.
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
    let service = ScriptedService::new();
    let mut retry = Retry::none();
    retry.max_attempts = 2;
    let client = service.client_builder().middleware(Drips).retry(retry).build().unwrap();
    let started = Instant::now();
    let error = client.account().balance().await.unwrap_err();
    assert!(matches!(error, Error::Transport(_)) && error.is_retryable(), "{error:?}");
    assert!(format!("{error:?}").contains("600.0 s"), "{error:?}");
    let elapsed = started.elapsed();
    assert!((1_200 * SECOND..1_230 * SECOND).contains(&elapsed), "after {elapsed:?}");
}

/// Never shows the first twelve tasks.
struct HidesTwelve;

impl Middleware for HidesTwelve {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>> {
        let shown = request.url().path().split('/').find_map(|segment| segment.strip_prefix("task-"));
        match shown.and_then(|number| number.parse().ok()) {
            Some(1..=12) => std::future::pending().boxed(),
            _ => next.run(request),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn outcomes_come_although_the_reads_of_many_other_tasks_hang() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!("done"));
    let builder = service.client_builder().middleware(HidesTwelve);
    let client = builder.middleware(To("/detail", Effect::Delays)).build().unwrap();
    let mut tasks = Vec::new();
    for _ in 0..20 {
        tasks.push(run(&client).start().await.unwrap().id().clone());
    }
    let mut all = client.tasks().wait_all(tasks);
    let shown = async {
        for _ in 0..8 {
            all.next().await.unwrap().1.unwrap();
        }
    };
    timeout(300 * SECOND, shown).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_page_of_the_history_that_failed_once_saves_reads_again_later() {
    let service = ScriptedService::new();
    let _ = service.model("m").stays_queued();
    let client = service.client().unwrap();
    let mut tasks = Vec::new();
    for _ in 0..20 {
        tasks.push(run(&client).start().await.unwrap().id().clone());
    }
    let mut all = client.tasks().wait_all(tasks).poll(PollInterval::every(10 * SECOND));
    service.responds("listTasks", 200, r#"{"status": "success", "data": {"total": 20}}"#);
    for failures in 1..=2 {
        service.responds("listTasks", 500, "");
        assert!(timeout(200 * SECOND, all.next()).await.is_err());
        assert_eq!(count(&service.requests(), "getTask"), 20 * failures, "once each, when the page failed");
    }
}

#[tokio::test(start_paused = true)]
async fn tasks_that_have_ended_do_not_wait_for_a_history_that_is_limited() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!("done"));
    let client = service.client_builder().middleware(To(HISTORY, Effect::Refuses)).build().unwrap();
    let tasks = [run(&client).start().await.unwrap(), run(&client).start().await.unwrap()];
    sleep(10 * SECOND).await;
    let mut all = client.tasks().wait_all(tasks.iter().map(|task| task.id()));
    let both = async { (all.next().await.unwrap().1.unwrap(), all.next().await.unwrap().1.unwrap()) };
    timeout(65 * SECOND, both).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn outcomes_come_although_the_history_hangs() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!("done"));
    let builder = service.client_builder().middleware(To(HISTORY, Effect::Hangs));
    let client = builder.middleware(To("/detail", Effect::Delays)).build().unwrap();
    let tasks = [run(&client).start().await.unwrap(), run(&client).start().await.unwrap()];
    sleep(10 * SECOND).await;
    let all = client.tasks().wait_all(tasks.iter().map(|task| task.id()));
    let ended = timeout(60 * SECOND, all.collect::<Vec<_>>()).await.unwrap();
    assert!(ended.iter().all(|(_, outcome)| outcome.is_ok()), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn learning_from_a_history_that_is_limited_delays_no_create() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!("done"));
    let client = service.client_builder().middleware(To(HISTORY, Effect::Refuses)).build().unwrap();
    let started = Instant::now();
    run(&client).learn_from_history(true).await.unwrap();
    assert!(started.elapsed() < 20 * SECOND, "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_history_is_left_alone_for_as_long_as_the_service_asks() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!("done")).takes(45 * SECOND);
    let asked = Asked(HISTORY, Arc::default());
    let limited = To(HISTORY, Effect::Refuses);
    let client = service.client_builder().middleware(asked.clone()).middleware(limited).build().unwrap();
    let tasks = [run(&client).start().await.unwrap(), run(&client).start().await.unwrap()];
    let all = client.tasks().wait_all(tasks.iter().map(|task| task.id()));
    let started = Instant::now();
    assert!(all.collect::<Vec<_>>().await.iter().all(|(_, outcome)| outcome.is_ok()));
    assert!(started.elapsed() >= 60 * SECOND, "after {:?}", started.elapsed());
    assert!(asked.1.load(Ordering::Relaxed) <= 2, "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn only_successes_of_the_same_model_say_how_long_it_takes() {
    let service = ScriptedService::new();
    let mut other = service.model("other").takes(20 * SECOND);
    let mut failing = service.model("m").takes(20 * SECOND);
    for _ in 0..5 {
        other = other.succeeds(json!("done"));
        failing = failing.fails("no");
    }
    let first = service.client().unwrap();
    for _ in 0..5 {
        first.model("other").run(Inputs::new()).await.unwrap();
        run(&first).await.unwrap_err();
    }
    let _ = failing.succeeds(json!("done")).takes(SECOND);
    let started = Instant::now();
    run(&service.client().unwrap()).learn_from_history(true).await.unwrap();
    assert!(started.elapsed() < 5 * SECOND, "after {:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_redirect_of_a_gateway_does_not_end_a_wait() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!("done"));
    let task = run(&service.client().unwrap()).start().await.unwrap();
    service.responds("getTask", 302, "").responds("getTask", 307, "");
    assert_eq!(task.wait().await.unwrap().output, "done");
}

#[tokio::test(start_paused = true)]
async fn a_lost_create_is_not_taken_for_a_task_that_had_ended_before() {
    let service = ScriptedService::new();
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
async fn a_lost_create_is_not_sent_again_while_a_task_that_may_be_it_cannot_be_read() {
    let service = ScriptedService::new();
    let _ = service.model("m").stays_queued();
    let client = service.client_builder().middleware(To("/detail", Effect::Refuses)).build().unwrap();
    service.loses_response("createTask");
    let create = run(&client).retry_create_if_absent_after(5 * SECOND).start();
    let error = create.await.unwrap_err();
    assert!(matches!(error, Error::OutcomeUnknown(_)), "{error:?}");
    assert_eq!(service.created().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lost_create_is_found_at_the_end_of_a_long_history() {
    let service = ScriptedService::new();
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
    let service = ScriptedService::new();
    let _ = service.model("m").stays_queued();
    let client = service.client().unwrap();
    for status in [429, 503, 502] {
        service.responds("cancelTask", status, "");
    }
    let mut run = Box::pin(run(&client).cancel_on_drop(true));
    let waits = timeout(5 * SECOND, &mut run).await;
    assert!(waits.is_err(), "{waits:?}");
    drop(run);
    sleep(60 * SECOND).await;
    let task = client.task(service.created().remove(0).task).get().await.unwrap();
    assert_eq!(task.status, Some(TaskStatus::Canceled));
}

/// Counts the cancels, and refuses them with a 503 that asks for no pause.
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
    let service = ScriptedService::new();
    let _ = service.model("m").stays_queued();
    let cancels = RefusedCancels::default();
    let client = service.client_builder().middleware(cancels.clone()).build().unwrap();
    let waits = timeout(5 * SECOND, run(&client).cancel_on_drop(true)).await;
    assert!(waits.is_err(), "{waits:?}");
    sleep(120 * SECOND).await;
    let sent = cancels.0.load(Ordering::Relaxed);
    assert!((2..10).contains(&sent), "{sent}");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_at_the_deadline_is_sent_again_after_a_limit_of_requests() {
    let service = ScriptedService::new();
    let _ = service.model("m").stays_queued();
    service.responds("cancelTask", 429, "");
    let run = run(&service.client().unwrap()).deadline(20 * SECOND).cancel_at_deadline(true);
    let error = run.await.unwrap_err();
    let Error::DeadlineReached(reached) = &error else { panic!("{error:?}") };
    assert_eq!(reached.disposition, TaskDisposition::Canceled);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_a_node_took_just_before_its_cancel_is_waited_for_until_the_deadline() {
    let service = ScriptedService::new();
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
    let service = ScriptedService::new();
    let client = service.client().unwrap();
    let inputs = || Inputs::new().file("input", File::bytes("a.png", b"pixels".to_vec()));
    let run = || client.model("").run(inputs()).skip_validation(true);
    for error in [run().await.unwrap_err(), run().check().await.unwrap_err()] {
        assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
    }
    assert!(service.requests().is_empty(), "{:?}", service.requests());
}

#[tokio::test(start_paused = true)]
async fn a_create_under_way_in_one_client_is_waited_for_by_another_one_of_the_process() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!("done"));
    let first = service.client_builder().middleware(To("/model/m/task", Effect::Hangs)).build().unwrap();
    let prepared = first.model("m").prepare(Inputs::new()).await.unwrap();
    sleep(600 * SECOND).await;
    // A gateway may hold what it sent.
    let dropped = timeout(SECOND, first.adopt_or_start(prepared.clone())).await;
    assert!(dropped.is_err(), "{dropped:?}");
    let started = Instant::now();
    service.client().unwrap().adopt_or_start(prepared).await.unwrap();
    assert!(started.elapsed() > 50 * SECOND, "after {:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_the_deadline_cut_off_is_deleted_when_asked_for() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!("done"));
    let client = service.client_builder().middleware(To(".png", Effect::LosesResponse)).build().unwrap();
    let inputs = Inputs::new().file("input", File::bytes("a.png", b"pixels".to_vec()));
    let run = client.model("m").run(inputs).delete_inputs_after(true).deadline(5 * SECOND);
    let error = run.await.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    let requests = service.requests();
    assert_eq!((count(&requests, "upload"), count(&requests, "deleteFile")), (1, 1), "{requests:?}");
}

#[tokio::test(start_paused = true)]
async fn uploads_are_kept_for_the_next_run_when_the_account_is_refused() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!("done"));
    let client = service.client().unwrap();
    let run = || client.model("m").run(Inputs::new().file("input", File::bytes("a.png", b"pixels".to_vec())));
    for status in [402, 403, 401] {
        service.responds("createTask", status, r#"{"status": "fail", "message": "no"}"#);
        assert_eq!(run().await.unwrap_err().status(), Some(status));
    }
    run().await.unwrap();
    assert_eq!(count(&service.requests(), "upload"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_file_is_uploaded_again_after_a_create_was_refused_for_its_inputs() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!("done"));
    let client = service.client().unwrap();
    let run = || client.model("m").run(Inputs::new().file("input", File::bytes("a.png", b"pixels".to_vec())));
    service.responds("createTask", 422, r#"{"status": "fail", "message": "the file is not there"}"#);
    assert_eq!(run().await.unwrap_err().status(), Some(422));
    run().await.unwrap();
    assert_eq!(count(&service.requests(), "upload"), 2);
}

#[tokio::test(start_paused = true)]
async fn inputs_are_deleted_once_the_task_of_an_offline_model_is_canceled() {
    for cancels in [true, false] {
        let service = ScriptedService::new();
        let _ = service.model("m").stays_queued().is_offline();
        let inputs = Inputs::new().file("input", File::bytes("a.png", b"pixels".to_vec()));
        let run = service.client().unwrap().model("m").run(inputs).delete_inputs_after(true);
        let error = run.cancel_at_deadline(cancels).await.unwrap_err();
        assert!(matches!(error, Error::ModelOffline(_)), "{error:?}");
        assert_eq!(
            count(&service.requests(), "deleteFile"),
            usize::from(cancels),
            "a queued task needs them"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn inputs_that_a_model_declares_since_a_moment_are_not_refused() {
    let service = ScriptedService::new();
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
    let service = ScriptedService::new();
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

#[tokio::test(start_paused = true)]
async fn a_task_that_a_run_started_is_not_waited_for_without_end_when_no_node_serves_its_model() {
    let service = ScriptedService::new();
    let _ = service.model("m").stays_queued().is_offline();
    let client = service.client().unwrap();
    let prepared = client.model("m").prepare(Inputs::new().set("n", 2)).await.unwrap();
    for task in [run(&client).start().await.unwrap(), client.adopt_or_start(prepared).await.unwrap()] {
        let error = timeout(1_000 * SECOND, task.wait()).await.unwrap().unwrap_err();
        assert!(matches!(error, Error::ModelOffline(_)), "{error:?}");
    }
    let mut unknown = client.task(service.created().remove(0).task).wait();
    assert!(unknown.poll_unpin(&mut Context::from_waker(Waker::noop())).is_pending());
}

#[tokio::test(start_paused = true)]
async fn a_model_that_goes_offline_again_is_reported_again() {
    let service = ScriptedService::new();
    let _ = service.model("m").stays_queued().is_offline();
    let mut events = run(&service.client().unwrap()).offline_timeout(None).events();
    let mut next_offline = async || {
        while let Some(event) = timeout(300 * SECOND, events.next()).await.unwrap() {
            if event == RunEvent::ModelOffline {
                return;
            }
        }
    };
    next_offline().await;
    service.responds("getModelServing", 200, r#"{"status": "success", "data": {"serving": true}}"#);
    next_offline().await;
    assert_eq!(count(&service.requests(), "getModelServing"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_check_for_nodes_that_is_limited_is_repeated_when_the_service_allows_it() {
    let service = ScriptedService::new();
    let _ = service.model("m").stays_queued();
    let asked = Asked("/serving", Arc::default());
    let limited = To("/serving", Effect::Refuses);
    let client = service.client_builder().middleware(asked.clone()).middleware(limited).build().unwrap();
    // It is asked every ten seconds, from the tenth on.
    let waiting = run(&client).offline_timeout(40 * SECOND).deadline(65 * SECOND);
    assert!(waiting.await.unwrap_err().is_timeout());
    assert_eq!(asked.1.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_check_that_failed_begins_the_time_of_an_offline_model_again_and_reports_it_once() {
    let service = ScriptedService::new();
    let _ = service.model("m").stays_queued().is_offline();
    let started = Instant::now();
    let mut events = run(&service.client().unwrap()).events();
    let mut reported = 0;
    while let Some(event) = events.next().await {
        if event == RunEvent::ModelOffline {
            reported += 1;
            service.responds("getModelServing", 404, "");
        }
    }
    let error = events.finish().await.unwrap_err();
    assert!(matches!(error, Error::ModelOffline(_)), "{error:?}");
    let elapsed = started.elapsed();
    let expected = 630 * SECOND..750 * SECOND;
    assert!(reported == 1 && expected.contains(&elapsed), "{reported} times, after {elapsed:?}");
}
