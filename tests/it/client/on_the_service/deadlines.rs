//! One deadline bounds a whole operation, for every failure of the service.

use std::time::{Duration, Instant};

use inferstore::{Abandon, Client, Error, Run, TaskDisposition};
use inferstore_api::operations;
use inferstore_service::{Fault, Script};

use super::super::{Quickly, inputs};
use super::{MODEL, audited, start, success};

const DEADLINE: Duration = Duration::from_secs(1);

const GENEROUS: Duration = Duration::from_secs(5);

fn hurried(client: &Client) -> Run {
    client.model(MODEL).run(inputs()).quickly().deadline(DEADLINE)
}

fn canceling(client: &Client) -> Run {
    hurried(client).on_abandon(Abandon::Cancel)
}

#[tokio::test]
async fn repeats_do_not_multiply_a_deadline() {
    let (service, controls, _) = start().await;
    let busy = Fault::status(429).retry_after(3_600).on(operations::GET_MODEL_VERSIONING);
    controls.add_fault(busy).expect("it is a fault");
    let started = Instant::now();
    let key = service.api_key().expect("a fresh service tells its key");
    let client = Client::new(service.base_url(), key).expect("a client can be made");
    let error = hurried(&client).await.expect_err("it is refused");
    assert!(started.elapsed() < GENEROUS, "{:?}", started.elapsed());
    assert!(matches!(error, Error::Api(_) | Error::DeadlineReached(_)), "{error:?}");
}

#[tokio::test]
async fn a_queued_task_is_canceled_at_the_deadline_if_asked_and_costs_nothing() {
    let (service, controls, client) = start().await;
    let before = client.balance().await.expect("it is reported");
    controls.let_model(MODEL, Script::stay_queued()).await.expect("it stays queued");
    let error = canceling(&client).await.expect_err("time is up");
    let Error::DeadlineReached(reached) = &error else { panic!("{error:?}") };
    assert_eq!(reached.disposition, TaskDisposition::Canceled);
    assert_eq!(controls.tasks().await.expect("they can be counted")["canceled"], 1);
    let after = client.balance().await.expect("it is reported");
    assert_eq!((before.balance, before.free_balance), (after.balance, after.free_balance));
    audited(&service).await;
}

#[tokio::test]
async fn a_queued_task_stays_queued_at_the_deadline_by_default() {
    let (_service, controls, client) = start().await;
    controls.let_model(MODEL, Script::stay_queued()).await.expect("it stays queued");
    let error = hurried(&client).await.expect_err("time is up");
    let Error::DeadlineReached(reached) = &error else { panic!("{error:?}") };
    assert_eq!(reached.disposition, TaskDisposition::StillRunning);
    controls.let_model(MODEL, success()).await.expect("it goes on");
    let task = error.task_id().expect("the error carries the task");
    client.task(task).wait().quickly().await.expect("it ends well");
}

#[tokio::test]
async fn a_running_task_goes_on_at_the_deadline_and_can_be_picked_up() {
    let (_service, controls, client) = start().await;
    let slow = success().after(DEADLINE * 2);
    controls.let_model(MODEL, slow).await.expect("it is slow");
    let error = canceling(&client).await.expect_err("time is up");
    let Error::DeadlineReached(reached) = &error else { panic!("{error:?}") };
    assert_eq!(reached.disposition, TaskDisposition::StillRunning);
    let task = error.task_id().expect("the error carries the task");
    let outcome = client.task(task).wait().quickly().await.expect("it ends well");
    assert_eq!(&outcome.task, task);
}
