//! When a create is sent again, and how much is read of a long history and of a long refusal, with the test kit and in
//! virtual time.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::time::Duration;

use futures_util::StreamExt;
use inferstore::testing::ScriptedService;
use inferstore::{Client, Error, File, Inputs, Retry, Run};
use serde_json::json;

const SECOND: Duration = Duration::from_secs(1);

fn count(service: &ScriptedService, operation: &str) -> usize {
    service.requests().iter().filter(|request| **request == operation).count()
}

fn run(client: &Client) -> Run {
    client.model("m").run(Inputs::new().set("prompt", "a lake"))
}

#[tokio::test(start_paused = true)]
async fn a_rejected_create_is_sent_again_only_where_the_caller_knows_that_it_had_no_effect() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!("done"));
    let client = service.client().unwrap();
    for status in [429, 503] {
        service.responds("createTask", status, r#"{"status": "fail", "message": "busy"}"#);
        let error = run(&client).await.unwrap_err();
        assert_eq!(error.status(), Some(status), "{error:?}");
        assert!(service.created().is_empty() && !error.is_retryable(), "{error:?}");
    }
    service.responds("createTask", 429, "").responds("createTask", 503, "");
    let outcome = run(&client).retry_create_on_rejection(true).await.unwrap();
    assert_eq!((outcome.output, service.created().len()), (json!("done"), 1));
    assert_eq!(count(&service, "createTask"), 5);
}

#[tokio::test(start_paused = true)]
async fn a_create_without_a_trace_is_sent_again_only_where_the_caller_allows_it() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!("done"));
    let client = service.client().unwrap();
    service.responds("createTask", 502, "");
    let error = run(&client).await.unwrap_err();
    assert!(matches!(error, Error::OutcomeUnknown(_)), "{error:?}");

    service.responds("createTask", 502, "").responds("createTask", 502, "");
    let outcome = run(&client).retry_create_if_absent_after(5 * SECOND).await.unwrap();
    assert_eq!((outcome.output, service.created().len()), (json!("done"), 1));
    assert_eq!(count(&service, "createTask"), 4);
}

#[tokio::test(start_paused = true)]
async fn a_create_without_a_trace_is_not_sent_again_after_its_deadline() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!("done"));
    let client = service.client().unwrap();
    service.responds("createTask", 502, "");
    let run = run(&client).retry_create_if_absent_after(5 * SECOND).deadline(3 * SECOND);
    let error = run.await.unwrap_err();
    assert!(matches!(error, Error::OutcomeUnknown(_) | Error::DeadlineReached(_)), "{error:?}");
    tokio::time::sleep(600 * SECOND).await;
    assert_eq!((count(&service, "createTask"), service.created().len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_lost_response_never_creates_a_second_task() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!("done"));
    let client = service.client().unwrap();
    service.loses_response("createTask");
    let outcome = run(&client).retry_create_if_absent_after(5 * SECOND).await.unwrap();
    assert_eq!((outcome.output, count(&service, "createTask")), (json!("done"), 1));
}

#[tokio::test(start_paused = true)]
async fn tasks_in_a_long_history_are_looked_for_on_no_more_pages_than_there_are_tasks() {
    let service = ScriptedService::new();
    let mut model = service.model("m").takes(60 * SECOND);
    for number in 0..450 {
        model = model.succeeds(json!(number));
    }
    let client = service.client().unwrap();
    let mut tasks = Vec::new();
    for _ in 0..450 {
        tasks.push(client.model("m").run(Inputs::new()).start().await.unwrap().id().clone());
    }
    for waited_for in [[&tasks[0], &tasks[1]], [&tasks[448], &tasks[449]]] {
        let before = count(&service, "listTasks");
        let outcomes: Vec<_> = client.tasks().wait_all(waited_for).collect().await;
        assert!(outcomes.iter().all(|(_, outcome)| outcome.is_ok()), "{outcomes:?}");
        let pages = count(&service, "listTasks") - before;
        // The first request is for the length of the history.
        assert!(pages <= 3, "{pages} pages");
    }
}

#[tokio::test(start_paused = true)]
async fn the_message_of_a_store_is_found_in_a_response_of_some_length() {
    let service = ScriptedService::new();
    let _ = service.model("m");
    let client = service.client_builder().retry(Retry::none()).build().unwrap();
    for (length, is_found) in [(15_000, true), (20_000, false)] {
        let padding = "x".repeat(length);
        let message = "<Message>it has more than 5 GiB</Message>";
        let body = format!("<Error><!-- {padding} --><Code>EntityTooLarge</Code>{message}</Error>");
        service.responds("upload", 400, body);
        let file = File::bytes("a.png", b"pixels".to_vec());
        let error = client.model("m").run(Inputs::new().file("input", file)).await.unwrap_err();
        assert_eq!(error.to_string().contains("it has more than 5 GiB"), is_found, "{error}");
    }
}
