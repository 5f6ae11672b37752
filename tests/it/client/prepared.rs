//! Each prepared run becomes one task, even among runs with the same inputs.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use inferstore::{Client, Error, PreparedRun};
use inferstore_api::operations;
use inferstore_service::{Controls, Fault, Script, Service};
use inferstore_wire::until;

use super::inputs;
use super::on_the_service::{self, MODEL, client_of, tasks, without_keys};

async fn start() -> (Service, Controls, Client) {
    let (service, controls, before) = on_the_service::start().await;
    controls.let_model(MODEL, Script::stay_queued()).await.expect("it stays queued");
    (service, controls, before)
}

fn read_back(prepared: &PreparedRun) -> PreparedRun {
    let line = serde_json::to_string(prepared).expect("it is JSON");
    serde_json::from_str(&line).expect("it can be read back")
}

async fn prepared(client: &Client) -> PreparedRun {
    client.model(MODEL).prepare(inputs()).await.expect("it is prepared")
}

#[tokio::test]
async fn a_prepared_run_becomes_the_same_task_before_and_after_a_restart() {
    let (service, controls, before) = start().await;
    let prepared = prepared(&before).await;
    assert_eq!(tasks(&controls).await, 0);
    let task = before.adopt_or_start(prepared.clone()).await.expect("it is created");
    let again = before.adopt_or_start(prepared.clone()).await.expect("it is known");
    let after = client_of(&service);
    let adopted = after.adopt_or_start(read_back(&prepared)).await.expect("it is found");
    assert_eq!((again.id(), adopted.id()), (task.id(), task.id()));
    assert_eq!((tasks(&controls).await, controls.seen(operations::CREATE_TASK)), (1, 2), "with the same key");
    let adopted = without_keys(&service).adopt_or_start(read_back(&prepared)).await.expect("it is found");
    assert_eq!(adopted.id(), task.id());
    assert_eq!((tasks(&controls).await, controls.seen(operations::CREATE_TASK)), (1, 2), "in the history");
}

#[tokio::test]
async fn a_claimed_task_is_not_adopted() {
    let (service, controls, before) = start().await;
    let first = before.adopt_or_start(prepared(&before).await).await.expect("it is created");
    let second = prepared(&before).await;
    let after = without_keys(&service);
    after.tasks().claim([first.id()]);
    let created = after.adopt_or_start(read_back(&second)).await.expect("it is created");
    assert_ne!(created.id(), first.id());
    assert_eq!(tasks(&controls).await, 2);
}

#[tokio::test]
async fn a_run_that_is_looked_for_does_not_adopt_the_task_of_a_create_under_way() {
    let (service, controls, before) = start().await;
    let from_journal = read_back(&prepared(&before).await);
    let after = without_keys(&service);
    let fresh = prepared(&after).await;
    // The task is in the history before the response to its create arrives.
    let late = Fault::delay(Duration::from_millis(500)).after_commit().on(operations::CREATE_TASK).once();
    controls.add_fault(late).expect("it is a fault");
    let starting = tokio::spawn(after.adopt_or_start(fresh).into_future());
    until("the task is created", || async { tasks(&controls).await > 0 }).await;
    let other = after.adopt_or_start(from_journal).await.expect("it is created");
    let started = starting.await.expect("it does not panic").expect("it is created");
    assert_ne!(started.id(), other.id());
    assert_eq!(tasks(&controls).await, 2);
}

#[tokio::test]
async fn many_prepared_runs_with_equal_inputs_become_one_task_each() {
    let (service, controls, before) = start().await;
    let mut runs = Vec::new();
    for _ in 0..12 {
        runs.push(prepared(&before).await);
    }
    for run in &runs[..6] {
        before.adopt_or_start(run.clone()).await.expect("it is created");
    }
    let after = without_keys(&service);
    let adopted = join_all(runs.iter().map(|run| after.adopt_or_start(read_back(run)).into_future())).await;
    let ids: BTreeSet<_> =
        adopted.into_iter().map(|task| task.expect("it has its task").id().clone()).collect();
    assert_eq!((ids.len(), tasks(&controls).await), (12, 12));
}

#[tokio::test]
async fn a_history_that_cannot_be_read_creates_nothing() {
    let (service, controls, before) = start().await;
    let prepared = read_back(&prepared(&before).await);
    let refused = Fault::status(403).message("not yours").on(operations::LIST_TASKS);
    controls.add_fault(refused).expect("it is a fault");
    let error =
        without_keys(&service).adopt_or_start(prepared.clone()).await.expect_err("it may exist already");
    assert!(error.to_string().contains("not yours"), "{error}");
    controls.clear_faults();

    without_keys(&service).adopt_or_start(prepared.clone()).await.expect("it is created");
    controls.add_fault(Fault::status(500).on(operations::GET_TASK)).expect("it is a fault");
    let error = without_keys(&service).adopt_or_start(read_back(&prepared)).await.expect_err("it may exist");
    assert!(matches!(error, Error::OutcomeUnknown(_)), "{error:?}");
    assert_eq!(tasks(&controls).await, 1);
}
