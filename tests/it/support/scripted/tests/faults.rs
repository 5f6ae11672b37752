//! The service misbehaves as told, and only then.

use std::time::{Duration, Instant};

use reqwest::{Method, Response};
use serde_json::json;

use super::super::{DEFAULT_MODEL, Fault, Repeated, Route, ScriptedService};
use super::{Caller, good_input, task_path};

async fn create(caller: &Caller) -> reqwest::Result<Response> {
    caller.send(Method::POST, &task_path(), Some(&good_input())).await
}

#[tokio::test]
async fn a_lost_connection_leaves_a_task_only_when_it_was_committed() {
    for (fault, committed) in [
        (Fault::CloseBeforeReading, false),
        (Fault::CloseAfterHeaders, false),
        (Fault::CloseMidBody, false),
        (Fault::CloseAfterRequest, false),
        (Fault::ResetAfterRequest, false),
        (Fault::CloseAfterCommit, true),
        (Fault::ResetAfterCommit, true),
    ] {
        let service = ScriptedService::start().await;
        let caller = Caller::of(&service);
        service.fault(Route::CreateTask, fault.clone()).await;
        assert!(create(&caller).await.is_err(), "{fault:?}");
        assert_eq!(service.created().len(), usize::from(committed), "{fault:?}");
        let entry = service.journal().pop().expect("the request was seen");
        assert_eq!((entry.committed, entry.answered), (committed, None), "{fault:?}");
        assert!(entry.fault.is_some());
        assert!(create(&caller).await.is_ok(), "{fault:?} happens once");
        assert_eq!(service.faults_left(), 0);
    }
}

#[tokio::test]
async fn a_connection_can_be_closed_before_anything_is_sent() {
    let service = ScriptedService::start().await;
    service.fault(Route::Any, Fault::CloseBeforeReading).await;
    assert!(create(&Caller::of(&service)).await.is_err());
    assert_eq!((service.count(Route::Any), service.connections()), (0, 1));
}

#[tokio::test]
async fn half_of_a_body_is_read() {
    let service = ScriptedService::start().await;
    service.fault(Route::CreateTask, Fault::CloseMidBody).await;
    assert!(create(&Caller::of(&service)).await.is_err());
    let entry = service.journal().pop().expect("the request was seen");
    let announced = entry.header("content-length").expect("the body has a length");
    assert_eq!(announced.parse(), Ok(good_input().to_string().len()));
    assert_eq!(entry.body_length, good_input().to_string().len() as u64 / 2);
    assert_eq!(entry.body, &good_input().to_string().as_bytes()[..entry.body.len()]);
}

#[tokio::test]
async fn answers_can_be_cut_or_garbled() {
    let service = ScriptedService::start().await;
    let caller = Caller::of(&service);
    service.fault(Route::CreateTask, Fault::CutBody).await;
    let cut = create(&caller).await.expect("the head comes");
    assert!(cut.text().await.is_err());
    service.fault(Route::CreateTask, Fault::Garble).await;
    let garbled = create(&caller).await.expect("the service answers");
    assert_eq!(garbled.status(), 200);
    let text = garbled.text().await.expect("the body is as long as it says");
    assert!(serde_json::from_str::<serde_json::Value>(&text).is_err());
    assert_eq!(service.created().len(), 2, "both were committed");
}

#[tokio::test]
async fn any_answer_can_be_given() {
    let service = ScriptedService::start().await;
    let caller = Caller::of(&service);
    service.fault(Route::CreateTask, Fault::too_many_requests("1").times(2)).await;
    service.fault(Route::CreateTask, Fault::html_page(502)).await;
    service.fault(Route::CreateTask, Fault::failure(503, "tired")).await;
    service.fault(Route::CreateTask, Fault::FailEnvelope("no".to_owned())).await;
    service.fault(Route::CreateTask, Fault::Redirect { location: "http://127.0.0.1:9/".to_owned() }).await;
    assert_eq!(service.faults_left(), 6);
    for _ in 0..2 {
        let response = create(&caller).await.expect("the service answers");
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()["retry-after"], "1");
    }
    let page = create(&caller).await.expect("the service answers");
    assert_eq!(page.status(), 502);
    assert_eq!(page.headers()["content-type"], "text/html");
    assert_eq!(
        caller.post(&task_path(), good_input()).await,
        (503, json!({"status": "fail", "message": "tired"}))
    );
    assert_eq!(
        caller.post(&task_path(), good_input()).await,
        (200, json!({"status": "fail", "message": "no"}))
    );
    let redirect = create(&caller).await.expect("the service answers");
    assert_eq!((redirect.status().as_u16(), redirect.headers().contains_key("location")), (307, true));
    assert!(service.created().is_empty());

    let status = Fault::Status {
        code: 504,
        headers: vec![("x-request-id".to_owned(), "r-1".to_owned())],
        content_type: "text/plain".to_owned(),
        body: "late".to_owned(),
        committed: true,
    };
    service.fault(Route::CreateTask, status).await;
    let late = create(&caller).await.expect("the service answers");
    assert_eq!(late.status(), 504);
    assert_eq!(late.headers()["x-request-id"], "r-1");
    assert_eq!(service.created().len(), 1);
}

