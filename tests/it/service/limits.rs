//! Limits of the settings: concurrent requests, and retention of ended tasks.

use std::time::Duration;

use inferstore_service::{Config, Script, Service};
use inferstore_wire::until;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{MODEL, an_input};
use crate::support::caller::Caller;

const LIST: &str = "/api-key/model/list";

/// Opens an admitted request whose body never arrives. Dropping the stream ends it.
pub(super) async fn unfinished_request(service: &Service, key: &str) -> TcpStream {
    let base = service.base_url().trim_start_matches("http://");
    let (host, path) = base.split_once('/').expect("the API has a path");
    let mut connection = TcpStream::connect(host).await.expect("the service listens");
    let head = format!(
        "POST /{path}{LIST} HTTP/1.1\r\nhost: {host}\r\nx-api-key: {key}\r\ncontent-type: application/json\r\n\
         content-length: 2\r\nexpect: 100-continue\r\n\r\n"
    );
    connection.write_all(head.as_bytes()).await.expect("it is sent");
    // The service asks for the body after all limits have admitted the request.
    let mut status = [0; 12];
    connection.read_exact(&mut status).await.expect("the service responds");
    assert_eq!(&status, b"HTTP/1.1 100");
    connection
}

async fn refusal(caller: &Caller, status: u16) -> String {
    let response = caller.post(LIST, &json!({})).await;
    let message = response.refusal(status).to_owned();
    assert!(response.headers.contains_key("retry-after"), "{response:?}");
    message
}

async fn success(caller: &Caller) {
    until("a request succeeds", || async { caller.post(LIST, &json!({})).await.status == 200 }).await;
}

#[tokio::test]
async fn requests_above_the_limit_are_refused_with_503_until_one_ends() {
    let mut config = Config::ephemeral();
    config.limits.max_requests = 1;
    let service = Service::start(config).await.expect("the service starts");
    let caller = Caller::first(&service);
    let held = unfinished_request(&service, service.api_key().expect("a fresh service has a key")).await;
    assert!(refusal(&caller, 503).await.contains("too many requests"));
    drop(held);
    success(&caller).await;
}

#[tokio::test]
async fn retention_deletes_old_tasks_and_movements_and_keeps_balances() {
    let mut config = Config::ephemeral().with_controls();
    config.task_retention = Some(Duration::from_hours(24));
    config.movement_retention = Some(Duration::from_hours(24));
    let service = Service::start(config).await.expect("the service starts");
    let controls = service.controls().expect("they are on");
    let caller = Caller::first(&service);
    let create = format!("/api-key/model/{MODEL}/task");
    controls.let_model(MODEL, Script::fail("no picture")).await.expect("it is scripted");
    let ended = caller.post(&create, &an_input()).await.data()["data"].as_str().expect("a task").to_owned();
    let detail = format!("/api-key/task/{ended}/detail");
    until("the task fails", || async { caller.get(&detail).await.data()["status"] == "failed" }).await;
    controls.let_model(MODEL, Script::stay_queued()).await.expect("it is scripted");
    let queued = caller.post(&create, &an_input()).await.data()["data"].as_str().expect("a task").to_owned();
    let balance = caller.get("/api-key/balance").await.data().clone();

    controls.advance_clock(Duration::from_hours(23)).await.expect("the clock is set");
    caller.get(&detail).await.data();
    controls.advance_clock(Duration::from_hours(2)).await.expect("the clock is set");
    caller.get(&detail).await.refusal(404);
    let left = caller.get("/api-key/task/histories").await.data().clone();
    assert_eq!((&left["total"], &left["records"][0]["task_id"]), (&json!(1), &json!(queued)), "{left}");
    assert_eq!(*caller.get("/api-key/balance").await.data(), balance);
    let audit = service.audit().await.expect("the books can be read");
    assert_eq!(audit.faults, Vec::<String>::new());
}
