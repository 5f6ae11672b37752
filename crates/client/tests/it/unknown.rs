//! `on_unknown`: differences of responses from the document.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::sync::{Arc, Mutex};

use inferstore::reqwest::Method;
use inferstore::{Client, Error};
use inferstore_wire::{Reaction, Server};
use serde_json::{Value, json};

/// Starts a service that responds with the payload for each path, and returns its base URL.
fn service(payload: impl Fn(&str) -> Value + Send + 'static) -> String {
    let respond = move |path: &str| Reaction::Json(200, payload(path).to_string());
    Server::start(move |request| respond(request.target.trim_start_matches("/api/v1"))).base_url()
}

fn envelope(data: Value) -> Value {
    json!({ "status": "success", "message": "ok", "data": data })
}

/// Returns a client, and the differences that it reports, one per line.
fn watched(base_url: &str) -> (Client, Arc<Mutex<Vec<String>>>) {
    let reports: Arc<Mutex<Vec<String>>> = Arc::default();
    let list = Arc::clone(&reports);
    let client = Client::builder(base_url, "the-key")
        .settings(|settings| settings.retry.max_attempts = 1)
        .on_unknown(move |operation, finding| list.lock().unwrap().push(format!("{operation} {finding}")));
    (client.build().unwrap(), reports)
}

#[tokio::test]
async fn new_fields_and_words_are_reported_by_pointer_without_values() {
    let base_url = service(|path| match path {
        "/api-key/task/t-1/detail" => envelope(json!({
            "task_id": "t-1", "model_id": "m-1", "status": "paused", "hue": "private", "cost": "1",
        })),
        "/api-key/balance" => envelope(json!({ "balance": "1", "a field that is a sentence": "private" })),
        _ => envelope(json!({ "serving": true })),
    });
    let (client, reports) = watched(&base_url);
    client.task("t-1").get().await.unwrap();
    let known = reports.lock().unwrap().clone();
    assert!(
        known.contains(
            &"getTask #/components/schemas/TaskDetail/properties/hue: the document has no such field; its value is string"
                .to_owned()
        ),
        "{known:?}"
    );
    let word = "getTask #/components/schemas/TaskStatus/x-extensible-enum: the document has no word `paused`";
    assert!(known.contains(&word.to_owned()), "{known:?}");
    client.model("m-1").serving().await.unwrap();
    assert_eq!(*reports.lock().unwrap(), known, "a response that is as the document says has no differences");

    client.balance().await.unwrap();
    let reports = reports.lock().unwrap();
    let odd = "getBalance #/components/schemas/AccountBalance/properties/…: the document has no such field; its value is \
               string";
    assert_eq!(reports.last().map(String::as_str), Some(odd));
    assert!(!reports.iter().any(|report| report.contains("private")), "{reports:?}");
}

#[tokio::test]
async fn undecodable_responses_and_unknown_request_fields_are_reported() {
    let base_url = service(|_| envelope(json!({ "balance": {"total": "1"} })));
    let (client, reports) = watched(&base_url);
    assert!(matches!(client.balance().await, Err(Error::Decode(_))));
    client.with_key("another-key").unwrap().request(Method::GET, "/api-key/balance", None).await.unwrap();
    client.request(Method::GET, "/elsewhere", None).await.unwrap();
    let report = "getBalance #/components/schemas/AccountBalance/properties/balance: is object, and the document says otherwise";
    assert_eq!(*reports.lock().unwrap(), [report, report]);
}
