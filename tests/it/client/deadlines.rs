//! One deadline bounds everything, whatever the service does.

use std::time::{Duration, Instant};

use inferstore::{ApiKey, Client, Error, Fate, RunOptions, Wait};

use super::{client, inputs, wait};
use crate::support::responder::{Answer, respond};
use crate::support::scripted::{DEFAULT_MODEL, Fault, Route, ScriptedService, Stay, TaskPlan};

const DEADLINE: Duration = Duration::from_millis(400);

/// What separates a kept deadline from one that was multiplied by repeats, on a machine that is busy
/// with something else.
const GENEROUS: Duration = Duration::from_secs(5);

fn hurried() -> RunOptions {
    RunOptions { wait: Wait { deadline: Some(DEADLINE), ..wait() }, ..RunOptions::default() }
}

#[tokio::test]
async fn a_service_that_never_answers_does_not_hold_a_run_beyond_its_deadline() {
    for route in [Route::GetModelVersioning, Route::GetModelCost, Route::CreateTask, Route::GetTask] {
        let service = ScriptedService::start().await;
        service.fault(route, Fault::Stall.always()).await;
        let options = RunOptions { max_cost: Some(1.into()), ..hurried() };
        let started = Instant::now();
        let error =
            client(&service).model(DEFAULT_MODEL).run_with(inputs(), options).await.expect_err("time is up");
        assert!(started.elapsed() < GENEROUS, "{route:?}: {:?}", started.elapsed());
        match (route, &error) {
            (Route::CreateTask, Error::OutcomeUnknown(_)) => {}
            (Route::GetTask, Error::DeadlineReached(reached)) => {
                assert_eq!(reached.fate, Fate::GoesOn);
                assert_eq!(error.task_id().map(ToString::to_string), Some(service.created()[0].id.clone()));
            }
            (_, Error::DeadlineReached(reached)) if reached.fate == Fate::NotCreated => {
                assert!(service.created().is_empty(), "{route:?}");
            }
            _ => panic!("{route:?}: {error:?}"),
        }
    }
}

#[tokio::test]
async fn repeats_do_not_multiply_a_deadline() {
    let service = ScriptedService::start().await;
    service.fault(Route::GetModelVersioning, Fault::too_many_requests("3600").always()).await;
    let started = Instant::now();
    let patient = inferstore::Settings::default();
    let client = super::client_with(&service, patient);
    let error = client.model(DEFAULT_MODEL).run_with(inputs(), hurried()).await.expect_err("it is refused");
    assert!(started.elapsed() < GENEROUS, "{:?}", started.elapsed());
    assert!(matches!(error, Error::Refused(_) | Error::DeadlineReached(_)), "{error:?}");
}

#[tokio::test]
async fn a_failure_that_drips_does_not_hold_a_run_beyond_its_deadline() {
    for operation in ["/versioning", "/task", "/detail"] {
        let origin = respond(move |request| {
            let usual = r#"{"status": "success", "data": {"model_id": "m", "data": "t"}}"#.to_owned();
            Some(match request.line.ends_with(operation) {
                true => {
                    Answer { code: 502, body: "x".repeat(100_000), pause: Some(Duration::from_millis(5)) }
                }
                false => Answer { code: 200, body: usual, pause: None },
            })
        });
        let client = Client::with_settings(&format!("{origin}/api/v1"), ApiKey::new("key"), super::quick());
        let started = Instant::now();
        let run = client.expect("a client can be made").model("m").run_with(inputs(), hurried()).await;
        run.expect_err("time is up");
        assert!(started.elapsed() < GENEROUS, "{operation}: {:?}", started.elapsed());
    }
}

#[tokio::test]
async fn a_queued_task_is_canceled_at_the_deadline_when_the_caller_wants_that() {
    let service = ScriptedService::start().await;
    service.set_plan(DEFAULT_MODEL, TaskPlan::new().queued(Stay::Reads(10_000)));
    let wait = Wait { cancel_at_deadline: true, ..hurried().wait };
    let options = RunOptions { wait, ..RunOptions::default() };
    let error =
        client(&service).model(DEFAULT_MODEL).run_with(inputs(), options).await.expect_err("time is up");
    let Error::DeadlineReached(reached) = &error else { panic!("{error:?}") };
    assert_eq!(reached.fate, Fate::Canceled);
    assert_eq!(service.canceled(), [service.created()[0].id.clone()]);
}

#[tokio::test]
async fn a_running_task_goes_on_at_the_deadline_and_can_be_picked_up() {
    let service = ScriptedService::start().await;
    service.set_plan(DEFAULT_MODEL, TaskPlan::new().computing(Stay::For(Duration::from_millis(800))));
    let wait = Wait { cancel_at_deadline: true, ..hurried().wait };
    let options = RunOptions { wait, ..RunOptions::default() };
    let client = client(&service);
    let error = client.model(DEFAULT_MODEL).run_with(inputs(), options).await.expect_err("time is up");
    let Error::DeadlineReached(reached) = &error else { panic!("{error:?}") };
    assert_eq!((reached.fate, service.canceled().len()), (Fate::GoesOn, 0));
    let task = error.task_id().expect("the error carries the task");
    let outcome = client.task(task).wait(&super::wait()).await.expect("it ends well");
    assert_eq!(&outcome.task, task);
}
