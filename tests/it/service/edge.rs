//! Edge of the service: existing operations, authentication, and rejection of everything else.

use std::collections::BTreeSet;

use inferstore_document::{Operation, members, operations};
use inferstore_service::{Config, Scope};
use reqwest::Method;
use serde_json::{Value, json};

use super::{MODEL, an_input, start, start_with};
use crate::support::caller::{Odd, filled};

fn method(operation: Operation) -> Method {
    operation.method.to_uppercase().parse().expect("a method")
}

fn examples(operation: Operation) -> Vec<Odd<'static>> {
    let bodies: Vec<Value> = match operation.request() {
        Some(_) if operation.id().starts_with("createTask") => vec![an_input()],
        Some(request) => members(&request["examples"]).map(|(_, example)| example["value"].clone()).collect(),
        None => return vec![Odd::default()],
    };
    let odd = |body: Value| Odd {
        headers: vec![("content-type", "application/json")],
        body: Some(body.to_string().into_bytes()),
    };
    bodies.into_iter().map(odd).collect()
}

#[tokio::test]
async fn every_operation_of_the_document_is_served() {
    let mut config = Config::ephemeral();
    config.owners_manage_keys = Some(true);
    let (service, caller) = start_with(config).await;
    service.add_account("city-lab", Scope::Organization).await.expect("the account is new");
    service.add_member("city-lab", "demo").await.expect("both are there");
    let key = caller.post("/api-key/keys", &json!({ "name": "to be revoked" })).await;
    let key = key.data()["id"].as_str().expect("a key");
    for operation in operations() {
        let task = caller.post(&format!("/api-key/model/{MODEL}/task"), &an_input()).await;
        let resource = match operation.path {
            path if path.contains("/task/{id}") => task.data()["data"].as_str().expect("a task"),
            path if path.contains("{folder}") => "samples",
            path if path.contains("{key}") => key,
            _ => MODEL,
        };
        let examples = examples(operation);
        assert!(!examples.is_empty(), "{} has an example", operation.id());
        for example in examples {
            let answer = caller.send(method(operation), &filled(operation.path, resource), example).await;
            // The example of a delete names a missing file; everything else exists.
            let is_missing = operation.id() == "deleteFile" && answer.status == 404;
            assert!((200..300).contains(&answer.status) || is_missing, "{}: {answer:?}", operation.id());
        }
    }
}

