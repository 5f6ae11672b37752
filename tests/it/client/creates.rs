//! A task is created at most once, whatever happens to the create.

use std::time::Duration;

use inferstore::{Client, Error, Run};
use serde_json::json;

use super::{Quickly, built, client, inputs, insisting, quick};
use crate::support::scripted::{DEFAULT_MODEL, Fault, Route, ScriptedService};

/// Everything that can happen to a create, by name.
fn faults() -> Vec<(&'static str, Fault)> {
    let status = |code, committed| Fault::Status {
        code,
        headers: Vec::new(),
        content_type: "application/json".to_owned(),
        body: json!({"status": "fail", "message": "scripted"}).to_string(),
        committed,
    };
    vec![
        ("closed before reading", Fault::CloseBeforeReading),
        ("closed after the headers", Fault::CloseAfterHeaders),
        ("closed within the body", Fault::CloseMidBody),
        ("closed after the request", Fault::CloseAfterRequest),
        ("reset after the request", Fault::ResetAfterRequest),
        ("closed after the commit", Fault::CloseAfterCommit),
        ("reset after the commit", Fault::ResetAfterCommit),
        ("answer cut off", Fault::CutBody),
        ("answer garbled", Fault::Garble),
        ("408", status(408, false)),
        ("409", status(409, false)),
        ("429", Fault::too_many_requests("0")),
        ("500 after the commit", status(500, true)),
        ("502 page", Fault::html_page(502)),
        ("502 after the commit", status(502, true)),
        ("503", status(503, false)),
        ("504 after the commit", status(504, true)),
        ("envelope that says fail", Fault::FailEnvelope("scripted".to_owned())),
    ]
}

/// How often each fault is tried, with an input of its own each time.
const SEEDS: u32 = 100;

#[tokio::test]
async fn no_fault_creates_a_task_twice_and_a_committed_one_is_found_again() {
    for (name, fault) in faults() {
        let service = ScriptedService::start().await;
        let client = client(&service);
        let mut reported = 0;
        for seed in 1..=SEEDS {
            service.fault(Route::CreateTask, fault.clone()).await;
            // The history is not always there either.
            if seed % 3 == 0 {
                service.fault(Route::ListTasks, Fault::CloseAfterRequest).await;
            }
            let before = service.created().len();
            let result = start(run(&client, seed)).await;
            let created = &service.created()[before..];
            assert!(created.len() <= 1, "{name}: {} tasks for one create", created.len());
            match result {
                Ok(id) => assert_eq!(created.first().map(|task| task.id.clone()), Some(id), "{name}"),
                Err(error) => {
                    assert!(created.is_empty(), "{name}: a task was created, and lost: {error}");
                    reported += 1;
                }
            }
            service.clear_faults().await;
        }
        assert_eq!(
            service.count(Route::CreateTask),
            usize::try_from(SEEDS).expect("it fits"),
            "{name}: sent once each"
        );
        assert!(reported == 0 || reported == SEEDS, "{name}: {reported} of {SEEDS} failed");
    }
}

#[tokio::test]
async fn with_all_permission_to_repeat_every_fault_that_passes_ends_in_exactly_one_task() {
    // Refusals that say nothing of trying later stay refusals.
    let final_refusals = ["409", "envelope that says fail"];
    for (name, fault) in faults().into_iter().filter(|(name, _)| !final_refusals.contains(name)) {
        let service = ScriptedService::start().await;
        let client = client(&service);
        for seed in 1..=SEEDS {
            // Calls that work refill the budget for repeats, which a create that always fails uses up.
            for _ in 0..6 {
                client.account().balance().await.expect("nothing is wrong with the balance");
            }
            service.fault(Route::CreateTask, fault.clone().times(1 + seed as usize % 2)).await;
            if seed % 3 == 0 {
                service.fault(Route::ListTasks, Fault::CloseAfterRequest).await;
            }
            let before = service.created().len();
            let started = start(insisting(run(&client, seed))).await;
            let created: Vec<_> = service.created()[before..].iter().map(|task| task.id.clone()).collect();
            assert_eq!(created, [started.unwrap_or_else(|error| panic!("{name}: {error:?}"))], "{name}");
            service.clear_faults().await;
        }
    }
}

#[tokio::test]
async fn a_create_that_lands_after_the_grace_runs_twice_which_is_why_that_repeat_is_off_by_default() {
    let service = ScriptedService::start().await;
    let client = client(&service);
    let late = Fault::CommitAfterCloseMs(400);
    service.fault(Route::CreateTask, late.clone()).await;
    start(insisting(run(&client, 1))).await.expect("the second one is taken at once");
    assert_eq!(service.count(Route::CreateTask), 2);
    until_created(&service, 2).await;

    service.fault(Route::CreateTask, late.clone()).await;
    let error = start(run(&client, 2)).await.expect_err("the outcome is unknown");
    assert!(matches!(error, Error::OutcomeUnknown(_)), "{error:?}");
    until_created(&service, 3).await;
    assert_eq!(service.count(Route::CreateTask), 3, "sent once without permission");

    service.fault(Route::CreateTask, late).await;
    let late_retry = insisting(run(&client, 3)).retry_create_if_absent_after(Duration::from_secs(2));
    let task = start(late_retry).await.expect("the last look finds it");
    assert_eq!((service.created().len(), &service.created()[3].id), (4, &task));
}

