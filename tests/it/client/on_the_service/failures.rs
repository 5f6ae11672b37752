//! Retries: retried and final failures, and the end of retries.

use std::time::{Duration, SystemTime};

use inferstore::Error;
use inferstore_api::operations;
use inferstore_service::{Fault, Script};
use inferstore_wire::until;

use super::super::{Quickly, inputs};
use super::{MODEL, start};

#[tokio::test]
async fn reads_are_repeated_and_honour_what_the_service_asks_for() {
    let (_service, controls, client) = start().await;
    let in_a_moment = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(2));
    for fault in [
        Fault::status(429).header("retry-after", &in_a_moment),
        Fault::status(429).header("retry-after", "nonsense"),
        Fault::status(429).retry_after(0),
        Fault::status(429).retry_after(1),
        Fault::status(503),
        Fault::status(502).body("text/html", "<h1>Bad gateway</h1>"),
        Fault::hang_up(),
        Fault::lose_response(),
        Fault::cut_body(30),
    ] {
        controls.clear_journal();
        controls.add_fault(fault.clone().on(operations::GET_BALANCE).times(2)).expect("it is a fault");
        client.balance().await.unwrap_or_else(|error| panic!("{fault:?}: {error}"));
        assert_eq!(controls.seen(operations::GET_BALANCE), 3, "{fault:?}");
    }
}

#[tokio::test]
async fn repeats_end_when_nothing_but_failures_come_back() {
    let (_service, controls, client) = start().await;
    controls.add_fault(Fault::status(503).on(operations::GET_BALANCE)).expect("it is a fault");
    for _ in 0..100 {
        client.balance().await.expect_err("it is down");
    }
    let requests = controls.seen(operations::GET_BALANCE);
    assert!(requests <= 100 + 100, "{requests} requests for 100 calls: the budget is shared");
}

#[tokio::test]
async fn the_identifier_of_a_refused_request_is_the_one_that_the_service_saw() {
    let (_service, controls, client) = start().await;
    let error = client.task("unknown").get().await.expect_err("there is no such task");
    let context = error.context().expect("it has a context");
    let seen = controls.journal();
    assert_eq!(context.request_id.as_ref(), seen.last().map(|entry| &entry.request_id));
}

#[tokio::test]
async fn cancel_and_delete_are_sent_once_and_lost_responses_count() {
    let (_service, controls, client) = start().await;
    controls.let_model(MODEL, Script::stay_queued()).await.expect("it stays queued");
    let task = client.model(MODEL).run(inputs()).quickly().start().await.expect("it is created");
    let file = inferstore::File::bytes("note.txt", "a note");
    let file = client.folder("documents").upload(file).await.expect("it is stored");
    controls.add_fault(Fault::lose_response().on(operations::CANCEL_TASK).once()).expect("it is a fault");
    controls.add_fault(Fault::lose_response().on(operations::DELETE_FILE).once()).expect("it is a fault");
    client.task(task.id()).cancel().await.expect_err("the answer is lost");
    client.delete_file(file.download_url).await.expect_err("the answer is lost");
    assert_eq!((controls.seen(operations::CANCEL_TASK), controls.seen(operations::DELETE_FILE)), (1, 1));
    assert_eq!(controls.tasks().await.expect("they can be counted")["canceled"], 1);
    assert_eq!(client.storage_statistics().await.expect("they are reported").total_files, Some(0));
}

#[tokio::test]
async fn a_task_that_fails_says_why_and_costs_nothing() {
    let (_service, controls, client) = start().await;
    let before = client.balance().await.expect("it is reported");
    controls.let_model(MODEL, Script::fail("out of memory")).await.expect("it fails");
    let error = client.model(MODEL).run(inputs()).quickly().await.expect_err("the task fails");
    assert!(matches!(&error, Error::TaskFailed(_)), "{error:?}");
    assert!(error.to_string().contains("out of memory") && error.task_id().is_some(), "{error}");
    let after = client.balance().await.expect("it is reported");
    assert_eq!((before.balance, before.free_balance), (after.balance, after.free_balance));
}

#[tokio::test]
async fn a_node_that_goes_down_in_the_middle_delays_a_run_and_does_not_end_it() {
    let (service, controls, client) = start().await;
    controls.let_model(MODEL, Script::run().after(Duration::from_mins(1)).once()).await.expect("slow");
    let task = client.model(MODEL).run(inputs()).quickly().start().await.expect("it is created");
    until("the task computes", || async {
        controls.tasks().await.expect("they can be counted")["computing"] > 0
    })
    .await;
    controls.take_node_down().await.expect("it goes down");
    assert_eq!(client.model(MODEL).serving().await.expect("it is reported").serving, Some(false));
    controls.let_model(MODEL, super::success()).await.expect("it succeeds");
    controls.bring_node_up().await.expect("it comes up");
    client.task(task.id()).wait().quickly().await.expect("it ends well");
    super::audited(&service).await;
}
