//! Creates that fail or are lost, with the test kit: requests, and errors.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::time::Duration;

use inferstore::{Client, Error, File, HistoryRead, Inputs, Retry, Run, TaskDisposition};
use inferstore_testing::ScriptedService;
use serde_json::{Value, json};

use crate::{count, lists};

const SECOND: Duration = Duration::from_secs(1);

fn run(client: &Client) -> Run {
    crate::run(client).options(|options| options.skip_validation = true)
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_time_is_over_is_not_sent() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").succeeds(json!("done"));
    let error = run(&service.client().unwrap()).deadline(Duration::ZERO).start().await.unwrap_err();
    let Error::DeadlineReached(reached) = &error else { panic!("{error:?}") };
    assert_eq!(reached.disposition, TaskDisposition::NotCreated);
    assert_eq!(service.requests(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_time_is_over_sends_nothing() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").succeeds(json!("done"));
    let run = crate::run(&service.client().unwrap()).max_cost("1").deadline(Duration::ZERO);
    assert!(run.await.unwrap_err().is_timeout());
    assert_eq!(service.requests(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_response_names_no_task_is_looked_for_in_the_history() {
    for id in ["", " ", ".."] {
        let service = ScriptedService::new().without_idempotency_keys();
        let _ = service.model("m").succeeds(json!("done"));
        let response = json!({ "status": "success", "data": { "data": id } });
        service.responds("createTask", 200, response.to_string());
        // The client knows that a task was created, so it never creates another one.
        let run = run(&service.client().unwrap());
        let error = run.start().await.unwrap_err();
        assert!(
            matches!(&error, Error::OutcomeUnknown(unknown) if unknown.history == HistoryRead::Complete),
            "{error:?}"
        );
        assert_eq!(count(&service.requests(), "createTask"), 1);
    }
}

#[tokio::test]
async fn a_create_that_nothing_listens_to_is_a_failure_of_the_network() {
    let client = Client::builder("http://127.0.0.1:1/api/v1", "the-key")
        .settings(|settings| settings.retry = Retry::none())
        .build()
        .unwrap();
    let error = run(&client).start().await.unwrap_err();
    assert!(matches!(error, Error::Transport(_)) && error.is_retryable(), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lost_create_is_not_resent_with_an_incomplete_history() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").succeeds(json!("done"));
    let of_others = |number| json!({ "task_id": format!("task-of-others-{number}"), "model_id": "other" });
    let records: Vec<Value> = (0..100).map(of_others).collect();
    for _ in 0..40 {
        let data = json!({ "records": records });
        lists(&service, &data);
    }
    service.responds("createTask", 502, "");
    let client = service.client().unwrap();
    let error = run(&client).start().await.unwrap_err();
    assert!(
        matches!(&error, Error::OutcomeUnknown(unknown) if unknown.history == HistoryRead::Partial),
        "{error:?}"
    );
    assert_eq!(count(&service.requests(), "createTask"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_long_history_is_read_no_further_back_than_the_lost_create() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").stays_queued();
    let earlier = service.client().unwrap();
    for number in 0..220 {
        earlier.model("m").run(Inputs::new().set("number", number)).start().await.unwrap();
    }
    tokio::time::sleep(600 * SECOND).await;
    service.loses_response("createTask");
    let task = run(&service.client().unwrap()).start().await.unwrap();
    assert_eq!(*task.id(), service.created().remove(220).task);
    assert_eq!(count(&service.requests(), "listTasks"), 3, "its length, what follows it, and its last page");
}

#[tokio::test(start_paused = true)]
async fn a_run_may_cost_as_much_as_its_limit() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").costs("0.5".parse().unwrap()).succeeds(json!("done"));
    run(&service.client().unwrap()).max_cost("0.50").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_deleted_input_is_not_reported_as_stored() {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").succeeds(json!("done"));
    let client = service.client().unwrap();
    for (organization, stored) in [(None, 0), (Some("lab".to_owned()), 1)] {
        service.responds("deleteFile", 404, r#"{"status": "fail", "message": "no such file"}"#);
        let inputs = Inputs::new().file("input", File::bytes("a.png", b"pixels".to_vec()));
        let run = client.model("m").run(inputs).options(|options| {
            options.org_username = organization;
            options.delete_inputs_after = true;
        });
        assert_eq!(run.await.unwrap().stored_inputs.len(), stored);
    }
}