async fn until_created(service: &ScriptedService, tasks: usize) {
    while service.created().len() < tasks {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A run with inputs of its own.
fn run(client: &Client, seed: u32) -> Run {
    let image = format!("https://files.example/{seed}.png");
    let inputs = inputs().set("angle", seed % 90 + 1).set("input_image", image);
    client.model(DEFAULT_MODEL).run(inputs).quickly()
}

async fn start(run: Run) -> Result<String, Error> {
    Ok(run.start().await?.id().to_string())
}

#[tokio::test]
async fn a_create_that_nothing_reached_is_repeated_and_one_that_was_refused_is_not() {
    let closed = built(quick("http://127.0.0.1:9/api/v1", "key"));
    let unchecked = closed.model("m").run(inputs()).quickly().skip_validation(true);
    let error = unchecked.start().await.expect_err("nothing listens there");
    let Error::Transport(context) = &error else { panic!("{error:?}") };
    assert!(context.attempts > 1 && context.is_retry_safe, "{context:?}");

    let service = ScriptedService::start().await;
    service.fault(Route::CreateTask, Fault::too_many_requests("0").always()).await;
    let error = start(run(&client(&service), 1)).await.expect_err("it is refused");
    assert_eq!(error.context().map(|context| (context.status, context.attempts)), Some((Some(429), 1)));
}

#[tokio::test]
async fn a_task_of_this_client_is_not_taken_for_the_lost_one() {
    let service = ScriptedService::start().await;
    let client = client(&service);
    let model = client.model(DEFAULT_MODEL);
    let first = model.run(inputs()).quickly().start().await.expect("it is created");
    service.fault(Route::CreateTask, Fault::CloseAfterCommit).await;
    let second = model.run(inputs()).quickly().start().await.expect("it is found");
    assert_ne!(first.id(), second.id());
    service.fault(Route::CreateTask, Fault::CloseAfterRequest).await;
    let error = model.run(inputs()).quickly().start().await.expect_err("it never arrived");
    let Error::OutcomeUnknown(unknown) = &error else { panic!("{error:?}") };
    assert!(unknown.candidates.is_empty() && unknown.history_was_read, "{unknown:?}");
}

#[tokio::test]
async fn the_task_of_a_create_that_is_still_waiting_for_its_answer_is_not_taken_for_a_lost_one() {
    let service = ScriptedService::start().await;
    let client = client(&service);
    service.fault(Route::CreateTask, Fault::DelayMs(1_500)).await;
    service.fault(Route::CreateTask, Fault::CloseAfterRequest).await;
    let (first, second) = tokio::join!(start(run(&client, 1)), async {
        until_created(&service, 1).await;
        start(run(&client, 1)).await
    });
    let error = second.expect_err("it never arrived, and the task in the history is the other one");
    assert!(matches!(error, Error::OutcomeUnknown(_)), "{error:?}");
    assert_eq!(first.ok(), Some(service.created()[0].id.clone()));
    assert_eq!(service.created().len(), 1);
}

#[tokio::test]
async fn a_lost_task_is_found_at_the_end_of_a_long_history() {
    let service = ScriptedService::start().await;
    for number in 0..250 {
        service.add_task("another-model", json!({"number": number}));
    }
    service.fault(Route::CreateTask, Fault::CloseAfterCommit).await;
    let task =
        client(&service).model(DEFAULT_MODEL).run(inputs()).quickly().start().await.expect("it is found");
    assert_eq!(task.id().as_str(), service.created()[0].id);
}

#[tokio::test]
async fn clocks_that_differ_do_not_hide_a_lost_task() {
    for seconds in [-86_400, -45, 45, 86_400] {
        let service = ScriptedService::start().await;
        service.set_clock_ahead(seconds);
        service.fault(Route::CreateTask, Fault::CloseAfterCommit).await;
        let task = client(&service).model(DEFAULT_MODEL).run(inputs()).quickly().start().await;
        assert_eq!(task.expect("it is found").id().as_str(), service.created()[0].id);
    }
}

#[tokio::test(start_paused = true)]
async fn the_task_of_a_create_of_unknown_outcome_is_not_adopted_by_a_later_create() {
    let service = ScriptedService::start().await;
    let client = client(&service);
    // The first create is committed when its client has given up, while the second one is looked for.
    service.fault(Route::CreateTask, Fault::CommitAfterCloseMs(20)).await;
    let error = start(run(&client, 1)).await.expect_err("nothing shows it yet");
    assert!(matches!(error, Error::OutcomeUnknown(_)), "{error:?}");
    assert_eq!(service.created().len(), 0);
    until_created(&service, 1).await;
    service.fault(Route::CreateTask, Fault::CloseAfterRequest).await;
    let error = start(run(&client, 1)).await.expect_err("the task in the history may be the first one's");
    let Error::OutcomeUnknown(unknown) = &error else { panic!("{error:?}") };
    let candidates: Vec<_> = unknown.candidates.iter().map(ToString::to_string).collect();
    assert_eq!(candidates, [service.created()[0].id.clone()]);
}
