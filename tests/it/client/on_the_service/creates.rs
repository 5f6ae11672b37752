//! Creates without a response, counted in the store of the service. `stress::creates` tests all failures of a
//! create.

use std::time::Duration;

use inferstore::{Client, Error};
use inferstore_api::operations;
use inferstore_service::{Fault, Script};

use super::super::{Quickly, inputs};
use super::{MODEL, client_of, start, tasks, without_keys};

async fn create(client: &Client, seed: u32) -> Result<String, Error> {
    let image = format!("https://files.example/{seed}.png");
    let inputs = inputs().set("angle", seed % 90 + 1).set("input_image", image);
    Ok(client.model(MODEL).run(inputs).quickly().start().await?.id().to_string())
}

#[tokio::test]
async fn a_refused_create_is_not_repeated() {
    let (service, controls, _) = start().await;
    let client = without_keys(&service);
    controls.let_model(MODEL, Script::stay_queued()).await.expect("it stays queued");
    let busy = Fault::status(429).retry_after(0).on(operations::CREATE_TASK);
    controls.add_fault(busy.once()).expect("it is a fault");
    let error = create(&client, 1).await.expect_err("it is refused");
    assert_eq!(error.context().map(|context| (context.status, context.attempts)), Some((Some(429), 1)));
    assert_eq!((controls.seen(operations::CREATE_TASK), tasks(&controls).await), (1, 0));
}

#[tokio::test]
async fn two_tasks_that_may_be_it_are_reported_and_none_is_adopted() {
    let (service, controls, _) = start().await;
    let client = without_keys(&service);
    controls.let_model(MODEL, Script::stay_queued()).await.expect("it stays queued");
    let other = client_of(&service).model(MODEL).run(inputs()).quickly().start().await;
    let other = other.expect("it is created").id().to_string();
    controls.add_fault(Fault::lose_response().on(operations::CREATE_TASK).once()).expect("it is a fault");
    let error = client.model(MODEL).run(inputs()).quickly().start().await.expect_err("it may be either");
    let Error::OutcomeUnknown(unknown) = &error else { panic!("{error:?}") };
    let candidates: Vec<_> = unknown.candidates.iter().map(ToString::to_string).collect();
    assert_eq!((candidates.len(), &candidates[0]), (2, &other));
    assert_eq!(tasks(&controls).await, 2);
    // A further search could not distinguish the creates.
    assert_eq!(controls.seen(operations::LIST_TASKS), 1);
}

#[tokio::test]
async fn a_lost_task_is_found_although_the_clock_of_the_service_is_ahead() {
    let (service, controls, _) = start().await;
    let client = without_keys(&service);
    controls.let_model(MODEL, Script::stay_queued()).await.expect("it stays queued");
    controls.advance_clock(Duration::from_secs(45)).await.expect("the clock is set ahead");
    controls.add_fault(Fault::lose_response().on(operations::CREATE_TASK).once()).expect("it is a fault");
    client.model(MODEL).run(inputs()).quickly().start().await.expect("it is found");
    assert_eq!(tasks(&controls).await, 1);
}
