//! The log of operators: what it has of each request, and what happens when it cannot be written.

use rusqlite::Connection;
use serde_json::{Value, json};

use super::support::{Bench, TestResult};

impl Bench {
    async fn log(&mut self) -> TestResult<Vec<Value>> {
        let listed = self.admin.list(&["log"], &[("limit", "100".to_owned())]).await?;
        Ok(listed["actions"].as_array().cloned().unwrap_or_default())
    }

    fn execute(&self, sql: &str) -> TestResult {
        Ok(Connection::open(self.folder.path().join("inferstore.db"))?.execute_batch(sql)?)
    }
}

fn body(action: &Value) -> Value {
    action["body"].as_str().and_then(|body| serde_json::from_str(body).ok()).unwrap_or_default()
}

#[tokio::test]
async fn what_operators_did_is_in_a_log_without_secrets() -> TestResult {
    let mut bench = Bench::start().await?;
    bench.admin.call("POST", &["accounts"], Some(json!({"account": "lena-2"}).to_string())).await?;
    let key = bench.admin.call("POST", &["accounts", "lena-2", "keys"], None).await?["api_key"].take();
    bench.admin.call("POST", &["keys", "revoke"], Some(json!({ "key": key }).to_string())).await?;
    let refused = json!({"paid": "-1"}).to_string();
    bench
        .admin
        .call("POST", &["accounts", "lena-2", "credits"], Some(refused))
        .await
        .err()
        .ok_or("refused")?;
    let suspend = json!({"state": "suspended"}).to_string();
    bench.admin.call("PATCH", &["accounts", "lena-2"], Some(suspend)).await?;
    let listed = bench.admin.list(&["log"], &[("limit", "10".to_owned())]).await?;
    let id = key.as_str().and_then(|key| key.split('_').nth(1)).ok_or("a key")?;
    let actions = listed["actions"].as_array().ok_or("there are actions")?;
    let shown = |action: &Value| {
        ["request", "body"].map(|field| action[field].as_str().unwrap_or_default().to_owned())
    };
    let of_key = json!({ "key": id }).to_string();
    let wanted = [
        ["PATCH /accounts/lena-2".to_owned(), json!({"state": "suspended"}).to_string()],
        ["POST /keys/revoke".to_owned(), of_key.clone()],
        ["POST /accounts/lena-2/keys".to_owned(), of_key],
        ["POST /accounts".to_owned(), json!({"account": "lena-2"}).to_string()],
    ];
    assert_eq!(actions.iter().map(shown).collect::<Vec<_>>(), wanted);
    let secret = key.as_str().and_then(|key| key.rsplit('_').next()).ok_or("a key")?;
    assert!(!listed.to_string().contains(secret));
    Ok(())
}

#[tokio::test]
async fn the_log_tells_a_repeated_credit_from_one_that_was_made() -> TestResult {
    let mut bench = Bench::start().await?;
    let payment = json!({"paid": "25.5", "reference": "invoice 17"});
    for _ in 0..2 {
        bench.admin.call("POST", &["accounts", "demo", "credits"], Some(payment.to_string())).await?;
    }
    let log = bench.log().await?;
    let shown: Vec<_> = log.iter().map(|action| body(action)["is_repeated"].clone()).collect();
    assert_eq!(shown, [json!(true), Value::Null]);
    assert_eq!(body(&log[0])["reference"], "invoice 17");
    Ok(())
}

#[tokio::test]
async fn the_log_names_the_keys_that_are_created_and_revoked() -> TestResult {
    let mut bench = Bench::start().await?;
    let rules = json!({"name": "laptop"}).to_string();
    let made = bench.admin.call("POST", &["accounts", "demo", "keys"], Some(rules)).await?;
    let id = made["api_key"].as_str().and_then(|key| key.split('_').nth(1)).ok_or("a key")?.to_owned();
    let beginning = json!({"key": format!("isk_{}", &id[..8])}).to_string();
    let revoked = bench.admin.call("POST", &["keys", "revoke"], Some(beginning)).await?;
    assert_eq!(revoked["key"], id.as_str(), "the response names the key too");
    let log = bench.log().await?;
    assert_eq!(
        log.iter().map(body).collect::<Vec<_>>(),
        [json!({ "key": id }), json!({"key": id, "name": "laptop"})]
    );
    Ok(())
}

#[tokio::test]
async fn nothing_changes_while_the_log_cannot_be_written() -> TestResult {
    let mut bench = Bench::start().await?;
    bench.execute(
        "CREATE TRIGGER full BEFORE INSERT ON operator_log BEGIN SELECT RAISE(ABORT, 'no room'); END",
    )?;
    let suspend = json!({"state": "suspended"}).to_string();
    let failed = bench.admin.call("PATCH", &["accounts", "demo"], Some(suspend.clone())).await;
    let failed = failed.err().ok_or("it fails")?.to_string();
    assert!(failed.contains("no room"), "{failed}");
    assert_eq!(bench.caller.status("/api-key/balance").await?, 200);
    bench.execute("DROP TRIGGER full")?;
    bench.admin.call("PATCH", &["accounts", "demo"], Some(suspend)).await?;
    assert_eq!(bench.log().await?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_change_whose_end_cannot_be_logged_is_in_the_log_as_in_doubt() -> TestResult {
    let mut bench = Bench::start().await?;
    bench.execute(
        "CREATE TRIGGER full BEFORE UPDATE ON operator_log BEGIN SELECT RAISE(ABORT, 'no room'); END",
    )?;
    let suspend = json!({"state": "suspended"}).to_string();
    bench.admin.call("PATCH", &["accounts", "demo"], Some(suspend)).await?;
    let log = bench.log().await?;
    assert_eq!((&log[0]["request"], &log[0]["status"]), (&json!("PATCH /accounts/demo"), &json!(500)));
    Ok(())
}
