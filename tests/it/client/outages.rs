//! A wait survives failures that pass and ends at once with those that do not. In virtual time, over real
//! sockets.

use std::error::Error as _;
use std::time::Duration;

use inferstore::{Client, Error, TaskDisposition};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{built, inputs};
use crate::support::scripted::{DEFAULT_MODEL, Fault, Route, ScriptedService, Stay, TaskPlan};

const OUTAGE: Duration = Duration::from_secs(120);

/// A client with the delays of a user.
fn client(service: &ScriptedService) -> Client {
    built(Client::builder(service.base_url(), service.key()))
}

fn passing_failures() -> Vec<(&'static str, Fault)> {
    vec![
        ("503", Fault::failure(503, "maintenance")),
        ("500", Fault::failure(500, "a bug")),
        ("408", Fault::failure(408, "too slow")),
        ("429", Fault::too_many_requests("1")),
        ("HTML 502", Fault::html_page(502)),
        ("HTML 504", Fault::html_page(504)),
        ("login page with 200", Fault::html_page(200)),
        ("closed connection", Fault::CloseAfterRequest),
        ("reset connection", Fault::ResetAfterRequest),
        ("cut body", Fault::CutBody),
        ("garbled body", Fault::Garble),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_wait_without_a_deadline_survives_two_minutes_of_failures() {
    for (name, fault) in passing_failures() {
        let service = ScriptedService::start().await;
        let id = service.add_task(DEFAULT_MODEL, json!({}));
        service.fault(Route::GetTask, fault.always()).await;
        let started = Instant::now();
        let wait = client(&service).task(id.as_str()).wait();
        let outage = async {
            sleep(OUTAGE).await;
            service.clear_faults().await;
        };
        let (outcome, ()) = tokio::join!(wait, outage);
        let outcome = outcome.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        assert_eq!(outcome.task, id.as_str(), "{name}");
        assert!(started.elapsed() >= OUTAGE, "{name}: {:?}", started.elapsed());
        assert!(service.count(Route::GetTask) >= 10, "{name}: it kept reading");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_without_a_deadline_survives_two_minutes_of_failures_while_it_waits() {
    let service = ScriptedService::start().await;
    service.fault(Route::GetTask, Fault::failure(503, "maintenance").always()).await;
    let run = client(&service).model(DEFAULT_MODEL).run(inputs());
    let outage = async {
        sleep(OUTAGE).await;
        service.clear_faults().await;
    };
    let (outcome, ()) = tokio::join!(run, outage);
    outcome.expect("it ends well after all");
    assert_eq!(service.created().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn wait_all_without_a_deadline_survives_two_minutes_of_failures() {
    for (name, fault) in passing_failures() {
        let service = ScriptedService::start().await;
        service.set_plan(DEFAULT_MODEL, TaskPlan::new());
        let ids: Vec<_> =
            (0..3).map(|number| service.add_task(DEFAULT_MODEL, json!({"number": number}))).collect();
        service.fault(Route::Any, fault.always()).await;
        let started = Instant::now();
        let mut all = client(&service).tasks().wait_all(ids.iter().map(String::as_str));
        let outage = async {
            sleep(OUTAGE).await;
            service.clear_faults().await;
        };
        let wait = async {
            let mut ended = Vec::new();
            while let Some((task, result)) = all.next().await {
                result.unwrap_or_else(|error| panic!("{name}: {error:?}"));
                ended.push(task.to_string());
            }
            ended.sort();
            ended
        };
        let (ended, ()) = tokio::join!(wait, outage);
        assert_eq!(ended, ids, "{name}");
        assert!(started.elapsed() >= OUTAGE, "{name}: {:?}", started.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_task_that_the_service_refuses_to_show_ends_at_once() {
    for status in [400, 401, 403, 404, 410] {
        for deadline in [None, Some(Duration::from_secs(24 * 3_600))] {
            let service = ScriptedService::start().await;
            let id = service.add_task(DEFAULT_MODEL, json!({}));
            service.fault(Route::GetTask, Fault::failure(status, "the reason").always()).await;
            let started = Instant::now();
            let error = client(&service).task(id.as_str()).wait().deadline(deadline).await;
            let error = error.expect_err("it cannot be read");
            assert!(started.elapsed() < Duration::from_secs(1), "{status}: {:?}", started.elapsed());
            assert_eq!(service.count(Route::GetTask), 1, "{status}");
            assert_eq!(matches!(error, Error::Unauthorized(_)), status == 401, "{error:?}");
            assert_eq!((error.status(), error.task_id().is_some()), (Some(status), true), "{error:?}");
            assert!(error.to_string().contains("the reason"), "{error}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn of_many_tasks_one_that_the_service_refuses_to_show_ends_at_once_and_the_others_do_not() {
    let service = ScriptedService::start().await;
    service.set_plan(DEFAULT_MODEL, TaskPlan::new().computing(Stay::For(Duration::from_secs(30))));
    let id = service.add_task(DEFAULT_MODEL, json!({}));
    let started = Instant::now();
    let mut all = client(&service).tasks().wait_all([id.as_str(), "no-such-task"]);
    let (first, result) = all.next().await.expect("one has ended");
    assert_eq!(first, "no-such-task");
    assert!(result.is_err_and(|error| error.is_not_found()));
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    let (second, result) = all.next().await.expect("the other one has ended");
    assert_eq!((second.as_str(), result.is_ok()), (id.as_str(), true));
    assert!(all.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn at_a_deadline_without_any_read_the_state_is_unknown_and_the_last_failure_is_the_source() {
    let service = ScriptedService::start().await;
    let id = service.add_task(DEFAULT_MODEL, json!({}));
    service.fault(Route::Any, Fault::failure(503, "maintenance").always()).await;
    let deadline = Duration::from_secs(20);
    let client = client(&service);
    let one = client.task(id.as_str()).wait().deadline(deadline).await.expect_err("it cannot be read");
    let mut all = client.tasks().wait_all([id.as_str()]).deadline(deadline);
    let (_, of_many) = all.next().await.expect("it has ended");
    for error in [one, of_many.expect_err("it cannot be read")] {
        let Error::DeadlineReached(reached) = &error else { panic!("{error:?}") };
        assert_eq!((reached.disposition, &reached.last_status), (TaskDisposition::Unknown, &None));
        assert_eq!(reached.task.as_ref().map(ToString::to_string), Some(id.clone()));
        let source = error.source().expect("the last failure").to_string();
        assert!(source.contains("getTask") && source.contains("maintenance"), "{source}");
        assert_eq!(error.status(), Some(503));
        assert!(!error.to_string().contains("billed") && !error.to_string().contains("goes on"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_that_is_longer_than_allowed_ends_a_call_at_once_and_is_in_the_error() {
    let service = ScriptedService::start().await;
    let client = client(&service);
    let asked = Duration::from_secs(120);
    let started = Instant::now();
    service.fault(Route::GetBalance, Fault::too_many_requests("120").always()).await;
    let error = client.account().balance().await.expect_err("it is refused");
    assert_eq!((error.retry_after(), error.status()), (Some(asked), Some(429)), "{error:?}");
    assert!(error.is_retryable(), "{error:?}");
    service.fault(Route::CreateTask, Fault::too_many_requests("120").always()).await;
    let error = client.model(DEFAULT_MODEL).run(inputs()).await.expect_err("it is refused");
    assert_eq!((error.retry_after(), error.status()), (Some(asked), Some(429)), "{error:?}");
    let allowed = client.model(DEFAULT_MODEL).run(inputs()).retry_create_on_rejection(true);
    let error = allowed.await.expect_err("it is refused");
    assert_eq!(error.retry_after(), Some(asked), "{error:?}");
    assert_eq!((service.count(Route::GetBalance), service.count(Route::CreateTask)), (1, 2));
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_create_that_is_refused_with_429_states_when_to_try_again() {
    let service = ScriptedService::start().await;
    service.fault(Route::CreateTask, Fault::too_many_requests("7")).await;
    let error = client(&service).model(DEFAULT_MODEL).run(inputs()).await.expect_err("it is refused");
    assert_eq!(error.retry_after(), Some(Duration::from_secs(7)), "{error:?}");
    assert!(error.to_string().contains("too many requests"), "{error}");
}

/// A service that asks for this pause after each of the first three reads of its task, which has ended.
async fn busy_service(seconds: u64) -> (ScriptedService, String) {
    let service = ScriptedService::start().await;
    service.set_plan(DEFAULT_MODEL, TaskPlan::new());
    let id = service.add_task(DEFAULT_MODEL, json!({}));
    service.fault(Route::GetTask, Fault::too_many_requests(&seconds.to_string()).times(3)).await;
    (service, id)
}

/// The shortest pause between the four reads of the task.
fn shortest_pause(service: &ScriptedService) -> Duration {
    let journal = service.journal();
    let reads: Vec<_> = journal.iter().filter(|entry| entry.route == Route::GetTask).collect();
    assert_eq!(reads.len(), 4);
    let pauses = reads.windows(2).map(|pair| pair[1].at - pair[0].at);
    pauses.min().expect("there are three")
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_honoured_between_the_reads_of_a_wait() {
    // Within what a call waits for, and beyond it.
    for seconds in [20, 100] {
        let (service, id) = busy_service(seconds).await;
        client(&service).task(id.as_str()).wait().await.expect("it ends well");
        assert!(shortest_pause(&service) >= Duration::from_secs(seconds), "{:?}", shortest_pause(&service));

        let (service, id) = busy_service(seconds).await;
        let mut all = client(&service).tasks().wait_all([id.as_str()]);
        let (_, result) = all.next().await.expect("it has ended");
        result.expect("it ends well");
        assert!(shortest_pause(&service) >= Duration::from_secs(seconds), "{:?}", shortest_pause(&service));
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_of_any_length_delays_the_reads_of_a_wait_and_does_not_outlast_its_deadline() {
    let service = ScriptedService::start().await;
    let id = service.add_task(DEFAULT_MODEL, json!({}));
    service.fault(Route::Any, Fault::too_many_requests(&u64::MAX.to_string()).always()).await;
    let deadline = Duration::from_secs(3_600);
    let client = client(&service);
    let started = Instant::now();
    let error = client.task(id.as_str()).wait().deadline(deadline).await.expect_err("it cannot be read");
    assert!(error.is_timeout() && started.elapsed() <= deadline, "{error:?}");
    assert_eq!(service.count(Route::GetTask), 2, "at once, and shortly before the end");
    let mut all = client.tasks().wait_all([id.as_str()]).deadline(deadline);
    let (_, result) = all.next().await.expect("it has ended");
    assert!(result.is_err_and(|error| error.is_timeout()));
    assert_eq!(service.count(Route::GetTask), 4, "at once, and shortly before the end");
}

#[tokio::test(start_paused = true)]
async fn a_run_of_a_model_that_no_node_serves_reports_that_and_ends() {
    let service = ScriptedService::start().await;
    service.set_plan(DEFAULT_MODEL, TaskPlan::new().queued(Stay::Reads(1)));
    service.set_serving(DEFAULT_MODEL, false);
    let started = Instant::now();
    let mut events = client(&service).model(DEFAULT_MODEL).run(inputs()).events();
    let mut reported = 0;
    while let Some(event) = events.next().await {
        if event == inferstore::RunEvent::ModelOffline {
            reported += 1;
            assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
        }
    }
    let error = events.finish().await.expect_err("no node ever takes it");
    let Error::ModelOffline(offline) = &error else { panic!("{error:?}") };
    assert_eq!((reported, offline.disposition), (1, TaskDisposition::StillRunning));
    assert_eq!(error.task_id().map(ToString::to_string), Some(service.created()[0].id.clone()));
    let minutes = started.elapsed().as_secs() / 60;
    assert!((10..12).contains(&minutes), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_model_that_is_served_again_in_time_ends_well() {
    let service = ScriptedService::start().await;
    service.set_plan(DEFAULT_MODEL, TaskPlan::new().queued(Stay::Reads(1)));
    service.set_serving(DEFAULT_MODEL, false);
    let run = client(&service).model(DEFAULT_MODEL).run(inputs());
    let maintenance = async {
        sleep(Duration::from_secs(540)).await;
        service.set_serving(DEFAULT_MODEL, true);
    };
    let (outcome, ()) = tokio::join!(run, maintenance);
    outcome.expect("it ends well");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_at_the_deadline_has_time_for_its_response_before_the_deadline() {
    let service = ScriptedService::start().await;
    service.set_plan(DEFAULT_MODEL, TaskPlan::new().queued(Stay::Reads(1_000_000)));
    service.fault(Route::CancelTask, Fault::DelayMs(300).always()).await;
    let deadline = Duration::from_secs(5);
    let started = Instant::now();
    let run = client(&service).model(DEFAULT_MODEL).run(inputs()).deadline(deadline).cancel_at_deadline(true);
    let error = run.await.expect_err("it stays queued");
    let Error::DeadlineReached(reached) = &error else { panic!("{error:?}") };
    assert_eq!(reached.disposition, TaskDisposition::Canceled);
    assert!(started.elapsed() <= deadline, "{:?}", started.elapsed());

    let ids: Vec<_> =
        (0..200).map(|number| service.add_task(DEFAULT_MODEL, json!({"number": number}))).collect();
    let started = Instant::now();
    let all = client(&service).tasks().wait_all(ids.iter().map(String::as_str)).deadline(deadline * 4);
    let mut all = all.cancel_at_deadline(true);
    let mut canceled = 0;
    while let Some((task, result)) = all.next().await {
        let Err(Error::DeadlineReached(reached)) = &result else { panic!("{task}: {result:?}") };
        canceled += usize::from(reached.disposition == TaskDisposition::Canceled);
    }
    assert_eq!(canceled, 200);
    assert!(started.elapsed() <= deadline * 4 + Duration::from_millis(200), "{:?}", started.elapsed());
}
