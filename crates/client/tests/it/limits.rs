//! Waits, deadlines and uploads at their limits, with the test kit and in virtual time.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::sync::Mutex;
use std::task::{Context, Waker};
use std::time::Duration;

use inferstore::middleware::{BoxFuture, Middleware, Next};
use inferstore::reqwest::{self, Request, Response};
use inferstore::testing::ScriptedService;
use inferstore::{Error, File, FileError, FileErrorKind, Inputs, PollInterval, TaskDisposition};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use crate::{count, lists};

const SECOND: Duration = Duration::from_secs(1);

fn file_inputs() -> Inputs {
    Inputs::new().file("input", File::bytes("a.png", b"pixels".to_vec()))
}

#[tokio::test(start_paused = true)]
async fn a_model_counts_as_offline_from_the_moment_it_was_last_served() {
    let service = ScriptedService::new();
    let model = service.model("m").stays_queued();
    let run = service.client().unwrap().model("m").run(Inputs::new()).offline_timeout(1_000 * SECOND);
    let started = Instant::now();
    let run = tokio::spawn(async move { (run.await, started.elapsed()) });
    sleep(700 * SECOND).await;
    let _ = model.is_offline();
    let (result, elapsed) = run.await.unwrap();
    assert!(matches!(result, Err(Error::ModelOffline(_))), "{result:?}");
    // The last check that saw it served was after 640 seconds.
    assert!(elapsed > 1_500 * SECOND, "after {elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_model_that_goes_offline_late_has_the_whole_time_to_come_back() {
    let service = ScriptedService::new();
    let model = service.model("m").stays_queued();
    let run = service.client().unwrap().model("m").run(Inputs::new()).poll(PollInterval::every(SECOND));
    let started = Instant::now();
    let run = tokio::spawn(async move { (run.await, started.elapsed()) });
    sleep(1_275 * SECOND).await;
    let _ = model.is_offline();
    let (result, elapsed) = run.await.unwrap();
    assert!(matches!(result, Err(Error::ModelOffline(_))), "{result:?}");
    assert!(elapsed > 1_650 * SECOND, "after {elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn it_is_not_asked_whether_a_model_is_served_before_its_task_was_queued_for_a_while() {
    let service = ScriptedService::new();
    let _ = service.model("m").stays_queued();
    let client = service.client().unwrap();
    for (deadline, asked) in [(9, 0), (15, 1)] {
        let run = client.model("m").run(Inputs::new()).poll(PollInterval::every(SECOND));
        run.deadline(deadline * SECOND).await.unwrap_err();
        assert_eq!(count(&service.requests(), "getModelServing"), asked, "within {deadline} s");
    }
}

#[tokio::test]
async fn a_file_that_is_not_there_can_be_distinguished_from_one_that_cannot_be_read() {
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

/// Does not respond to requests whose path contains this.
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
    let client = service.client_builder().max_response_size(1_500).build().unwrap();
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
    let download = || client.download(url.as_str()).deadline(SECOND);
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
    let run = client.model("m").run(Inputs::new()).deadline(5 * SECOND).cancel_at_deadline(true);
    run.poll(poll.clone()).await.unwrap();

    let task = client.model("m").run(Inputs::new()).start().await.unwrap();
    let wait = client.tasks().wait_all([task.id()]).deadline(5 * SECOND).cancel_at_deadline(true);
    let (_, result) = wait.poll(poll).next().await.unwrap();
    result.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_failed_read_is_the_cause_of_a_deadline_only_until_the_next_one_succeeds() {
    let service = ScriptedService::new();
    let _ = service.model("m").stays_queued();
    let client = service.client().unwrap();
    let mut tasks = Vec::new();
    for number in 0..2 {
        tasks.push(client.model("m").run(Inputs::new().set("number", number)).start().await.unwrap());
    }
    service.responds("getTask", 500, "");
    let alone = tasks[0].wait().deadline(60 * SECOND).await.unwrap_err();
    assert!(alone.is_timeout() && alone.status().is_none(), "{alone:?}");
    // The first page fails, so that the tasks are read one by one.
    service.responds("listTasks", 500, "");
    service.responds("getTask", 500, "");
    let mut together = client.tasks().wait_all(tasks.iter().map(|task| task.id())).deadline(60 * SECOND);
    while let Some((_, result)) = together.next().await {
        let error = result.unwrap_err();
        assert!(error.is_timeout() && error.status().is_none(), "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn queued_tasks_are_canceled_before_the_deadline_and_the_others_waited_for() {
    let service = ScriptedService::new();
    let _ = service.model("slow").succeeds(json!({})).takes(100 * SECOND);
    let _ = service.model("queued").stays_queued();
    let client = service.client().unwrap();
    let slow = client.model("slow").run(Inputs::new()).start().await.unwrap();
    let queued = client.model("queued").run(Inputs::new()).start().await.unwrap();
    let started = Instant::now();
    let mut tasks =
        client.tasks().wait_all([slow.id(), queued.id()]).deadline(50 * SECOND).cancel_at_deadline(true);
    let mut ends = Vec::new();
    while let Some((task, result)) = tasks.next().await {
        let error = result.unwrap_err();
        let Error::DeadlineReached(reached) = &error else { panic!("{error:?}") };
        assert!(error.to_string().contains(task.as_str()), "{error}");
        ends.push((task, reached.disposition, started.elapsed()));
    }
    let [(first, canceled, early), (second, running, late)] = &ends[..] else { panic!("{ends:?}") };
    assert_eq!((first, *canceled), (queued.id(), TaskDisposition::Canceled));
    assert_eq!((second, *running), (slow.id(), TaskDisposition::StillRunning));
    assert!(*early < 50 * SECOND && *late >= 50 * SECOND, "{early:?}, {late:?}");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_added_is_read_soon_although_the_others_are_read_seldom() {
    let service = ScriptedService::new();
    let _ = service.model("queued").stays_queued();
    let _ = service.model("m").succeeds(json!({})).takes(Duration::ZERO);
    let client = service.client().unwrap();
    let queued = client.model("queued").run(Inputs::new()).start().await.unwrap();
    let poll = PollInterval::Between { first: SECOND, longest: 100 * SECOND };
    let mut all = client.tasks().wait_all([queued.id()]).poll(poll);
    assert!(timeout(500 * SECOND, all.next()).await.is_err());
    let added = client.model("m").run(Inputs::new()).start().await.unwrap();
    all.add(added.id().clone());
    let (task, result) = timeout(2 * SECOND, all.next()).await.unwrap().unwrap();
    assert!(task == *added.id() && result.is_ok(), "{task}: {result:?}");
}

#[tokio::test(start_paused = true)]
async fn tasks_are_read_once_more_just_before_the_deadline() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!({})).takes(15 * SECOND);
    let client = service.client().unwrap();
    let poll = PollInterval::every(10 * SECOND);
    let first = client.model("m").run(Inputs::new()).start().await.unwrap();
    first.wait().poll(poll.clone()).deadline(18 * SECOND).await.unwrap();

    let second = client.model("m").run(Inputs::new()).start().await.unwrap();
    let third = client.model("m").run(Inputs::new()).start().await.unwrap();
    let mut all = client.tasks().wait_all([second.id(), third.id()]).poll(poll).deadline(18 * SECOND);
    for _ in 0..2 {
        all.next().await.unwrap().1.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_ended_just_before_its_cancel_has_its_outcome() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!("done")).takes(SECOND * 9 / 10);
    let model = service.client().unwrap().model("m");
    // It is queued at the last read, after 500 ms, and has ended at the cancel, after a second.
    let deadline = SECOND * 5 / 4;
    let poll = PollInterval::every(100 * SECOND);
    let run = model.run(Inputs::new()).poll(poll.clone()).deadline(deadline).cancel_at_deadline(true);
    assert_eq!(run.await.unwrap().output, "done");

    let task = model.run(Inputs::new()).start().await.unwrap();
    let wait = task.wait().poll(poll.clone()).deadline(deadline).cancel_at_deadline(true);
    assert_eq!(wait.await.unwrap().output, "done");

    let task = model.run(Inputs::new()).start().await.unwrap();
    let all = service.client().unwrap().tasks().wait_all([task.id()]);
    let (_, result) = all.poll(poll).deadline(deadline).cancel_at_deadline(true).next().await.unwrap();
    assert_eq!(result.unwrap().output, "done");
}

#[tokio::test(start_paused = true)]
async fn tasks_end_although_the_history_shows_them_without_a_status() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!({}));
    let client = service.client().unwrap();
    let first = client.model("m").run(Inputs::new()).start().await.unwrap();
    let second = client.model("m").run(Inputs::new()).start().await.unwrap();
    let records = [json!({ "task_id": first.id() }), json!({ "task_id": second.id() })];
    let data = json!({ "total": 2, "records": records });
    for _ in 0..1_000 {
        lists(&service, &data);
    }
    let mut all = client.tasks().wait_all([first.id(), second.id()]).deadline(60 * SECOND);
    while let Some((task, result)) = all.next().await {
        result.unwrap_or_else(|error| panic!("{task}: {error}"));
    }
}

#[tokio::test(start_paused = true)]
async fn the_inputs_of_a_refused_create_are_deleted_when_asked_for() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!({}));
    service.responds("createTask", 422, json!({ "status": "fail", "message": "no" }));
    let run = service.client().unwrap().model("m").run(file_inputs()).delete_inputs_after(true);
    let result = run.await;
    assert!(matches!(result, Err(Error::Api(_))), "{result:?}");
    assert!(service.requests().contains(&"deleteFile"), "{:?}", service.requests());
}

