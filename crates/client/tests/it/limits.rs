//! Waits, deadlines and uploads at their limits, with the test kit and in virtual time.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::task::{Context, Waker};
use std::time::Duration;

use inferstore::middleware::{BoxFuture, Middleware, Next};
use inferstore::reqwest::{self, Request, Response};
use inferstore::{Abandon, Client, Error, File, FileError, FileErrorKind, Inputs, PollInterval, Run};
use inferstore_testing::ScriptedService;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use crate::count;

const SECOND: Duration = Duration::from_secs(1);

fn file_inputs() -> Inputs {
    Inputs::new().file("input", File::bytes("a.png", b"pixels".to_vec()))
}

#[tokio::test]
async fn a_missing_file_is_distinguished_from_an_unreadable_one() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!("done"));
    let folder = tempfile::tempdir().unwrap();
    for (path, expected) in [
        (folder.path().join("missing.png"), FileErrorKind::NotFound),
        (folder.path().to_owned(), FileErrorKind::Unreadable),
    ] {
        let run = service.client().unwrap().model("m").run(Inputs::new().file("input", path));
        let error = run.await.unwrap_err();
        assert!(matches!(&error, Error::File(file) if file.kind == expected), "{error:?}");
    }
}

/// Never responds to requests whose path contains this.
struct Hangs(&'static str);

impl Middleware for Hangs {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>> {
        if request.url().path().contains(self.0) {
            return Box::pin(std::future::pending());
        }
        next.run(request)
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_response_is_too_large_ends_the_wait() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!({ "output": "x".repeat(2_000) }));
    let client =
        service.client_builder().settings(|settings| settings.max_response_size = 1_500).build().unwrap();
    let error = client.model("m").run(Inputs::new()).await.unwrap_err();
    assert!(matches!(error, Error::Decode(_)) && error.task_id().is_some(), "{error:?}");
    assert!(error.hint().contains("max_response_size"), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_a_transfer_says_nothing_of_a_task() {
    let service = ScriptedService::new();
    let url = service.stores("output.png", "image/png", b"pixels".to_vec());
    let client = service.client_builder().middleware(Hangs("")).build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let download = || client.download(url.as_str()).limits(|limits| limits.deadline = Some(SECOND));
    for error in [
        download().bytes().await.unwrap_err(),
        download().to_dir(folder.path(), "output").await.unwrap_err(),
        download().stream().try_collect().await.unwrap_err(),
        client.folder("samples").upload(File::bytes("a.png", "pixels")).deadline(SECOND).await.unwrap_err(),
    ] {
        assert!(error.is_timeout() && error.task_id().is_none(), "{error:?}");
        assert!(!format!("{error:?}").contains("task"), "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_output_under_another_name_is_no_mistake_of_a_call_that_was_not_sent() {
    let service = ScriptedService::new();
    let url = service.stores("output.png", "image/png", b"pixels".to_vec());
    let _ = service.model("m").succeeds(json!({ "output_image": url, "score": 1 }));
    let outcome = service.client().unwrap().model("m").run(Inputs::new()).await.unwrap();
    for error in [outcome.url("output").unwrap_err(), outcome.download("score").unwrap_err()] {
        assert_eq!(error.task_id(), Some(&outcome.task));
        assert!(error.to_string().contains("output_image") && error.hint().contains("billed"), "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_computing_task_is_waited_for_until_the_deadline() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!({})).takes(4_500 * SECOND / 1_000);
    let client = service.client().unwrap();
    let poll = PollInterval::every(SECOND / 10);
    let run = client.model("m").run(Inputs::new()).deadline(5 * SECOND).on_abandon(Abandon::Cancel);
    run.poll(poll).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_failed_read_is_the_cause_of_a_deadline_until_a_read_succeeds() {
    let service = ScriptedService::new();
    let _ = service.model("m").stays_queued();
    let client = service.client().unwrap();
    let task = client.model("m").run(Inputs::new()).start().await.unwrap();
    service.responds("getTask", 500, "");
    let alone = task.wait().deadline(60 * SECOND).await.unwrap_err();
    assert!(alone.is_timeout() && alone.status().is_none(), "{alone:?}");
}

#[tokio::test(start_paused = true)]
async fn a_task_is_read_once_more_just_before_the_deadline() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!({})).takes(15 * SECOND);
    let client = service.client().unwrap();
    let poll = PollInterval::every(10 * SECOND);
    let first = client.model("m").run(Inputs::new()).start().await.unwrap();
    first.wait().poll(poll).deadline(18 * SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_task_that_ended_just_before_its_cancel_has_its_outcome() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!("done")).takes(SECOND * 9 / 10);
    let model = service.client().unwrap().model("m");
    // Queued at the last read, after 500 ms; ended at the cancel, after a second.
    let deadline = SECOND * 5 / 4;
    let poll = PollInterval::every(100 * SECOND);
    let run = model.run(Inputs::new()).poll(poll.clone()).deadline(deadline).on_abandon(Abandon::Cancel);
    assert_eq!(run.await.unwrap().output, "done");

    let task = model.run(Inputs::new()).start().await.unwrap();
    let wait = task.wait().poll(poll.clone()).deadline(deadline).cancel_at_deadline(true);
    assert_eq!(wait.await.unwrap().output, "done");
}

/// Returns a run that deletes its inputs afterwards.
fn run_that_deletes(client: &Client) -> Run {
    client.model("m").run(file_inputs()).options(|options| options.delete_inputs_after = true)
}

#[tokio::test(start_paused = true)]
async fn the_inputs_of_a_refused_create_are_deleted_when_asked_for() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!({}));
    service.responds("createTask", 422, json!({ "status": "fail", "message": "no" }));
    let run = run_that_deletes(&service.client().unwrap());
    let result = run.await;
    assert!(matches!(result, Err(Error::Api(_))), "{result:?}");
    assert!(service.requests().contains(&"deleteFile"), "{:?}", service.requests());
}

#[tokio::test(start_paused = true)]
async fn the_inputs_of_a_canceled_task_are_deleted_when_asked_for() {
    let service = ScriptedService::new();
    let _ = service.model("m").stays_queued();
    let run = run_that_deletes(&service.client().unwrap());
    let result = run.deadline(20 * SECOND).on_abandon(Abandon::Cancel).await;
    assert!(matches!(result, Err(Error::DeadlineReached(_))), "{result:?}");
    assert!(service.requests().contains(&"deleteFile"), "{:?}", service.requests());
}

#[tokio::test(start_paused = true)]
async fn inputs_that_cannot_be_deleted_in_time_are_in_the_outcome() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!({}));
    service.responds("deleteFile", 500, "busy");
    let run = run_that_deletes(&service.client().unwrap());
    assert_eq!(run.await.unwrap().stored_inputs.len(), 1);

    let client = service.client_builder().middleware(Hangs("/api-key/storage/store/url")).build().unwrap();
    let run = run_that_deletes(&client);
    let outcome = timeout(60 * SECOND, run).await.unwrap().unwrap();
    assert_eq!(outcome.stored_inputs.len(), 1);
}

/// Rejects the second upload target.
#[derive(Default)]
struct OneUpload(std::sync::atomic::AtomicU32);

impl Middleware for OneUpload {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>> {
        let is_presign = request.url().path().ends_with("create-presigned-url");
        if is_presign && self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 0 {
            let refusal = axum::http::Response::builder().status(400).body("").unwrap();
            return Box::pin(std::future::ready(Ok(Response::from(refusal))));
        }
        next.run(request)
    }
}

#[tokio::test(start_paused = true)]
async fn inputs_of_a_run_that_fails_during_uploads_are_deleted_if_asked() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!({}));
    let builder = service
        .client_builder()
        .settings(|settings| settings.max_concurrent_uploads = 1)
        .middleware(OneUpload::default());
    let inputs = file_inputs().file("mask", File::bytes("mask.png", b"others".to_vec()));
    let run =
        builder.build().unwrap().model("m").run(inputs).options(|options| options.delete_inputs_after = true);
    run.await.unwrap_err();
    assert_eq!(count(&service.requests(), "deleteFile"), 1, "{:?}", service.requests());
}

