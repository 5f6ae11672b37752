//! Exactly one task per run after any failure: with idempotency keys, and without. In virtual time.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use inferstore::middleware::{BoxFuture, Middleware, Next};
use inferstore::reqwest::{self, Request, Response, header::DATE};
use inferstore::{
    Abandon, Client, Error, ErrorKind, File, HistoryRead, Inputs, PreparedRun, Retry, TaskDisposition,
    UnknownOutcome,
};
use inferstore_testing::ScriptedService;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{count, run};

const SECOND: Duration = Duration::from_secs(1);

/// Returns a service with idempotency keys and one without, both with the model `m`.
fn both() -> [ScriptedService; 2] {
    [ScriptedService::new(), ScriptedService::new().without_idempotency_keys()].map(|service| {
        let _ = service.model("m").succeeds(json!("done"));
        service
    })
}

fn unknown(error: &Error) -> &UnknownOutcome {
    let Error::OutcomeUnknown(unknown) = error else { panic!("{error:?}") };
    unknown
}

/// Serializes and deserializes a prepared run, as after a crash.
fn read_back(prepared: &PreparedRun) -> PreparedRun {
    serde_json::from_str(&serde_json::to_string(prepared).unwrap()).unwrap()
}

/// Gateway whose clock is ahead of the service's.
struct ClockAhead(Duration);

impl Middleware for ClockAhead {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>> {
        Box::pin(async move {
            let mut response = next.run(request).await?;
            let date = httpdate::fmt_http_date(SystemTime::now() + self.0);
            response.headers_mut().insert(DATE, date.parse().unwrap());
            Ok(response)
        })
    }
}

/// Fails over to an unreachable second gateway when the first response was lost.
struct Failover;

