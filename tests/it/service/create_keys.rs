//! Idempotency keys: a retried create returns the task of the first one.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use inferstore_api::operations;
use inferstore_service::{
    Amounts, Config, Credit, Fault, InsufficientBalance, ModelChange, ModelSpec, Money, Scope, Script,
    Service, Visibility,
};
use inferstore_wire::until;
use reqwest::Method;
use serde_json::{Value, json};

use super::money::with_account;
use super::{MODEL, an_input, audited, start, start_with};
use crate::support::caller::{Answer, Caller, Odd};
use crate::support::sketch;

const KEY: &str = "5f0c9a4e-8d3b-4c1a-9e57-2b6f1d7a0c33";

fn paths() -> [String; 2] {
    [format!("/api-key/model/{MODEL}/task"), format!("/model/{MODEL}/task")]
}

async fn send(caller: &Caller, path: &str, keys: &[&str], body: impl Into<Vec<u8>>) -> Answer {
    let mut headers = vec![("content-type", "application/json")];
    headers.extend(keys.iter().map(|key| ("idempotency-key", *key)));
    caller.send(Method::POST, path, Odd { headers, body: Some(body.into()) }).await
}

pub(super) async fn create(caller: &Caller, key: &str, input: &Value) -> Answer {
    send(caller, &paths()[0], &[key], input.to_string()).await
}

pub(super) async fn created(caller: &Caller, key: &str, input: &Value) -> String {
    create(caller, key, input).await.data()["data"].as_str().expect("a task").to_owned()
}

async fn total(caller: &Caller) -> Value {
    caller.get("/api-key/task/histories").await.data()["total"].clone()
}

#[tokio::test]
async fn a_resent_create_finds_its_task_by_either_path_and_is_reserved_once() {
    let (service, caller) = start().await;
    let first = create(&caller, KEY, &an_input()).await;
    let balance = caller.get("/api-key/balance").await.data().clone();
    for path in paths() {
        let again = send(&caller, &path, &[KEY], an_input().to_string()).await;
        assert_eq!((again.status, &again.body), (first.status, &first.body));
    }
    let task = first.data()["data"].as_str().expect("a task").to_owned();
    caller.delete(&format!("/api-key/task/{task}/cancel")).await.data();
    assert_eq!(created(&caller, KEY, &an_input()).await, task, "a canceled task is not created anew");
    assert_ne!(*caller.get("/api-key/balance").await.data(), balance, "nothing is reserved for it");

    assert_ne!(created(&caller, "another", &an_input()).await, task);
    let without_key = caller.post(&paths()[0], &an_input()).await;
    assert_ne!(without_key.data()["data"], task.as_str());
    assert_eq!(total(&caller).await, 3);
    audited(&service).await;
}

#[tokio::test]
async fn a_key_with_another_model_or_other_inputs_is_refused() {
    let (service, caller) = start().await;
    let task = created(&caller, KEY, &an_input()).await;
    let other = json!({ "input": "https://files.example/other.png" });
    let image = json!({ "input_image": "https://files.example/street.png" });
    for (path, input) in [
        (&*paths()[0], &other),
        (&paths()[1], &other),
        ("/api-key/model/haze-removal/task", &image),
        ("/api-key/model/no-such-model/task", &an_input()),
        (&paths()[0], &json!({})),
    ] {
        let refused = send(&caller, path, &[KEY], input.to_string()).await;
        assert!(refused.refusal(409).contains("another model or other inputs"), "{refused:?}");
    }
    assert_eq!(total(&caller).await, 1);
    assert_eq!(created(&caller, KEY, &an_input()).await, task);
    audited(&service).await;
}

