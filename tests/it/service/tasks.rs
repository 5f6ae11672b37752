//! Tasks as their owner sees them. Nothing runs them here, so they stay queued.

use inferstore_service::{Credit, Scope};
use serde_json::{Value, json};

use super::{MODEL, an_input, audited, start, start_with_fixtures};
use crate::support::caller::Caller;

async fn create(caller: &Caller, model: &str, input: &Value) -> String {
    let answer = caller.post(&format!("/api-key/model/{model}/task"), input).await;
    answer.data()["data"].as_str().expect("a task").to_owned()
}

async fn read(caller: &Caller, task: &str) -> Value {
    caller.get(&format!("/api-key/task/{task}/detail")).await.data().clone()
}

#[tokio::test]
async fn a_new_task_waits_in_the_queue_with_what_was_submitted_and_declared() {
    let (_service, caller) = start().await;
    let version = caller.get(&format!("/api-key/model/{MODEL}/versioning")).await.data().clone();
    let id = create(&caller, MODEL, &an_input()).await;
    let task = read(&caller, &id).await;
    assert_eq!((&task["id"], &task["task_id"]), (&json!(id), &json!(id)));
    assert_eq!((&task["status"], &task["cost"]), (&json!("in_queue"), &json!(0)));
    assert_eq!(task["input_data"], an_input());
    assert_eq!(task["input_format"], version["input_format"]);
    assert_eq!(task["output_format"], version["output_format"]);
    assert_eq!(task["result"], Value::Null);
    assert_eq!(task["created_at"], task["updated_at"]);
    assert!(task["created_at"].as_str().is_some_and(|stamp| stamp.ends_with('Z')));
}

#[tokio::test]
async fn inputs_come_back_as_they_were_spelled() {
    let (_service, caller) = start_with_fixtures().await;
    let body = "{ \"input\":\"https://files.example/\\u00fc.png\",\"contrast\": \"0.350\" }";
    let answer = caller.post_text("/api-key/model/pencil-sketch/task", body).await;
    let id = answer.data()["data"].as_str().expect("a task").to_owned();
    let task = read(&caller, &id).await;
    assert_eq!(task["input_data"], json!({ "input": "https://files.example/ü.png", "contrast": "0.350" }));
}

#[tokio::test]
async fn both_paths_create_tasks() {
    let (_service, caller) = start().await;
    let first = create(&caller, MODEL, &an_input()).await;
    let answer = caller.post(&format!("/model/{MODEL}/task"), &an_input()).await;
    let second = answer.data()["data"].as_str().expect("a task").to_owned();
    assert_ne!(first, second, "a second create is a second task");
    let history = caller.get("/api-key/task/histories").await;
    let ids: Vec<&Value> =
        history.data()["records"].as_array().expect("records").iter().map(|it| &it["task_id"]).collect();
    assert_eq!(ids, [&json!(first), &json!(second)]);
}

#[tokio::test]
async fn a_queued_task_can_be_canceled_once() {
    let (service, caller) = start().await;
    let before = caller.get("/api-key/balance").await.data().clone();
    let id = create(&caller, MODEL, &an_input()).await;
    assert_ne!(caller.get("/api-key/balance").await.data(), &before, "the price is set aside");
    let path = format!("/api-key/task/{id}/cancel");
    let answer = caller.delete(&path).await;
    assert_eq!(answer.body["status"], "success");
    assert_eq!(answer.body.get("data"), None, "a cancel has no data");
    let task = read(&caller, &id).await;
    assert_eq!(
        (&task["status"], &task["cost"], &task["result"]),
        (&json!("canceled"), &json!(0), &Value::Null)
    );
    assert_eq!(caller.get("/api-key/balance").await.data(), &before, "and comes back");
    assert!(caller.delete(&path).await.refusal(409).contains("canceled"));
    assert_eq!(read(&caller, &id).await, task, "a late cancel changes nothing");
    audited(&service).await;
}

#[tokio::test]
async fn the_history_is_oldest_first_page_by_page() {
    let (_service, caller) = start().await;
    let mut ids = Vec::new();
    for number in 0..13 {
        let id = create(&caller, MODEL, &an_input()).await;
        if number % 4 == 0 {
            caller.delete(&format!("/api-key/task/{id}/cancel")).await;
        }
        ids.push(id);
    }
    for (query, expected) in [
        ("", &ids[..10]),
        ("?limit=100", &ids[..]),
        ("?limit=5&offset=5", &ids[5..10]),
        ("?offset=12", &ids[12..]),
        ("?offset=13", &ids[13..]),
        ("?limit=1&offset=3", &ids[3..4]),
    ] {
        let page = caller.get(&format!("/api-key/task/histories{query}")).await;
        assert_eq!(page.data()["total"], 13, "{query}");
        let records = page.data()["records"].as_array().expect("records");
        let found: Vec<&str> = records.iter().filter_map(|record| record["task_id"].as_str()).collect();
        assert_eq!(found, expected, "{query}");
        for record in records {
            let names: Vec<&String> = record.as_object().expect("an object").keys().collect();
            assert_eq!(names, ["cost", "created_at", "model_id", "status", "task_id", "updated_at"]);
            assert_eq!(record["model_id"], MODEL);
        }
    }
}

#[tokio::test]
async fn the_tasks_of_others_are_not_there() {
    let (service, caller) = start().await;
    service.add_account("other", Scope::Personal).await.expect("the account is new");
    service.credit("other", Credit::Paid("1".parse().expect("an amount"))).await.expect("credited");
    let other = caller.with_key(Some(&service.add_key("other").await.expect("a key")));
    let theirs = create(&other, MODEL, &an_input()).await;
    let hidden = caller.get(&format!("/api-key/task/{theirs}/detail")).await;
    let unknown = caller.get("/api-key/task/00000000/detail").await;
    assert_eq!(hidden.refusal(404), unknown.refusal(404).replace("00000000", &theirs));
    caller.delete(&format!("/api-key/task/{theirs}/cancel")).await.refusal(404);
    assert_eq!(caller.get("/api-key/task/histories").await.data()["total"], 0);
    assert_eq!(read(&other, &theirs).await["status"], "in_queue");
}
