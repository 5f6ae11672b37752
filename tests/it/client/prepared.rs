//! Prepared runs become one task each, even when several have the same inputs.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use inferstore::{Client, Error, PreparedRun};

use super::{client, inputs};
use crate::support::scripted::{DEFAULT_MODEL, Fault, Route, ScriptedService};

/// As a program reads it from its journal after a restart.
fn read_back(prepared: &PreparedRun) -> PreparedRun {
    let line = serde_json::to_string(prepared).expect("it is JSON");
    serde_json::from_str(&line).expect("it can be read back")
}

async fn prepared(client: &Client) -> PreparedRun {
    client.model(DEFAULT_MODEL).prepare(inputs()).await.expect("it is prepared")
}

#[tokio::test]
async fn a_prepared_run_becomes_the_same_task_before_and_after_a_restart() {
    let service = ScriptedService::start().await;
    let before = client(&service);
    let prepared = prepared(&before).await;
    assert_eq!(service.created().len(), 0);
    let task = before.adopt_or_start(prepared.clone()).await.expect("it is created");
    let again = before.adopt_or_start(prepared.clone()).await.expect("it is known");
    let after = client(&service);
    let adopted = after.adopt_or_start(read_back(&prepared)).await.expect("it is found");
    assert_eq!((again.id(), adopted.id()), (task.id(), task.id()));
    assert_eq!((service.created().len(), service.count(Route::CreateTask)), (1, 1));
}

#[tokio::test]
async fn a_claimed_task_is_not_adopted() {
    let service = ScriptedService::start().await;
    let before = client(&service);
    let first = before.adopt_or_start(prepared(&before).await).await.expect("it is created");
    let second = prepared(&before).await;
    let after = client(&service);
    after.tasks().claim([first.id()]);
    let created = after.adopt_or_start(read_back(&second)).await.expect("it is created");
    assert_ne!(created.id(), first.id());
    assert_eq!(service.created().len(), 2);
}

#[tokio::test]
async fn a_run_that_is_looked_for_does_not_adopt_the_task_of_a_create_under_way() {
    let service = ScriptedService::start().await;
    let before = client(&service);
    let from_journal = read_back(&prepared(&before).await);
    let after = client(&service);
    let fresh = prepared(&after).await;
    // The task is in the history while the response to its create is still on the way.
    service.fault(Route::CreateTask, Fault::DelayMs(500)).await;
    let starting = tokio::spawn(after.adopt_or_start(fresh));
    service.until_seen(Route::CreateTask, 1).await;
    let other = after.adopt_or_start(from_journal).await.expect("it is created");
    let started = starting.await.expect("it does not panic").expect("it is created");
    assert_ne!(started.id(), other.id());
    assert_eq!(service.created().len(), 2);
}

#[tokio::test]
async fn many_prepared_runs_with_the_same_inputs_become_one_task_each_at_the_same_time() {
    let service = ScriptedService::start().await;
    let before = client(&service);
    let mut runs = Vec::new();
    for _ in 0..12 {
        runs.push(prepared(&before).await);
    }
    // Half of them were created before the restart.
    for run in &runs[..6] {
        before.adopt_or_start(run.clone()).await.expect("it is created");
    }
    let after = client(&service);
    let tasks = join_all(runs.iter().map(|run| after.adopt_or_start(read_back(run)))).await;
    let ids: BTreeSet<_> =
        tasks.into_iter().map(|task| task.expect("it has its task").id().clone()).collect();
    assert_eq!((ids.len(), service.created().len()), (12, 12));
}

#[tokio::test]
async fn a_history_that_cannot_be_read_creates_nothing() {
    let service = ScriptedService::start().await;
    let prepared = read_back(&prepared(&client(&service)).await);
    service.fault(Route::ListTasks, Fault::failure(403, "not yours").always()).await;
    let error = client(&service).adopt_or_start(prepared.clone()).await.expect_err("it may exist already");
    assert!(error.to_string().contains("not yours"), "{error}");
    service.clear_faults().await;
    before_and_unreadable(&service, prepared).await;
}

/// The task exists, and its inputs cannot be read.
async fn before_and_unreadable(service: &ScriptedService, prepared: PreparedRun) {
    client(service).adopt_or_start(prepared.clone()).await.expect("it is created");
    service.fault(Route::GetTask, Fault::failure(500, "a bug").always()).await;
    let error = client(service).adopt_or_start(read_back(&prepared)).await.expect_err("it may exist already");
    assert!(matches!(error, Error::OutcomeUnknown(_)), "{error:?}");
    assert_eq!(service.created().len(), 1);
}