#[tokio::test]
async fn a_method_that_the_document_does_not_declare_is_refused_on_every_path() {
    let (_service, caller) = start().await;
    let paths: BTreeSet<&str> = operations().map(|operation| operation.path).collect();
    for path in paths {
        for name in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"] {
            let declared: BTreeSet<String> = operations()
                .filter(|operation| operation.path == path)
                .map(|operation| operation.method.to_uppercase())
                .collect();
            // HTTP has HEAD for every GET.
            if declared.contains(name) || name == "HEAD" && declared.contains("GET") {
                continue;
            }
            // The key is not checked: there is nothing to authorize.
            for caller in [&caller, &caller.with_key(None)] {
                let method = name.parse().expect("a method");
                let answer = caller.send(method, &filled(path, MODEL), Odd::default()).await;
                assert_eq!(answer.status, 405, "{name} {path}");
                let allowed = answer.headers.get("allow").and_then(|value| value.to_str().ok());
                let allowed = allowed.unwrap_or_default().split(',').map(|it| it.trim().to_owned());
                let allowed: BTreeSet<String> = allowed.filter(|it| it != "HEAD").collect();
                assert_eq!(allowed, declared, "{name} {path} tells what is allowed");
            }
        }
    }
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let (_service, caller) = start().await;
    for path in [
        "",
        "/",
        "/api-key",
        "/api-key/",
        "/api-key/balance/",
        "/api-key/model",
        "/api-key/model/color-extraction/task/",
        "/api-key/task/x",
        "/model/color-extraction",
        "/API-KEY/balance",
        "/api-key/balance%2F",
        "/api-key/../balance2",
    ] {
        for method in [Method::GET, Method::HEAD, Method::POST, Method::DELETE] {
            let answer = caller.send(method.clone(), path, Odd::default()).await;
            assert_eq!(answer.status, 404, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn a_model_or_a_task_that_is_not_there_is_not_found_whatever_its_name() {
    let (_service, caller) = start().await;
    let long = "x".repeat(5_000);
    for id in
        ["no-such-model", "a%2Fb", "%00", "%F0%9F%A6%80", "'--", "..%2f", "%25", "COLOR-EXTRACTION", &long]
    {
        for path in
            ["model/{}", "model/{}/task/cost", "model/{}/serving", "model/{}/versioning", "task/{}/detail"]
        {
            let answer = caller.get(&format!("/api-key/{}", path.replace("{}", id))).await;
            assert!(answer.refusal(404).len() < 300, "{path} {id}");
        }
        caller.delete(&format!("/api-key/task/{id}/cancel")).await.refusal(404);
        caller.post(&format!("/api-key/model/{id}/task"), &an_input()).await.refusal(404);
        caller.post(&format!("/model/{id}/task"), &an_input()).await.refusal(404);
    }
    let no_text = caller.get("/api-key/model/%FF").await;
    assert!((400..=404).contains(&no_text.status));
}

#[tokio::test]
async fn a_missing_and_a_wrong_key_are_refused_alike_on_every_operation() {
    let (service, caller) = start().await;
    let right = service.api_key().expect("the first account is new");
    service.add_account("gone", Scope::Personal).await.expect("the account is new");
    let revoked = service.add_key("gone").await.expect("a key");
    assert!(service.revoke_key(&revoked).await.expect("the key is revoked"));
    assert!(!service.revoke_key(&revoked).await.expect("once only"));

    let (begin, secret) = right.split_at(right.len() - 1);
    let other_end = format!("{begin}{}", if secret == "a" { "b" } else { "a" });
    let (longer, upper) = (format!("{right}x"), right.to_uppercase());
    let keys = [
        None,
        Some(""),
        Some("x"),
        Some(begin),
        Some(&*other_end),
        Some(&*longer),
        Some(&*upper),
        Some(&*revoked),
    ];
    let mut messages = BTreeSet::new();
    for operation in operations() {
        let path = filled(operation.path, "no-such-thing");
        for key in keys {
            let odd = Odd { body: Some(b"{".to_vec()), ..Odd::default() };
            let answer = caller.with_key(key).send(method(operation), &path, odd).await;
            messages.insert(answer.refusal(401).to_owned());
        }
        let twice = Odd { headers: vec![("x-api-key", "another")], ..Odd::default() };
        let answer = caller.send(method(operation), &path, twice).await;
        messages.insert(answer.refusal(401).to_owned());
    }
    assert_eq!(messages.len(), 1, "{messages:?}");
}

#[tokio::test]
async fn the_name_of_the_header_may_be_written_in_any_case() {
    let (service, caller) = start().await;
    let key = service.api_key().expect("the first account is new").to_owned();
    let address = service.base_url().trim_start_matches("http://").trim_end_matches("/api/v1").to_owned();
    drop(caller);
    // Client libraries write header names in lower case, so this request is written by hand.
    for name in ["x-api-key", "X-API-Key", "X-Api-Key", "X-API-KEY"] {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut stream = tokio::net::TcpStream::connect(&address).await.expect("the service listens");
        let request = format!(
            "GET /api/v1/api-key/balance HTTP/1.1\r\nhost: {address}\r\n{name}: {key}\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.expect("the request is sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("the answer is text");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{name}: {answer}");
    }
}

#[tokio::test]
async fn every_request_has_an_identifier_of_its_own() {
    let (_service, caller) = start().await;
    let mut seen = BTreeSet::new();
    for _ in 0..20 {
        let answer = caller.get("/api-key/balance").await;
        seen.insert(answer.headers["x-request-id"].to_str().expect("text").to_owned());
    }
    assert_eq!(seen.len(), 20);
}