#[tokio::test(start_paused = true)]
async fn a_run_that_cannot_be_prepared_leaves_no_upload_behind() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!({}));
    let builder = service
        .client_builder()
        .settings(|settings| settings.max_concurrent_uploads = 1)
        .middleware(OneUpload::default());
    let inputs = file_inputs().file("mask", File::bytes("mask.png", b"others".to_vec()));
    builder.build().unwrap().model("m").prepare(inputs).await.unwrap_err();
    assert_eq!(count(&service.requests(), "deleteFile"), 1, "{:?}", service.requests());
}

#[tokio::test(start_paused = true)]
async fn inputs_are_not_deleted_after_a_task_that_nothing_waits_for() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!({}));
    let run = run_that_deletes(&service.client().unwrap());
    let error = run.start().await.unwrap_err();
    assert!(matches!(&error, Error::InvalidArgument(problem) if problem.contains("delete_inputs_after")));
    assert!(service.requests().is_empty(), "{:?}", service.requests());
}

#[tokio::test(start_paused = true)]
async fn one_content_in_two_fields_is_one_file_that_is_deleted_once() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!({}));
    let inputs = file_inputs().file("mask", File::bytes("b.png", b"pixels".to_vec()));
    let run = service
        .client()
        .unwrap()
        .model("m")
        .run(inputs)
        .options(|options| options.delete_inputs_after = true);
    assert!(run.await.unwrap().stored_inputs.is_empty());
    assert_eq!(count(&service.requests(), "deleteFile"), 1, "{:?}", service.requests());
}