#[tokio::test]
async fn inputs_are_compared_as_json_values() {
    let (service, caller) = start().await;
    service.add_account("atelier", Scope::Organization).await.expect("the account is new");
    let inputs = json!({
        "image": { "type": "file", "required": true, "position": 0 },
        "width": { "type": "float", "required": true, "position": 1 },
    });
    let spec = sketch("0", &inputs, &json!({ "output": { "type": "file", "position": 0 } }));
    let spec = ModelSpec::from_json(&spec.to_string()).expect("it is a model");
    service.publish_model("atelier", spec).await.expect("published");
    let path = "/api-key/model/sketch/task";
    let first = send(&caller, path, &[KEY], r#"{"image":"https://files.example/ü.png","width":30}"#).await;
    first.data();
    for same in [
        r#"{"image":"https://files.example/\u00fc.png","width":30.0}"#,
        r#" { "width" : 3.0e1 , "image" : "https:\/\/files.example/ü.png" } "#,
    ] {
        assert_eq!(send(&caller, path, &[KEY], same).await.body, first.body);
    }
    for other in [
        r#"{"image":"https://files.example/ü.png","width":"30"}"#,
        r#"{"image":"https://files.example/ü.png","width":30.000000000000000001}"#,
        r#"{"image":"https://files.example/ü.png","width":30,"height":null}"#,
    ] {
        send(&caller, path, &[KEY], other).await.refusal(409);
    }
}

#[tokio::test]
async fn a_key_is_1_to_255_visible_characters_of_ascii_sent_once() {
    let (_service, caller) = start().await;
    let path = &paths()[0];
    let longest = "k".repeat(255);
    for good in ["!", "~", &longest] {
        send(&caller, path, &[good], an_input().to_string()).await.data();
    }
    let too_long = "k".repeat(256);
    for bad in [&[""][..], &["a b"], &["a\tb"], &[&too_long], &[KEY, KEY], &[KEY, ""]] {
        let refused = send(&caller, path, bad, an_input().to_string()).await;
        assert!(refused.refusal(400).contains("1 to 255 visible ASCII characters"), "{bad:?}: {refused:?}");
    }
    assert_eq!(total(&caller).await, 3);
    send(&caller.with_key(None), path, &[""], an_input().to_string()).await.refusal(401);
}

#[tokio::test(flavor = "multi_thread")]
async fn creates_with_one_key_at_the_same_moment_make_one_task() {
    let (service, caller) = start().await;
    for round in 0..10 {
        let key = format!("key-{round}");
        let input = an_input_of(round);
        let tasks: BTreeSet<String> =
            join_all((0..12).map(|_| created(&caller, &key, &input))).await.into_iter().collect();
        assert_eq!(tasks.len(), 1, "{tasks:?}");
    }
    assert_eq!(total(&caller).await, 10);
    audited(&service).await;
}

fn an_input_of(number: u32) -> Value {
    json!({ "input": format!("https://files.example/{number}.png") })
}

#[tokio::test]
async fn the_key_of_another_account_is_another_key() {
    let (service, caller) = start().await;
    service.add_account("other", Scope::Personal).await.expect("the account is new");
    let credit = Credit::Paid("1".parse().expect("an amount"));
    service.credit("other", credit).await.expect("credited");
    let other = caller.with_key(Some(&service.add_key("other").await.expect("a key")));
    let task = created(&caller, KEY, &an_input()).await;
    let of_other = created(&other, KEY, &an_input()).await;
    assert_ne!(task, of_other);
    // Two keys of one account share its idempotency keys.
    let second = caller.with_key(Some(&service.add_key("demo").await.expect("a key")));
    assert_eq!(created(&second, KEY, &an_input()).await, task);
    audited(&service).await;
}

#[tokio::test]
async fn a_resent_create_ignores_changed_limits_prices_and_balance() {
    let mut config = Config::ephemeral().with_controls();
    config.workers = 0;
    config.limits.account_unfinished = 1;
    let service = Service::start(config).await.expect("the service starts");
    let (caller, controls) = (Caller::first(&service), service.controls().expect("they are on"));
    let task = created(&caller, KEY, &an_input()).await;
    create(&caller, "another", &an_input()).await.refusal(429);
    assert_eq!(created(&caller, KEY, &an_input()).await, task, "as many tasks as it may have");

    caller.delete(&format!("/api-key/task/{task}/cancel")).await.data();
    let nothing = Amounts { balance: Some(Money::ZERO), free_balance: Some(Money::ZERO), debt: None };
    controls.set_balance("demo", nothing).await.expect("it is poor");
    create(&caller, "another", &an_input()).await.refusal(402);
    assert_eq!(created(&caller, KEY, &an_input()).await, task, "the balance is gone");

    let change = ModelChange { visibility: Some(Visibility::Private), ..ModelChange::default() };
    service.change_model(MODEL, change).await.expect("the model is there");
    create(&caller, "another", &an_input()).await.refusal(404);
    assert_eq!(created(&caller, KEY, &an_input()).await, task, "the model is gone");
    assert_eq!(total(&caller).await, 1);
}

#[tokio::test]
async fn a_create_is_sent_again_when_the_inputs_of_the_model_have_changed() {
    let (service, caller) = start().await;
    let task = created(&caller, KEY, &an_input()).await;
    let inputs = json!({ "picture": { "type": "file", "required": true, "position": 0 } }).to_string();
    let outputs = json!({ "output": { "type": "string", "position": 0 } }).to_string();
    service.publish_version("inferstore", MODEL, &inputs, &outputs).await.expect("published");
    service.until_all(|| async { caller.post(&paths()[0], &an_input()).await.status == 422 }).await;
    assert_eq!(created(&caller, KEY, &an_input()).await, task);
}

#[tokio::test]
async fn a_refused_create_leaves_its_key_and_a_failed_task_keeps_it() {
    let mut config = Config::ephemeral();
    for otherwise in [InsufficientBalance::Refuse, InsufficientBalance::FailTask] {
        config.insufficient_balance = otherwise;
        let (service, first) = start_with(config.clone()).await;
        let caller = with_account(&service, &first, "poor", &[]).await;
        let refused = create(&caller, KEY, &an_input()).await;
        let credit = Credit::Paid("1".parse().expect("an amount"));
        service.credit("poor", credit).await.expect("credited");
        let second = created(&caller, KEY, &an_input()).await;
        match otherwise {
            InsufficientBalance::Refuse => drop(refused.refusal(402)),
            InsufficientBalance::FailTask => assert_eq!(refused.data()["data"], second.as_str()),
        }
        assert_eq!(total(&caller).await, 1);
        audited(&service).await;
    }
}

#[tokio::test]
async fn a_create_whose_response_was_lost_is_sent_again() {
    let service = Service::start(Config::ephemeral().with_controls()).await.expect("the service starts");
    let (caller, controls) = (Caller::first(&service), service.controls().expect("they are on"));
    controls.let_model(MODEL, Script::fail("no picture")).await.expect("it is scripted");
    controls.add_fault(Fault::lose_response().on(operations::CREATE_TASK).once()).expect("it is a fault");
    let request = caller.http().post(format!("{}{}", service.base_url(), paths()[0]));
    let request = request.header("x-api-key", service.api_key().expect("a fresh service has a key"));
    let lost = request.header("idempotency-key", KEY).json(&an_input()).send().await;
    assert!(lost.is_err(), "{lost:?}");
    let task = created(&caller, KEY, &an_input()).await;
    let detail = format!("/api-key/task/{task}/detail");
    until("the task fails", || async { caller.get(&detail).await.data()["status"] == "failed" }).await;
    assert_eq!(created(&caller, KEY, &an_input()).await, task, "an ended task is not created anew");
    assert_eq!(total(&caller).await, 1);
}

#[tokio::test]
async fn a_key_is_remembered_for_a_day_though_its_task_is_deleted_earlier() {
    let mut config = Config::ephemeral().with_controls();
    config.task_retention = Some(Duration::from_hours(1));
    config.workers = 0;
    let service = Service::start(config).await.expect("the service starts");
    let (caller, controls) = (Caller::first(&service), service.controls().expect("they are on"));
    let task = created(&caller, KEY, &an_input()).await;
    caller.delete(&format!("/api-key/task/{task}/cancel")).await.data();
    let other = json!({ "input": "https://files.example/other.png" });
    controls.advance_clock(Duration::from_hours(23)).await.expect("the clock is set");
    caller.get(&format!("/api-key/task/{task}/detail")).await.refusal(404);
    assert_eq!(created(&caller, KEY, &an_input()).await, task);
    create(&caller, KEY, &other).await.refusal(409);
    controls.advance_clock(Duration::from_hours(1)).await.expect("the clock is set");
    assert_ne!(created(&caller, KEY, &other).await, task);
}