#[tokio::test(start_paused = true)]
async fn the_inputs_of_a_canceled_task_are_deleted_when_asked_for() {
    let service = ScriptedService::new();
    let _ = service.model("m").stays_queued();
    let run = service.client().unwrap().model("m").run(file_inputs()).delete_inputs_after(true);
    let result = run.deadline(20 * SECOND).cancel_at_deadline(true).await;
    assert!(matches!(result, Err(Error::DeadlineReached(_))), "{result:?}");
    assert!(service.requests().contains(&"deleteFile"), "{:?}", service.requests());
}

#[tokio::test(start_paused = true)]
async fn inputs_that_cannot_be_deleted_in_time_are_in_the_outcome() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!({}));
    service.responds("deleteFile", 500, "busy");
    let run = service.client().unwrap().model("m").run(file_inputs()).delete_inputs_after(true);
    assert_eq!(run.await.unwrap().stored_inputs.len(), 1);

    let client = service.client_builder().middleware(Hangs("/api-key/storage/store/url")).build().unwrap();
    let run = client.model("m").run(file_inputs()).delete_inputs_after(true);
    let outcome = timeout(60 * SECOND, run).await.unwrap().unwrap();
    assert_eq!(outcome.stored_inputs.len(), 1);
}

/// Refuses the second upload target.
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
async fn the_inputs_of_a_run_that_fails_while_it_uploads_are_deleted_when_asked_for() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!({}));
    let builder = service.client_builder().max_concurrent_uploads(1).middleware(OneUpload::default());
    let inputs = file_inputs().file("mask", File::bytes("mask.png", b"others".to_vec()));
    let run = builder.build().unwrap().model("m").run(inputs).delete_inputs_after(true);
    run.await.unwrap_err();
    assert_eq!(count(&service.requests(), "deleteFile"), 1, "{:?}", service.requests());
}