#[tokio::test]
async fn a_download_without_a_name_stays_in_its_folder() {
    let service = ScriptedService::new();
    let url = service.stores("output", "application/octet-stream", b"bytes".to_vec());
    let outside = tempfile::tempdir().unwrap();
    let folder = outside.path().join("outputs");
    let file = service.client().unwrap().download(url).to_dir(&folder, "").await.unwrap();
    assert_eq!(file.path.parent(), Some(folder.as_path()));
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[test]
fn a_transfer_that_broke_can_be_retried_and_a_missing_file_cannot() {
    let error = |kind| {
        let mut error = FileError::new("a.png", kind, "it failed");
        error.status = Some(503);
        error.retry_after = Some(SECOND);
        Error::from(error)
    };
    let broken = error(FileErrorKind::Transport);
    assert!(broken.is_retryable());
    assert_eq!((broken.status(), broken.retry_after()), (Some(503), Some(SECOND)));
    assert!(!error(FileErrorKind::NotFound).is_retryable());
}

#[test]
fn a_run_that_is_dropped_outside_of_its_runtime_is_canceled() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let service = ScriptedService::new();
    let _ = service.model("m").stays_queued();
    let run = service.client().unwrap().model("m").run(Inputs::new()).on_abandon(Abandon::Cancel);
    let mut run = run.into_future();
    runtime.block_on(async {
        while service.created().is_empty() {
            let mut context = Context::from_waker(Waker::noop());
            assert!(run.as_mut().poll(&mut context).is_pending());
            tokio::task::yield_now().await;
        }
        // The run sees that its task was created.
        tokio::task::yield_now().await;
        let _ = run.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    });
    drop(run);
    runtime.block_on(async { sleep(SECOND).await });
    assert!(service.requests().contains(&"cancelTask"), "{:?}", service.requests());
}

struct Slow;

