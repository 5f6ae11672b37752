//! Costs of tasks, and insufficient balances. `stress::money` tests concurrent spending.

use inferstore_service::{Config, Credit, InsufficientBalance, Money, Scope, Service};
use serde_json::{Value, json};

use super::{MODEL, an_input, audited, start, start_with};
use crate::support::caller::Caller;
use crate::support::deployment::Deployment;

fn money(text: &str) -> Money {
    text.parse().expect("an amount")
}

pub(super) async fn with_account(
    service: &Deployment,
    first: &Caller,
    username: &str,
    credits: &[Credit],
) -> Caller {
    service.add_account(username, Scope::Personal).await.expect("the account is new");
    for credit in credits {
        service.credit(username, *credit).await.expect("credited");
    }
    first.with_key(Some(&service.add_key(username).await.expect("a key")))
}

async fn balance(caller: &Caller) -> (String, String) {
    let answer = caller.get("/api-key/balance").await;
    let field = |name: &str| answer.data()[name].as_str().expect("a decimal string").to_owned();
    (field("balance"), field("free_balance"))
}

#[tokio::test]
async fn a_price_is_set_aside_from_free_credits_first() {
    let (service, first) = start().await;
    let credits = [Credit::Paid(money("1")), Credit::Free(money("0.07"))];
    let caller = with_account(&service, &first, "spender", &credits).await;
    let path = format!("/api-key/model/{MODEL}/task");
    caller.post(&path, &an_input()).await.data();
    assert_eq!(balance(&caller).await, ("1".to_owned(), "0.02".to_owned()));
    let second = caller.post(&path, &an_input()).await.data()["data"].as_str().expect("a task").to_owned();
    assert_eq!(balance(&caller).await, ("0.97".to_owned(), "0".to_owned()));
    caller.delete(&format!("/api-key/task/{second}/cancel")).await;
    assert_eq!(balance(&caller).await, ("1".to_owned(), "0.02".to_owned()));
    audited(&service).await;
}

#[tokio::test]
async fn a_task_that_the_balance_does_not_cover_is_refused() {
    let (service, first) = start().await;
    let caller = with_account(&service, &first, "poor", &[Credit::Paid(money("0.049999999"))]).await;
    for path in [format!("/api-key/model/{MODEL}/task"), format!("/model/{MODEL}/task")] {
        assert!(caller.post(&path, &an_input()).await.refusal(402).contains("balance"));
    }
    assert_eq!(caller.get("/api-key/task/histories").await.data()["total"], 0, "nothing was created");
    let free = json!({ "input_image": "https://files.example/night.jpg" });
    caller.post("/api-key/model/low-light-enhancement/task", &free).await.data();
    audited(&service).await;
}

#[tokio::test]
async fn or_it_is_created_and_fails_at_once() {
    let mut config = Config::ephemeral();
    config.insufficient_balance = InsufficientBalance::FailTask;
    let (service, first) = start_with(config).await;
    let caller = with_account(&service, &first, "poor", &[]).await;
    let answer = caller.post(&format!("/api-key/model/{MODEL}/task"), &an_input()).await;
    let id = answer.data()["data"].as_str().expect("a task").to_owned();
    let task = caller.get(&format!("/api-key/task/{id}/detail")).await.data().clone();
    assert_eq!((&task["status"], &task["cost"]), (&json!("failed"), &json!(0)));
    assert!(task["message"].as_str().is_some_and(|message| message.contains("balance")), "{task}");
    assert_eq!(task["result"]["result"], Value::Null);
    assert!(!task["result"]["error"].is_null());
    assert!(caller.delete(&format!("/api-key/task/{id}/cancel")).await.refusal(409).contains("failed"));
    audited(&service).await;
}

#[tokio::test]
async fn accounts_and_memberships_are_what_they_are_said_to_be() {
    let (service, first) = start().await;
    let caller = with_account(&service, &first, "person", &[]).await;
    assert_eq!(
        caller.get("/api-key/balance").await.data()["debt"],
        "0",
        "a new account neither owns nor owes anything"
    );
    let wallet = caller.get("/api-key/balance").await.data()["wallet_address"].clone();
    assert_eq!(wallet, "local:person", "no currency has such an address, so no one can pay to it");
    assert!(service.add_account("person", Scope::Personal).await.is_err(), "a name is taken once");
    assert!(service.add_account(" ", Scope::Personal).await.is_err());
    assert!(service.add_key("unknown").await.is_err());
    assert!(service.credit("unknown", Credit::Free(money("1"))).await.is_err());
    assert!(service.credit("person", Credit::Paid(Money::ZERO)).await.is_err());
    assert!(service.credit("person", Credit::Paid(money("-1"))).await.is_err());
    assert!(service.add_member("person", "inferstore").await.is_err(), "the other way round");
    service.add_member("inferstore", "person").await.expect("an organization and a person");
    service.add_member("inferstore", "person").await.expect("twice is once");
    audited(&service).await;
}

#[tokio::test]
async fn the_price_of_storage_is_what_the_operator_has_set() {
    let mut config = Config::ephemeral();
    config.storage_price_per_gib_day = Some(money("0.25"));
    let service = Service::start(config).await.expect("the service starts");
    let price = Caller::first(&service).get("/api-key/storage/price").await;
    assert_eq!(*price.data(), json!({ "per_gib_day": "0.25", "unit": "USD" }));
}
