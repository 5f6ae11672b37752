//! Keys of an account: listed, and made and revoked where the installation allows it.

use std::time::Duration;

use futures_util::future::join_all;
use inferstore_service::{Config, Scope, Service};
use serde_json::{Value, json};

use super::{start, start_with};
use crate::support::caller::{Answer, Caller};
use crate::support::deployment::Deployment;

const KEYS: &str = "/api-key/keys";

async fn start_managed() -> (Deployment, Caller) {
    let mut config = Config::ephemeral();
    config.owners_manage_keys = Some(true);
    start_with(config).await
}

async fn create(caller: &Caller, name: &str) -> Answer {
    caller.post(KEYS, &json!({ "name": name })).await
}

async fn revoke(caller: &Caller, id: &str) -> Answer {
    caller.delete(&format!("{KEYS}/{id}")).await
}

async fn with_new_key(caller: &Caller, new: &Value) -> (String, Caller) {
    let answer = caller.post(KEYS, new).await;
    let [id, key] = ["id", "key"].map(|field| answer.data()[field].as_str().expect("it is text").to_owned());
    (id, caller.with_key(Some(&key)))
}

#[tokio::test]
async fn an_account_makes_a_key_with_rules_and_revokes_it_at_once() {
    let (service, caller) = start_managed().await;
    let rules = json!({
        "name": "the nightly job", "expires_at": "2999-01-01T01:00:00+01:00", "daily_limit": "0.5",
        "models": ["background-removal", "a model of next year"],
    });
    let (id, made) = with_new_key(&caller, &rules).await;
    made.get("/api-key/balance").await.data();
    let listed = caller.get(KEYS).await;
    let listed = listed.data();
    assert_eq!((&listed["total"], &listed["can_manage"]), (&json!(2), &json!(true)));
    let record = &listed["records"][0];
    assert_eq!((&record["id"], &record["name"]), (&json!(id), &rules["name"]));
    assert_eq!((&record["daily_limit"], &record["models"]), (&rules["daily_limit"], &rules["models"]));
    assert_eq!(record["expires_at"], "2999-01-01T00:00:00.000Z");
    assert_eq!((&record["is_current"], &listed["records"][1]["is_current"]), (&json!(false), &json!(true)));
    assert_eq!(made.get(KEYS).await.data()["records"][0]["is_current"], true);

    revoke(&caller, &id).await.data();
    service.until_all(|| async { made.get("/api-key/balance").await.status == 401 }).await;
    assert!(caller.get(KEYS).await.data()["records"][0]["revoked_at"].is_string());
    assert!(revoke(&caller, &id).await.refusal(404).contains("no valid key"), "once");
    create(&caller, "the nightly job").await.data();
}

#[tokio::test]
async fn keys_are_managed_by_the_operator_alone_unless_the_policy_is_set() {
    let (service, caller) = start().await;
    service.add_key("demo").await.expect("the account is there");
    let listed = caller.get(KEYS).await;
    assert_eq!((&listed.data()["total"], &listed.data()["can_manage"]), (&json!(2), &json!(false)));
    let other = listed.data()["records"][0]["id"].as_str().expect("it is text").to_owned();
    for refused in [create(&caller, "mine").await, revoke(&caller, &other).await] {
        assert!(refused.refusal(403).contains("operator"), "{refused:?}");
    }
    assert_eq!(caller.get(KEYS).await.data(), listed.data(), "nothing has changed");
}

#[tokio::test]
async fn a_key_with_rules_makes_and_revokes_no_key() {
    let (_service, caller) = start_managed().await;
    let (victim, _) = with_new_key(&caller, &json!({ "name": "victim" })).await;
    for (name, rule, value) in [
        ("expiring", "expires_at", json!("2999-01-01T00:00:00Z")),
        ("limited", "daily_limit", json!("1")),
        ("for one model", "models", json!(["background-removal"])),
    ] {
        let (_, ruled) = with_new_key(&caller, &json!({ "name": name, rule: value })).await;
        assert_eq!(ruled.get(KEYS).await.data()["can_manage"], false, "{name}");
        for refused in [create(&ruled, "more").await, revoke(&ruled, &victim).await] {
            assert!(refused.refusal(403).contains("use another key"), "{name}: {refused:?}");
        }
    }
    let (_, named) = with_new_key(&caller, &json!({ "name": "named" })).await;
    revoke(&named, &victim).await.data();
}