#[tokio::test(start_paused = true)]
async fn a_run_that_cannot_be_prepared_leaves_no_upload_behind() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!({}));
    let builder = service.client_builder().max_concurrent_uploads(1).middleware(OneUpload::default());
    let inputs = file_inputs().file("mask", File::bytes("mask.png", b"others".to_vec()));
    builder.build().unwrap().model("m").prepare(inputs).await.unwrap_err();
    assert_eq!(count(&service.requests(), "deleteFile"), 1, "{:?}", service.requests());
}

#[tokio::test(start_paused = true)]
async fn inputs_are_not_deleted_after_a_task_that_nothing_waits_for() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!({}));
    let run = service.client().unwrap().model("m").run(file_inputs()).delete_inputs_after(true);
    let error = run.start().await.unwrap_err();
    assert!(matches!(&error, Error::InvalidArgument(problem) if problem.contains("delete_inputs_after")));
    assert!(service.requests().is_empty(), "{:?}", service.requests());
}

#[tokio::test(start_paused = true)]
async fn one_content_in_two_fields_is_one_file_that_is_deleted_once() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!({}));
    let inputs = file_inputs().file("mask", File::bytes("b.png", b"pixels".to_vec()));
    let run = service.client().unwrap().model("m").run(inputs).delete_inputs_after(true);
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
    let run = service.client().unwrap().model("m").run(Inputs::new()).cancel_on_drop(true);
    let mut run = Box::pin(run);
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

/// Holds each request for a minute before it is sent on.
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
async fn a_create_that_waits_for_a_permit_until_its_deadline_is_an_error_of_the_deadline() {
    let service = ScriptedService::new();
    let _ = service.model("m").stays_queued();
    let client = service.client_builder().max_concurrent_requests(1).middleware(Slow).build().unwrap();
    let balance = tokio::spawn(client.account().balance());
    tokio::task::yield_now().await;
    let run = client.model("m").run(Inputs::new()).skip_validation(true).deadline(10 * SECOND);
    let error = run.await.unwrap_err();
    assert!(error.is_timeout() && error.task_id().is_none(), "{error:?}");
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(cause, "createTask got no response");
    balance.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_time_of_an_operation_begins_when_it_is_polled() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!({}));
    let client = service.client().unwrap();
    let url = service.stores("output", "image/png", b"pixels".to_vec());
    let run = || client.model("m").run(Inputs::new()).deadline(SECOND);
    let download = || client.download(&url).deadline(SECOND);
    let mut content = Vec::new();
    let (start, check, prepare) = (run().start(), run().check(), run().prepare());
    let (written, mut stream) = (download().to_writer(&mut content), download().stream());
    sleep(2 * SECOND).await;
    start.await.unwrap();
    check.await.unwrap();
    prepare.await.unwrap();
    written.await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), "pixels");
}