impl Middleware for Slow {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>> {
        Box::pin(async move {
            sleep(60 * SECOND).await;
            next.run(request).await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_of_an_operation_begins_when_it_is_polled() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!({}));
    let client = service.client().unwrap();
    let url = service.stores("output", "image/png", b"pixels".to_vec());
    let run = || client.model("m").run(Inputs::new()).deadline(SECOND);
    let download = || client.download(&url).limits(|limits| limits.deadline = Some(SECOND));
    let (start, check, prepare) = (run().start(), run().check(), run().prepare());
    let (bytes, mut stream) = (download().bytes(), download().stream());
    sleep(2 * SECOND).await;
    start.await.unwrap();
    check.await.unwrap();
    prepare.await.unwrap();
    bytes.await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), "pixels");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_the_deadline_cut_off_is_the_cause() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!({}));
    let client = service.client_builder().middleware(Slow).build().unwrap();
    let error = client.model("m").run(Inputs::new()).deadline(10 * SECOND).await.unwrap_err();
    assert!(error.is_timeout() && error.task_id().is_none(), "{error:?}");
    assert_eq!(error.context().map(|context| context.operation), Some("getModelVersioning"), "{error:?}");
    assert!(format!("{error:?}").contains("caused by: the deadline passed"), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_create_under_way_is_finished_and_canceled_when_its_run_is_dropped() {
    let service = ScriptedService::new();
    let _ = service.model("m").stays_queued();
    let client = service.client_builder().middleware(Slow).build().unwrap();
    let run = client
        .model("m")
        .run(Inputs::new())
        .options(|options| options.skip_validation = true)
        .on_abandon(Abandon::Cancel);
    assert!(timeout(10 * SECOND, run).await.is_err());
    sleep(600 * SECOND).await;
    assert_eq!(service.requests(), ["createTask", "cancelTask"]);
}

#[tokio::test]
async fn a_create_that_is_to_be_retried_is_not_sent_when_its_run_is_dropped() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut retry = inferstore::Retry::default();
    retry.max_attempts = 100;
    retry.max_backoff = Duration::from_millis(100);
    let client = Client::builder(format!("http://{address}/api/v1"), "the-key")
        .settings(|settings| settings.retry = retry)
        .build()
        .unwrap();
    let run = client
        .model("m")
        .run(Inputs::new())
        .options(|options| options.skip_validation = true)
        .on_abandon(Abandon::Cancel);
    assert!(timeout(Duration::from_millis(50), run).await.is_err());
    // Something listens from now on.
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    assert!(timeout(Duration::from_millis(500), listener.accept()).await.is_err(), "a create came");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_run_resends_its_create_in_doubt_and_cancels_the_task() {
    let service = ScriptedService::new();
    let _ = service.model("m").stays_queued();
    let client = service.client().unwrap();
    client.balance().await.unwrap();
    service.loses_response("createTask").responds("createTask", 503, "");
    let run = client
        .model("m")
        .run(Inputs::new())
        .options(|options| options.skip_validation = true)
        .on_abandon(Abandon::Cancel);
    assert!(timeout(Duration::from_micros(1), run).await.is_err());
    sleep(600 * SECOND).await;
    let creates = ["createTask", "createTask", "createTask", "cancelTask"];
    assert_eq!(service.requests()[1..], creates);
    assert_eq!(service.created().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_takes_long_is_read_less_and_less_often() {
    let service = ScriptedService::new();
    let _ = service.model("m").stays_queued();
    let client = service.client().unwrap();
    let run = client.model("m").run(Inputs::new()).poll(PollInterval::Fast).deadline(60 * SECOND);
    assert!(run.await.unwrap_err().is_timeout());
    let reads = count(&service.requests(), "getTask");
    assert!((10..=17).contains(&reads), "{reads} reads in a minute, instead of 30");
}

#[tokio::test]
async fn handles_show_their_service_and_no_key() {
    let client = ScriptedService::new().client_builder().build().unwrap();
    for shown in [format!("{client:?}"), format!("{:?}", client.tasks()), format!("{:?}", client.task("t"))] {
        assert!(shown.contains(client.base_url()) && !shown.to_lowercase().contains("key"), "{shown}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_has_ended_is_seen_at_once_whatever_its_model() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!("done")).takes(60 * SECOND);
    let client = service.client().unwrap();
    let model = client.model("m");
    let task = model.run(Inputs::new()).start().await.unwrap();
    for _ in 0..3 {
        model.run(Inputs::new()).await.unwrap();
    }
    let started = Instant::now();
    client.task(task.id().clone()).of_model("m").wait().await.unwrap();
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn failed_tasks_say_nothing_of_how_long_a_model_takes() {
    let service = ScriptedService::new();
    let model = service.model("m").fails("no").fails("no").fails("no").succeeds(json!("done"));
    let model = model.takes(20 * SECOND);
    let client = service.client().unwrap();
    for _ in 0..3 {
        client.model("m").run(Inputs::new()).await.unwrap_err();
    }
    let _ = model.takes(2 * SECOND);
    let started = Instant::now();
    client.model("m").run(Inputs::new()).await.unwrap();
    assert!(started.elapsed() < 5 * SECOND, "after {:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_wait_during_an_outage_leaves_the_retries_of_other_calls() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!("done"));
    let client = service.client().unwrap();
    let task = client.model("m").run(Inputs::new()).start().await.unwrap();
    for _ in 0..1_000 {
        service.responds("getTask", 503, "");
    }
    task.wait().deadline(600 * SECOND).await.unwrap_err();
    service.responds("getBalance", 503, "");
    client.balance().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn events_of_a_run_come_when_they_happen_also_after_an_abandon() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!("done")).takes(60 * SECOND);
    let client = service.client().unwrap();
    for what in [Abandon::Leave, Abandon::Cancel, Abandon::CancelAndDelete] {
        let mut events = client.model("m").run(Inputs::new()).on_abandon(what).events();
        let started = Instant::now();
        let mut times = Vec::new();
        while events.next().await.is_some() {
            times.push(started.elapsed());
        }
        assert!(times[..3].iter().all(|time| *time < SECOND), "{what:?}: {times:?}");
        assert!(times.last().is_some_and(|time| *time >= 60 * SECOND), "{what:?}: {times:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn uploads_of_a_run_that_is_dropped_or_refused_are_deleted() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!("done")).takes(SECOND / 5);
    let client = service.client().unwrap();
    let run = || {
        let run = client.model("m").run(file_inputs()).options(|options| options.skip_validation = true);
        run.poll(PollInterval::every(10 * SECOND)).on_abandon(Abandon::CancelAndDelete)
    };
    // The task has ended, and the run has not read it yet.
    assert!(timeout(5 * SECOND, run()).await.is_err());
    sleep(120 * SECOND).await;
    assert_eq!(client.storage_statistics().await.unwrap().total_files, Some(0));
    // Dropped after the upload, before the create.
    let mut events = run().events();
    while !matches!(events.next().await, Some(inferstore::RunEvent::Creating)) {}
    drop(events);
    sleep(120 * SECOND).await;
    assert_eq!(client.storage_statistics().await.unwrap().total_files, Some(0));
    // Started, and its create is rejected.
    service.responds("createTask", 422, "");
    assert_eq!(run().start().await.unwrap_err().status(), Some(422));
    assert_eq!(client.storage_statistics().await.unwrap().total_files, Some(0));
}

#[tokio::test(start_paused = true)]
async fn a_started_task_is_read_when_its_model_is_known_to_end() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!("done")).takes(20 * SECOND);
    let client = service.client().unwrap();
    for _ in 0..4 {
        client.model("m").run(Inputs::new()).start().await.unwrap().wait().await.unwrap();
    }
    let before = count(&service.requests(), "getTask");
    client.model("m").run(Inputs::new()).start().await.unwrap().wait().await.unwrap();
    let reads = count(&service.requests(), "getTask") - before;
    assert!(reads <= 3, "{reads} reads");
}