#[tokio::test]
async fn a_key_revokes_neither_itself_nor_a_key_of_another_account() {
    let (service, caller) = start_managed().await;
    service.add_account("lena", Scope::Personal).await.expect("the name is free");
    let lena = caller.with_key(Some(&service.add_key("lena").await.expect("the account is there")));
    let id_of = async |caller: &Caller| {
        let listed = caller.get(KEYS).await;
        listed.data()["records"][0]["id"].as_str().expect("it is text").to_owned()
    };
    let [own, other] = [id_of(&caller).await, id_of(&lena).await];
    assert!(revoke(&caller, &own).await.refusal(409).contains("does not revoke itself"));
    let unknown = revoke(&caller, "abcdefghijkm").await.refusal(404).replace("abcdefghijkm", &other);
    assert_eq!(revoke(&caller, &other).await.refusal(404), unknown);
    let whole = revoke(&caller, "isk_abcdefghijkm_secretsecretsecret").await;
    assert!(!whole.refusal(404).contains("secretsecret"), "{whole:?}");
    for valid in [&caller, &lena] {
        valid.get("/api-key/balance").await.data();
    }
}

#[tokio::test]
async fn a_new_key_with_a_wrong_name_or_rule_is_refused() {
    let (_service, caller) = start_managed().await;
    let too_many = vec!["m"; 101];
    for (field, word, wrong) in [
        (
            "name",
            "name",
            vec![json!(""), json!(" "), json!("two\nlines"), json!("n".repeat(101)), Value::Null],
        ),
        (
            "expires_at",
            "expires_at",
            vec![json!("2001-01-01T00:00:00Z"), json!("2999-01-01T00:00:00"), json!("soon"), Value::Null],
        ),
        ("daily_limit", "limit", vec![json!("0"), json!("-1"), json!(5), Value::Null]),
        (
            "models",
            "model",
            vec![json!([]), json!(too_many), json!(["m".repeat(201)]), json!("m"), Value::Null],
        ),
    ] {
        for wrong in wrong {
            let mut body = json!({ "name": "new" });
            body[field] = wrong;
            let refused = caller.post(KEYS, &body).await;
            assert!(refused.refusal(422).contains(word), "{body}: {refused:?}");
        }
    }
    assert!(caller.post(KEYS, &json!({})).await.refusal(422).contains("name"));
    assert_eq!(caller.get(KEYS).await.data()["total"], 1);
}

#[tokio::test]
async fn of_creates_with_one_name_at_the_same_moment_one_makes_a_key() {
    let mut config = Config::ephemeral();
    config.owners_manage_keys = Some(true);
    let service = Service::start(config).await.expect("the service starts");
    let caller = Caller::first(&service);
    let answers = join_all((0..20).map(|_| create(&caller, "the one"))).await;
    let made = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!(made, 1);
    assert!(answers.iter().all(|answer| matches!(answer.status, 200 | 409)), "{answers:?}");
    assert_eq!(caller.get(KEYS).await.data()["total"], 2);
}

#[tokio::test]
async fn the_keys_of_an_account_are_bounded() {
    let mut config = Config::ephemeral().with_controls();
    config.owners_manage_keys = Some(true);
    let service = Service::start(config).await.expect("the service starts");
    let controls = service.controls().expect("they are on");
    let caller = Caller::first(&service);
    let (first, _) = with_new_key(&caller, &json!({ "name": "0" })).await;
    for number in 1..99 {
        create(&caller, &number.to_string()).await.data();
    }
    assert!(create(&caller, "more").await.refusal(429).contains("100 valid keys"));
    revoke(&caller, &first).await.data();
    let refused = create(&caller, "more").await;
    assert!(refused.refusal(429).contains("within 24 hours"), "{refused:?}");
    assert!(refused.headers.contains_key("retry-after"));
    controls.advance_clock(Duration::from_hours(24)).await.expect("the clock advances");
    create(&caller, "more").await.data();
}

#[tokio::test]
async fn a_list_has_every_valid_key_and_the_latest_others() {
    let (service, caller) = start().await;
    for _ in 0..105 {
        let key = service.add_key("demo").await.expect("the account is there");
        assert!(service.revoke_key(&key).await.expect("it is revoked"));
    }
    let listed = caller.get(KEYS).await;
    let records = listed.data()["records"].as_array().expect("a list").clone();
    assert_eq!((&listed.data()["total"], records.len()), (&json!(106), 101));
    assert_eq!((&records[100]["is_current"], &records[100]["revoked_at"]), (&json!(true), &Value::Null));
    assert!(records[..100].iter().all(|record| record["revoked_at"].is_string()));
}