#[tokio::test]
async fn a_task_that_is_read_can_have_an_unknown_status_once() {
    let service = ScriptedService::start().await;
    let caller = Caller::of(&service);
    let task = service.add_task(DEFAULT_MODEL, json!({}));
    service.fault(Route::Any, Fault::UnknownStatus.times(2)).await;
    assert_eq!(caller.get("/api-key/balance").await.0, 200, "other answers stay as they are");
    assert_eq!(caller.task(&task).await["status"], "migrating");
    assert_eq!(caller.task(&task).await["status"], "success");
}

#[tokio::test]
async fn answers_can_be_late_slow_or_never_come() {
    let service = ScriptedService::start().await;
    let caller = Caller::of(&service);
    for fault in [Fault::DelayMs(150), Fault::DripMs(2)] {
        service.fault(Route::GetBalance, fault).await;
        let start = Instant::now();
        assert_eq!(caller.get("/api-key/balance").await.0, 200);
        assert!(start.elapsed() >= Duration::from_millis(150));
    }
    for (fault, created) in [(Fault::Stall, 0), (Fault::StallAfterCommit, 1)] {
        service.fault(Route::CreateTask, fault).await;
        let seen = service.count(Route::CreateTask) + 1;
        let wait = async {
            service.until_seen(Route::CreateTask, seen).await;
            assert_eq!(caller.get("/api-key/balance").await.0, 200, "other requests are answered");
        };
        tokio::select! {
            answer = create(&caller) => panic!("no answer should come, not {answer:?}"),
            () = wait => assert_eq!(service.created().len(), created),
        }
    }
}

#[tokio::test]
async fn what_is_told_of_an_operation_comes_before_what_is_told_of_any() {
    let service = ScriptedService::start().await;
    let caller = Caller::of(&service);
    let always: Repeated = Fault::failure(500, "any").always();
    service.fault(Route::Any, always).await;
    service.fault(Route::GetBalance, Fault::failure(501, "balance")).await;
    let mut codes = Vec::new();
    for _ in 0..3 {
        codes.push(caller.get("/api-key/balance").await.0);
    }
    service.clear_faults().await;
    codes.push(caller.get("/api-key/balance").await.0);
    assert_eq!(codes, [501, 500, 500, 200]);
}

#[tokio::test]
async fn the_same_seed_draws_the_same_faults() {
    let mut runs = Vec::new();
    for seed in [7, 7, 8] {
        let service = ScriptedService::start().await;
        let caller = Caller::of(&service);
        let faults = vec![Fault::failure(503, ""), Fault::too_many_requests("0")];
        service.fault_rate(Route::Any, 0.2, faults, seed).await;
        let mut codes = Vec::new();
        for _ in 0..200 {
            codes.push(caller.get("/api-key/balance").await.0);
        }
        runs.push(codes);
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
    let faults = |code: u16| runs[0].iter().filter(|seen| **seen == code).count();
    assert!((20..60).contains(&(faults(503) + faults(429))) && faults(503) > 5 && faults(429) > 5);
}

#[tokio::test]
async fn a_connection_serves_many_requests_and_others_beside_it() {
    let service = ScriptedService::start().await;
    let (one, other) = (Caller::of(&service), Caller::of(&service));
    for _ in 0..5 {
        tokio::join!(one.get("/api-key/balance"), other.get("/api-key/balance"));
    }
    assert_eq!((service.count(Route::GetBalance), service.connections()), (10, 2));
    let journal = service.journal();
    assert!(journal.iter().all(|entry| entry.method == "GET" && entry.path == "/api/v1/api-key/balance"));
    assert!(journal.iter().all(|entry| entry.header("x-api-key") == Some(service.key())));
    assert!(journal.is_sorted_by_key(|entry| entry.at));
}

#[tokio::test]
async fn a_dropped_service_is_gone() {
    let service = ScriptedService::start().await;
    let caller = Caller::of(&service);
    assert_eq!(caller.get("/api-key/balance").await.0, 200);
    drop(service);
    tokio::task::yield_now().await;
    assert!(caller.send(Method::GET, "/api-key/balance", None).await.is_err());
}
