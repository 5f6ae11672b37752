//! API keys with a name, an expiry, a daily limit and allowed models.

use std::time::Duration;

use futures_util::future::join_all;
use inferstore_service::Script;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::support::{Bench, Caller, TestResult};

const MODEL: &str = "color-extraction";

impl Bench {
    async fn draw(&mut self, rules: Value) -> TestResult<Caller> {
        let drawn = self.admin.call("POST", &["accounts", "demo", "keys"], Some(rules.to_string())).await?;
        Ok(self.caller.with_key(drawn["api_key"].as_str().ok_or("a key")?))
    }
}

fn input() -> Value {
    json!({"input": "https://files.example/street.png"})
}

#[tokio::test]
async fn a_key_spends_no_more_than_its_daily_limit() -> TestResult {
    let mut bench = Bench::start().await?;
    bench.service.controls()?.let_model(MODEL, Script::stay_queued()).await?;
    let limited = bench.draw(json!({"daily_limit": "0.12", "name": "the nightly job"})).await?;
    let input = input();
    let creates = join_all((0..16).map(|_| limited.try_create(MODEL, &input))).await;
    let mut created = Vec::new();
    for create in creates {
        let (status, response) = create?;
        match status {
            200 => created.push(response["data"]["data"].as_str().unwrap_or_default().to_owned()),
            _ => {
                assert_eq!(status, 402);
                assert!(response["message"].to_string().contains("may spend 0.02 more"), "{response}");
            }
        }
    }
    assert_eq!(created.len(), 2);
    // Unbilled tasks do not count towards the limit, and other keys have no limit.
    let cancel = format!("/api-key/task/{}/cancel", created[0]);
    limited.must(reqwest::Method::DELETE, &cancel, None).await?;
    limited.create(MODEL, input.clone()).await?;
    assert_eq!(limited.try_create(MODEL, &input).await?.0, 402);
    bench.caller.create(MODEL, input.clone()).await?;
    bench.service.controls()?.advance_clock(Duration::from_hours(24)).await?;
    limited.create(MODEL, input).await?;
    let listed = bench.admin.call("GET", &["accounts", "demo", "keys"], None).await?;
    let keys = listed["keys"].as_array().ok_or("there are keys")?;
    let shown = keys.iter().find(|key| key["name"] == "the nightly job").ok_or("it is listed")?;
    assert_eq!(shown["daily_limit"], "0.12");
    Ok(())
}

#[tokio::test]
async fn a_key_expires_and_creates_tasks_of_its_models_alone() -> TestResult {
    let mut bench = Bench::start().await?;
    bench.service.controls()?.let_model(MODEL, Script::stay_queued()).await?;
    let narrow = bench.draw(json!({"models": [MODEL], "expires_in_days": 2})).await?;
    narrow.create(MODEL, input()).await?;
    let (status, refused) = narrow.try_create("haze-removal", &json!({})).await?;
    assert!(status == 403 && refused["message"].to_string().contains("this model"), "{refused}");
    bench.service.controls()?.advance_clock(Duration::from_hours(47)).await?;
    assert_eq!(narrow.status("/api-key/balance").await?, 200);
    bench.service.controls()?.advance_clock(Duration::from_hours(1)).await?;
    let (status, refused) = narrow.call(reqwest::Method::GET, "/api-key/balance", None).await?;
    assert!(status == 401 && refused["message"].to_string().contains("expired"), "{refused}");
    for (rules, wanted) in [
        (json!({"models": []}), "names no model"),
        (json!({"expires_in_days": 0}), "between 1 and"),
        (json!({"daily_limit": "0"}), "not above zero"),
        (json!({"name": "two\nlines"}), "one line"),
        (json!({"limit": "1"}), "unknown field"),
    ] {
        let refused = bench.draw(rules).await.err().ok_or("it is refused")?;
        assert!(refused.to_string().contains(wanted), "{wanted}: {refused}");
    }
    Ok(())
}

#[tokio::test]
async fn rules_without_a_content_type_are_refused_rather_than_ignored() -> TestResult {
    let bench = Bench::start().await?;
    let mut stream = UnixStream::connect(bench.folder.path().join("admin.sock")).await?;
    let rules = json!({"daily_limit": "1"}).to_string();
    let head = "POST /accounts/demo/keys HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length";
    stream.write_all(format!("{head}: {}\r\n\r\n{rules}", rules.len()).as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    assert!(response.starts_with("HTTP/1.1 415 "), "{response}");
    Ok(())
}