#[tokio::test(start_paused = true)]
async fn a_create_that_waits_for_a_permit_is_not_sent_when_its_run_is_dropped() {
    let service = ScriptedService::new();
    let _ = service.model("m").stays_queued();
    let client = service.client_builder().max_concurrent_requests(1).middleware(Slow).build().unwrap();
    let balance = tokio::spawn(client.account().balance());
    tokio::task::yield_now().await;
    let run = client.model("m").run(Inputs::new()).skip_validation(true).cancel_on_drop(true);
    assert!(timeout(10 * SECOND, run).await.is_err());
    balance.await.unwrap().unwrap();
    sleep(600 * SECOND).await;
    assert_eq!(service.requests(), ["getBalance"]);
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
    let run = client.model("m").run(Inputs::new()).skip_validation(true).cancel_on_drop(true);
    assert!(timeout(10 * SECOND, run).await.is_err());
    sleep(600 * SECOND).await;
    assert_eq!(service.requests(), ["createTask", "cancelTask"]);
}

/// Refuses the first request with this error, as a closed port does.
struct Refuses(Mutex<Option<reqwest::Error>>);

impl Middleware for Refuses {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>> {
        match self.0.lock().unwrap().take() {
            Some(error) => Box::pin(async { Err(error) }),
            None => next.run(request),
        }
    }
}

#[tokio::test]
async fn a_create_that_is_to_be_retried_is_not_sent_when_its_run_is_dropped() {
    let closed = "http://127.0.0.1:1/";
    let http = inferstore_api::http_client_builder_for(closed).build().unwrap();
    let refused = http.get(closed).send().await.unwrap_err();
    assert!(refused.is_connect(), "{refused}");
    tokio::time::pause();
    let service = ScriptedService::new();
    let _ = service.model("m").stays_queued();
    let refuses = Refuses(Mutex::new(Some(refused)));
    let mut retry = inferstore::Retry::default();
    retry.initial_backoff = 10 * SECOND;
    let client = service.client_builder().retry(retry).middleware(refuses).build().unwrap();
    let run = client.model("m").run(Inputs::new()).skip_validation(true).cancel_on_drop(true);
    assert!(timeout(SECOND / 1_000, run).await.is_err());
    sleep(600 * SECOND).await;
    assert!(service.requests().is_empty(), "{:?}", service.requests());
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
    for shown in [format!("{client:?}"), format!("{:?}", client.models()), format!("{:?}", client.task("t"))]
    {
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
    task.wait().model("m").await.unwrap();
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn failed_tasks_say_nothing_of_how_long_a_model_takes() {
    let service = ScriptedService::new();
    let model = service.model("m").fails("no").fails("no").fails("no").succeeds(json!("done"));
    let model = model.takes(SECOND / 10);
    let client = service.client().unwrap();
    for _ in 0..3 {
        client.model("m").run(Inputs::new()).await.unwrap_err();
    }
    let _ = model.takes(2 * SECOND);
    let reads = count(&service.requests(), "getTask");
    client.model("m").run(Inputs::new()).await.unwrap();
    assert_eq!(count(&service.requests(), "getTask") - reads, 1, "the task ends when it is read first");
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
    client.account().balance().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn tasks_that_one_page_of_the_history_shows_take_one_page_a_round() {
    let service = ScriptedService::new();
    let _ = service.model("m").stays_queued();
    let client = service.client().unwrap();
    let mut tasks = Vec::new();
    for _ in 0..20 {
        tasks.push(client.model("m").run(Inputs::new()).start().await.unwrap().id().clone());
    }
    let mut all = client.tasks().wait_all(tasks).poll(PollInterval::every(SECOND));
    assert!(timeout(SECOND * 7 / 2, all.next()).await.is_err());
    // Four rounds, and the length of the history at first.
    assert_eq!(count(&service.requests(), "listTasks"), 5);
    assert_eq!(count(&service.requests(), "getTask"), 0);
}