impl Middleware for Failover {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>> {
        Box::pin(async move {
            match next.run(request).await {
                // Nothing listens on this port: a connection error.
                Err(_) => reqwest::Client::new().get("http://127.0.0.1:1/").send().await,
                response => response,
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_create_is_sent_again_with_its_key_and_the_history_is_not_read() {
    let [service, _] = both();
    let client = service.client().unwrap();
    service.loses_response("createTask").responds("createTask", 503, "").responds(
        "createTask",
        502,
        "<html>",
    );
    let outcome = run(&client).await.unwrap();
    assert_eq!((outcome.output.as_str(), outcome.is_adopted()), (Some("done"), false));
    let created = service.created();
    assert_eq!((created.len(), count(&service.requests(), "createTask")), (1, 4));
    assert_eq!(count(&service.requests(), "listTasks"), 0);
    assert!(created[0].idempotency_key.as_ref().is_some_and(|key| key.len() == 32), "{created:?}");
    run(&client).await.unwrap();
    assert_ne!(service.created()[1].idempotency_key, created[0].idempotency_key);
}

#[tokio::test(start_paused = true)]
async fn a_lost_create_outlasts_an_outage_until_its_deadline() {
    let [service, _] = both();
    let client = service.client().unwrap();
    let fail = |times| (0..times).for_each(|_| _ = service.responds("createTask", 502, "<html>"));
    // Without a deadline, for the settle time.
    for deadline in [Some(60 * SECOND), None] {
        service.loses_response("createTask");
        fail(8);
        let outcome = run(&client).deadline(deadline).await.unwrap();
        assert!(!outcome.is_adopted());
    }
    assert_eq!((service.created().len(), count(&service.requests(), "listTasks")), (2, 0));
    service.loses_response("createTask");
    fail(200);
    let started = Instant::now();
    let error = run(&client).deadline(20 * SECOND).await.unwrap_err();
    assert!((19 * SECOND..=20 * SECOND).contains(&started.elapsed()), "{:?}", started.elapsed());
    let task = service.created().pop().unwrap().task;
    assert!(unknown(&error).candidates.contains(&task), "{error:?}");
}

/// Network that breaks when the machine wakes up after 25 hours, with a create on its way.
struct Suspended(AtomicU32);

impl Middleware for Suspended {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>> {
        Box::pin(async move {
            let is_first = next.operation() == "createTask" && self.0.fetch_add(1, Ordering::Relaxed) == 0;
            let response = next.run(request).await;
            if !is_first {
                return response;
            }
            tokio::time::advance(25 * 3_600 * SECOND).await;
            reqwest::Client::new().get("http://127.0.0.1:1/").send().await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_create_is_not_sent_again_when_its_key_may_be_forgotten() {
    let [service, _] = both();
    let client = service.client_builder().middleware(Suspended(AtomicU32::new(0))).build().unwrap();
    let error = run(&client).await.unwrap_err();
    assert_eq!(count(&service.requests(), "createTask"), 1);
    assert_eq!(unknown(&error).candidates, [service.created()[0].task.clone()]);
}

#[tokio::test(start_paused = true)]
async fn support_of_keys_announced_after_a_lost_create_makes_it_be_resent() {
    let [service, _] = both();
    // The first request of the client is the create.
    service.loses_response("createTask");
    run(&service.client().unwrap()).options(|options| options.skip_validation = true).await.unwrap();
    assert_eq!((service.created().len(), count(&service.requests(), "createTask")), (1, 2));
    assert_eq!(count(&service.requests(), "listTasks"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_after_a_lost_create_does_not_claim_that_there_is_no_task() {
    let [service, _] = both();
    service.responds("createTask", 502, "").responds("createTask", 402, "");
    let error = run(&service.client().unwrap()).await.unwrap_err();
    assert_eq!((unknown(&error).history, error.status()), (HistoryRead::Complete, Some(402)));
}

#[tokio::test(start_paused = true)]
async fn a_create_with_a_key_obeys_the_retry_policy_and_the_deadline() {
    let [service, _] = both();
    let mut retry = Retry::default();
    retry.max_attempts = 3;
    let client = service.client_builder();
    let client =
        client.settings(|settings| (settings.retry, settings.create_settle_time) = (retry, Duration::ZERO));
    let client = client.build().unwrap();
    let lose = || (0..10).for_each(|_| _ = service.responds("createTask", 502, ""));
    lose();
    assert_eq!(unknown(&run(&client).await.unwrap_err()).candidates, [""; 0]);
    assert_eq!(count(&service.requests(), "createTask"), 3);
    let started = Instant::now();
    let error = run(&client).deadline(Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(error, Error::OutcomeUnknown(_)), "{error:?}");
    assert!(started.elapsed() <= Duration::from_millis(300), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_prepared_run_is_one_task_for_any_difference_of_clocks() {
    for ahead in [0, 50, 90, 300, 3_000] {
        for service in both() {
            for has_file in [true, false] {
                let client = || {
                    let builder = service
                        .client_builder()
                        .settings(|settings| settings.create_settle_time = 10 * SECOND);
                    builder.middleware(ClockAhead(ahead * SECOND)).build().unwrap()
                };
                let mut inputs = Inputs::new().set("prompt", format!("{ahead} {has_file}"));
                if has_file {
                    inputs = inputs.file("input", File::bytes("a.png", format!("pixels {ahead}")));
                }
                let prepared = client().model("m").prepare(inputs).await.unwrap();
                let task = client().adopt_or_start(read_back(&prepared)).await.unwrap();
                let before = service.created().len();
                let again = client().adopt_or_start(read_back(&prepared)).await;
                assert_eq!(service.created().len(), before, "{ahead} s, {has_file}");
                match again {
                    Ok(again) => assert_eq!(again.id(), task.id()),
                    // Without a key and a file, nothing proves the owner of a task.
                    Err(error) => assert_eq!(unknown(&error).candidates, [task.id().clone()], "{ahead} s"),
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn two_processes_with_one_journal_make_one_task() {
    let [service, _] = both();
    let prepared = service.client().unwrap().model("m").prepare(Inputs::new()).await.unwrap();
    let journal = serde_json::to_string(&prepared).unwrap();
    let start = || {
        let client = service.client().unwrap();
        client.adopt_or_start(serde_json::from_str(&journal).unwrap())
    };
    let started = Instant::now();
    let (one, other) = tokio::join!(start(), start());
    assert_eq!(one.unwrap().id(), other.unwrap().id());
    assert_eq!((service.created().len(), started.elapsed()), (1, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_prepared_run_with_a_task_is_found_despite_its_new_limits() {
    let [service, _] = both();
    let model = service.model("m").costs("0.01".parse().unwrap());
    let client = service.client().unwrap();
    let prepared = async |inputs| client.model("m").run(inputs).max_cost("1").prepare().await.unwrap();
    let with_file = prepared(Inputs::new().file("input", File::bytes("a.png", "pixels"))).await;
    let without = prepared(Inputs::new()).await;
    let task = client.adopt_or_start(with_file.clone()).await.unwrap();
    let other = client.adopt_or_start(without.clone()).await.unwrap();
    let _ = model.costs("900".parse().unwrap());
    let after = service.client().unwrap();
    assert_eq!(after.adopt_or_start(read_back(&with_file)).await.unwrap().id(), task.id());
    // Nothing proves that the task is not of another program.
    let error = after.adopt_or_start(read_back(&without)).await.unwrap_err();
    assert_eq!(unknown(&error).candidates, [other.id().clone()]);
    let new = client.model("m").run(Inputs::new().set("prompt", "new")).prepare().await.unwrap();
    let mut new = read_back(&new);
    new.max_cost = Some("1".parse().unwrap());
    let error = after.adopt_or_start(new).await.unwrap_err();
    assert!(matches!(error, Error::CostLimitExceeded(_)), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_prepared_run_older_than_its_key_is_looked_for_in_the_history() {
    let [service, _] = both();
    let client = service.client().unwrap();
    let prepared = client.model("m").prepare(Inputs::new()).await.unwrap();
    let task = client.adopt_or_start(prepared.clone()).await.unwrap();
    sleep(25 * 3_600 * SECOND).await;
    let creates = count(&service.requests(), "createTask");
    let adopted = service.client().unwrap().adopt_or_start(read_back(&prepared)).await.unwrap();
    assert_eq!(adopted.id(), task.id());
    assert_eq!(count(&service.requests(), "createTask"), creates);
}

#[tokio::test(start_paused = true)]
async fn the_task_of_another_program_is_never_canceled() {
    for service in both() {
        let _ = service.model("queued").stays_queued();
        let run = || service.client().unwrap().model("queued").run(Inputs::new());
        let others = run().start().await.unwrap();
        // The create is lost on its way to the service.
        let has_keys = run_is_keyed(&service);
        service.responds("createTask", 502, "");
        let lost = run().deadline(20 * SECOND).on_abandon(Abandon::Cancel);
        let error = lost.await.unwrap_err();
        let Error::DeadlineReached(reached) = &error else { panic!("{error:?}") };
        let left = service.created().len() == 1;
        let expected = if left { TaskDisposition::StillRunning } else { TaskDisposition::Canceled };
        assert_eq!((reached.disposition, left), (expected, !has_keys));
        let status = others.get().await.unwrap().status;
        assert_eq!(status.map(|status| status.to_string()).as_deref(), Some("in_queue"));
    }
}

/// Returns true if the creates have idempotency keys that the service supports.
fn run_is_keyed(service: &ScriptedService) -> bool {
    service.created().iter().all(|task| task.idempotency_key.is_some())
}

#[tokio::test(start_paused = true)]
async fn an_adopted_task_says_so_and_one_with_an_own_upload_is_canceled() {
    let [_, service] = both();
    service.loses_response("createTask");
    let adopted = run(&service.client().unwrap()).await.unwrap();
    assert!(adopted.is_adopted());
    assert!(!run(&service.client().unwrap()).await.unwrap().is_adopted());
    let _ = service.model("queued").stays_queued();
    service.loses_response("createTask");
    let inputs = Inputs::new().file("input", File::bytes("a.png", "pixels"));
    let run = service.client().unwrap().model("queued").run(inputs);
    let error = run.deadline(20 * SECOND).on_abandon(Abandon::Cancel).await.unwrap_err();
    let Error::DeadlineReached(reached) = &error else { panic!("{error:?}") };
    assert_eq!(reached.disposition, TaskDisposition::Canceled);
}

#[tokio::test(start_paused = true)]
async fn an_error_behind_a_middleware_is_no_proof_that_nothing_was_sent() {
    for service in both() {
        let client = service.client_builder().middleware(Failover).build().unwrap();
        service.loses_response("createTask");
        run(&client).await.unwrap();
        assert_eq!(service.created().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_adoption_among_three_thousand_foreign_tasks_takes_few_requests() {
    for service in both() {
        let prepared = service.client().unwrap().model("m").prepare(Inputs::new()).await.unwrap();
        let others = service.client().unwrap();
        start_many(&others, 3_000).await;
        let before = service.requests().len();
        let client = service
            .client_builder()
            .settings(|settings| settings.create_settle_time = Duration::ZERO)
            .build()
            .unwrap();
        let adopted = client.adopt_or_start(read_back(&prepared)).await;
        let requests = service.requests().len() - before;
        assert!(requests <= 20, "{requests} requests");
        match adopted {
            Ok(task) => assert_eq!(service.created().last().unwrap().task, *task.id()),
            Err(error) => {
                assert_eq!(unknown(&error).history, HistoryRead::Partial);
                assert!(unknown(&error).is_prepared && !run_is_keyed(&service), "{error:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_total_that_is_older_than_the_records_hides_no_task() {
    for total in [0, 100] {
        let [_, service] = both();
        let others = service.client().unwrap();
        start_many(&others, 150).await;
        let prepared = others.model("m").prepare(Inputs::new()).await.unwrap();
        let task = others.adopt_or_start(prepared.clone()).await.unwrap();
        let stale = StaleTotal(total);
        let client = service
            .client_builder()
            .settings(|settings| settings.create_settle_time = Duration::ZERO)
            .middleware(stale)
            .build()
            .unwrap();
        let adopted = client.adopt_or_start(read_back(&prepared)).await.unwrap();
        assert_eq!((adopted.id(), service.created().len()), (task.id(), 151), "a total of {total}");
    }
}

async fn start_many(client: &Client, count: u32) {
    for number in 0..count {
        let run = client.model("m").run(Inputs::new().set("number", number));
        run.options(|options| options.skip_validation = true).start().await.unwrap();
    }
}

/// Cache in front of the service that returns an old total of the history.
struct StaleTotal(u64);

impl Middleware for StaleTotal {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>> {
        Box::pin(async move {
            let is_history = next.operation() == "listTasks";
            let response = next.run(request).await?;
            if !is_history {
                return Ok(response);
            }
            let mut body: serde_json::Value = response.json().await?;
            body["data"]["total"] = json!(self.0);
            Ok(Response::from(http::Response::new(body.to_string())))
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_without_inputs_is_not_taken_for_an_unreadable_history() {
    let [_, service] = both();
    let prepared = service.client().unwrap().model("m").prepare(Inputs::new()).await.unwrap();
    run(&service.client().unwrap()).start().await.unwrap();
    let detail = json!({ "status": "success", "data": { "task_id": "task-1", "input_data": null } });
    service.responds("getTask", 200, detail);
    let client = service
        .client_builder()
        .settings(|settings| settings.create_settle_time = Duration::ZERO)
        .build()
        .unwrap();
    let error = client.adopt_or_start(read_back(&prepared)).await.unwrap_err();
    assert_eq!((unknown(&error).history, unknown(&error).is_prepared), (HistoryRead::Partial, true));
    assert!(!error.to_string().contains("lost"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_adoption_ends_at_its_deadline_and_can_be_tried_again() {
    let [_, service] = both();
    let prepared = service.client().unwrap().model("m").prepare(Inputs::new()).await.unwrap();
    let client = service.client().unwrap();
    let prepared = read_back(&prepared);
    let started = Instant::now();
    let error = client.adopt_or_start(prepared.clone()).deadline(5 * SECOND).await.unwrap_err();
    assert!(error.is_timeout() && started.elapsed() <= 5 * SECOND, "{error:?}");
    client.adopt_or_start(prepared).await.unwrap();
    assert_eq!(service.created().len(), 1);
}

/// Counts the attempts of each operation.
struct Attempts(std::sync::Arc<AtomicU32>);

impl Middleware for Attempts {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>> {
        if next.operation() == "createTask" {
            self.0.fetch_max(next.attempt(), Ordering::Relaxed);
        }
        next.run(request)
    }
}

#[tokio::test(start_paused = true)]
async fn a_middleware_sees_the_operation_and_the_attempt() {
    let [service, _] = both();
    let seen = std::sync::Arc::new(AtomicU32::new(0));
    let client = service.client_builder().middleware(Attempts(std::sync::Arc::clone(&seen))).build().unwrap();
    service.responds("createTask", 503, "").responds("createTask", 503, "");
    run(&client).await.unwrap();
    assert_eq!(seen.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn a_client_with_another_key_sends_and_masks_it() {
    let [service, _] = both();
    let client: Client = service.client().unwrap().with_key("isk_rotated_SECRET_1234").unwrap();
    assert!(matches!(client.with_key(" "), Err(Error::Config(_))));
    let body = json!({ "status": "fail", "message": "the key isk_rotated_SECRET_1234 is not known" });
    service.responds("getBalance", 401, body);
    let error = client.balance().await.unwrap_err();
    assert!(format!("{error} {error:?}").contains("the key … is not known"), "{error:?}");
    run(&client).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_forbids_a_new_task_does_not_hide_one_that_may_exist() {
    let [service, _] = both();
    let model = service.model("m").costs("1".parse().unwrap());
    let client = service.client().unwrap();
    let prepared = client.model("m").run(Inputs::new()).max_cost("1").prepare().await.unwrap();
    client.adopt_or_start(prepared.clone()).await.unwrap();
    // More foreign tasks than a search reads.
    for number in 0..350 {
        let run = client.model("m").run(Inputs::new().set("number", number));
        run.options(|options| options.skip_validation = true).start().await.unwrap();
    }
    let model = model.costs("2".parse().unwrap());
    let after = service.client().unwrap();
    let error = after.adopt_or_start(read_back(&prepared)).await.unwrap_err();
    assert!(matches!(error, Error::OutcomeUnknown(_)) && !error.is_refused_create(), "{error:?}");
    let _ = model.costs("1".parse().unwrap());
    after.adopt_or_start(read_back(&prepared)).await.unwrap();
    assert_eq!(service.created().len(), 351);
}

#[tokio::test(start_paused = true)]
async fn a_refused_second_create_does_not_hide_the_task_of_the_first() {
    let [service, _] = both();
    service.model("m");
    let before = service.client().unwrap();
    let page = "<html><title>404 Not Found</title></html>";
    for (status, body) in [(401, ""), (402, ""), (403, ""), (404, page), (409, "")] {
        let inputs = Inputs::new().file("input", File::bytes("a.png", format!("pixels {status}")));
        let prepared = before.model("m").run(inputs).prepare().await.unwrap();
        let task = before.adopt_or_start(prepared.clone()).await.unwrap();
        service.responds("createTask", status, body);
        let after = service.client().unwrap();
        let found = after.adopt_or_start(read_back(&prepared)).await.unwrap();
        assert_eq!(found.id(), task.id(), "{status}");
    }
    assert_eq!(service.created().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_by_a_service_that_looked_for_the_key_needs_no_search() {
    let [service, _] = both();
    let others = service.client().unwrap();
    let prepared = others.model("m").prepare(Inputs::new()).await.unwrap();
    // More than a search reads.
    start_many(&others, 350).await;
    let refuse = || {
        let body = json!({ "status": "fail", "message": "insufficient balance", "data": null });
        service.responds("createTask", 402, body);
    };
    let creates = || count(&service.requests(), "createTask") - 350;
    let after = service.client().unwrap();
    after.balance().await.unwrap();
    let searches = count(&service.requests(), "listTasks");
    let started = Instant::now();
    (0..2).for_each(|_| refuse());
    let error = after.adopt_or_start(read_back(&prepared)).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.is_refused_create()),
        (ErrorKind::InsufficientBalance, true),
        "{error:?}"
    );
    // The create of a process that was killed just now may still be on its way.
    assert_eq!((creates(), started.elapsed()), (2, 60 * SECOND));
    assert_eq!(count(&service.requests(), "listTasks"), searches);
    refuse();
    let later = read_back(&prepared);
    sleep(60 * SECOND).await;
    after.adopt_or_start(later.clone()).await.unwrap_err();
    assert_eq!(creates(), 3);
    after.adopt_or_start(later).await.unwrap();
    assert_eq!(service.created().len(), 351);
}

#[tokio::test(start_paused = true)]
async fn a_refused_create_adopts_no_task_of_another_program() {
    let [service, _] = both();
    let (one, other) = (service.client().unwrap(), service.client().unwrap());
    let prepared = one.model("m").prepare(Inputs::new()).await.unwrap();
    let task = other.model("m").run(Inputs::new()).start().await.unwrap();
    service.responds("createTask", 401, "");
    let error = service.client().unwrap().adopt_or_start(read_back(&prepared)).await.unwrap_err();
    assert_eq!(unknown(&error).candidates, [task.id().clone()]);
    assert_eq!(error.status(), Some(401));
    assert!(error.with_causes().contains("createTask failed with 401"), "{}", error.with_causes());
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_final_only_if_the_history_shows_that_there_is_no_task() {
    let [service, _] = both();
    service.model("m");
    let before = service.client().unwrap();
    let sent = before.model("m").run(Inputs::new().set("sent", 1)).prepare().await.unwrap();
    let task = before.adopt_or_start(sent.clone()).await.unwrap();
    service.responds("createTask", 401, "").responds("listTasks", 401, "");
    let after = service.client().unwrap();
    after.balance().await.unwrap();
    let error = after.adopt_or_start(read_back(&sent)).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unauthorized && !error.is_refused_create(), "{error:?}");
    assert_eq!(after.adopt_or_start(read_back(&sent)).await.unwrap().id(), task.id());
    let unsent = before.model("m").run(Inputs::new()).prepare().await.unwrap();
    service.responds("createTask", 422, "");
    let error = after.adopt_or_start(read_back(&unsent)).await.unwrap_err();
    assert!(error.is_refused_create(), "{error:?}");
    assert_eq!(service.created().len(), 1);
}
