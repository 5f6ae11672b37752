//! Lists and refunds for the operator of a running service.

use inferstore_service::Script;
use serde_json::{Value, json};

use super::support::{Bench, Caller, TestResult};

const MODEL: &str = "color-extraction";

impl Bench {
    async fn succeed(&self) -> TestResult<String> {
        let controls = self.service.controls()?;
        controls.let_model(MODEL, Script::succeed(json!({"output": "#102030"}))).await?;
        let input = json!({"input": "https://files.example/street.png"});
        let id = self.caller.create(MODEL, input).await?;
        for _ in 0..1_000 {
            let task = self.caller.task(&id).await?;
            if task["status"] == "success" {
                return Ok(id);
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        Err("the task never succeeded".into())
    }
}

#[tokio::test]
async fn keys_are_listed_by_identifier_and_revoked_by_a_beginning_of_it() -> TestResult {
    let mut bench = Bench::start().await?;
    let drawn = bench.admin.call("POST", &["accounts", "demo", "keys"], None).await?;
    let text = drawn["api_key"].as_str().unwrap_or_default().to_owned();
    let listed = bench.admin.call("GET", &["accounts", "demo", "keys"], None).await?;
    let keys = listed["keys"].as_array().ok_or("there are keys")?;
    assert_eq!(keys.len(), 2);
    assert!(!listed.to_string().contains(text.rsplit('_').next().unwrap_or_default()), "no secret is listed");
    let id = text.split('_').nth(1).unwrap_or_default();
    assert!(keys.iter().any(|key| key["key"] == id && key["revoked_at"] == Value::Null), "{listed}");

    let revoke = |key: &str| Some(json!({ "key": key }).to_string());
    let short = bench.admin.call("POST", &["keys", "revoke"], revoke(&id[..3])).await;
    assert!(short.is_err_and(|error| error.to_string().contains("four characters")));
    let wrong = format!("isk_{id}_{}", "x".repeat(26));
    let wrong = bench.admin.call("POST", &["keys", "revoke"], revoke(&wrong)).await;
    assert!(wrong.is_err_and(|error| error.is_refused()), "another secret is another key");
    bench.admin.call("POST", &["keys", "revoke"], revoke(&format!("isk_{}", &id[..8]))).await?;
    let again = bench.admin.call("POST", &["keys", "revoke"], revoke(id)).await;
    assert!(again.is_err_and(|error| error.to_string().contains("one that was revoked stays revoked")));
    assert_eq!(Caller::new(&bench.service, &text)?.status("/api-key/balance").await?, 401);
    assert_eq!(bench.caller.status("/api-key/balance").await?, 200, "the other key is valid");
    let listed = bench.admin.call("GET", &["accounts", "demo", "keys"], None).await?;
    let of_id = |key: &&Value| key["key"] == id;
    let revoked = listed["keys"].as_array().and_then(|keys| keys.iter().find(of_id).cloned());
    assert!(revoked.is_some_and(|key| key["revoked_at"].is_string()), "{listed}");
    Ok(())
}

#[tokio::test]
async fn an_account_is_shown_with_what_belongs_to_it() -> TestResult {
    let mut bench = Bench::start().await?;
    bench.caller.store("note", "text/plain", b"text").await?;
    bench.succeed().await?;
    let studio = json!({"account": "studio", "scope": "organization"}).to_string();
    bench.admin.call("POST", &["accounts"], Some(studio)).await?;
    bench.admin.call("PUT", &["accounts", "studio", "members", "demo"], None).await?;
    let shown = bench.admin.call("GET", &["accounts", "demo"], None).await?;
    for (field, value) in [
        ("scope", json!("personal")),
        ("files", json!(1)),
        ("stored_bytes", json!(4)),
        ("tasks", json!(1)),
        ("valid_keys", json!(1)),
        ("organizations", json!(["studio"])),
        ("held", json!("0")),
    ] {
        assert_eq!(shown[field], value, "{field}: {shown}");
    }
    let members = bench.admin.call("GET", &["accounts", "studio", "members"], None).await?;
    assert_eq!(members, json!({"members": [{"member": "demo"}]}));
    bench.admin.call("DELETE", &["accounts", "studio", "members", "demo"], None).await?;
    let members = bench.admin.call("GET", &["accounts", "studio", "members"], None).await?;
    assert_eq!(members, json!({"members": []}));
    let person = bench.admin.call("GET", &["accounts", "demo", "members"], None).await;
    assert!(person.is_err_and(|error| error.to_string().contains("\"demo\" is a person")));
    let unknown = bench.admin.call("GET", &["accounts", "stranger"], None).await;
    assert!(unknown.is_err_and(|error| error.is_refused()));
    Ok(())
}

#[tokio::test]
async fn models_are_listed_page_by_page_with_what_only_the_operator_sees() -> TestResult {
    let mut bench = Bench::start().await?;
    let change = json!({"visibility": "private", "is_playground": false, "is_verified": false});
    bench.admin.call("PATCH", &["models", MODEL], Some(change.to_string())).await?;
    let mut all = Vec::new();
    loop {
        let query = [("limit", "4".to_owned()), ("offset", all.len().to_string())];
        let page = bench.admin.list(&["models"], &query).await?;
        let page = page["models"].as_array().cloned().unwrap_or_default();
        if page.is_empty() {
            break;
        }
        all.extend(page);
    }
    let listed = all.iter().find(|model| model["model"] == MODEL).ok_or("private models are listed")?;
    assert_eq!((&listed["visibility"], &listed["is_playground"]), (&json!("private"), &json!(false)));
    assert_eq!((&listed["publisher"], &listed["price"]), (&json!("inferstore"), &json!("0.05")));
    Ok(())
}

#[tokio::test]
async fn nodes_are_listed_with_their_keys() -> TestResult {
    let mut bench = Bench::start().await?;
    let key = json!({"name": "lab", "models": [MODEL]}).to_string();
    bench.admin.call("POST", &["nodes", "keys"], Some(key)).await?;
    let listed = bench.admin.call("GET", &["nodes"], None).await?;
    let nodes = listed["nodes"].as_array().ok_or("there are nodes")?;
    let lab = nodes.iter().find(|node| node["key"] == "lab").ok_or("the key is listed")?;
    assert_eq!((&lab["node"], &lab["models"]), (&Value::Null, &json!([MODEL])));
    let local = nodes.iter().find(|node| node["key"] == Value::Null).ok_or("the node inside is listed")?;
    assert!(local["models"].as_array().is_some_and(|models| models.contains(&json!(MODEL))), "{local}");
    Ok(())
}

#[tokio::test]
async fn a_refund_returns_what_a_task_has_cost_once_and_the_books_add_up() -> TestResult {
    let mut bench = Bench::start().await?;
    let before = bench.caller.get("/api-key/balance").await?;
    let task = bench.succeed().await?;
    assert_ne!(bench.caller.get("/api-key/balance").await?, before);
    let query = [("account", "demo".to_owned()), ("status", "success".to_owned())];
    let listed = bench.admin.list(&["tasks"], &query).await?;
    assert_eq!(listed["tasks"][0]["task"], task.as_str());
    assert_eq!(listed["tasks"][0]["is_refunded"], false);

    let refunded = bench.admin.call("POST", &["tasks", &task, "refund"], None).await?;
    assert_eq!((&refunded["account"], &refunded["amount"]), (&json!("demo"), &json!("0.05")));
    assert_eq!(bench.caller.get("/api-key/balance").await?, before);
    let again = bench.admin.call("POST", &["tasks", &task, "refund"], None).await;
    assert!(again.is_err_and(|error| error.to_string().contains("refunded before")));
    let shown = bench.admin.call("GET", &["tasks", &task], None).await?;
    assert_eq!((&shown["is_refunded"], &shown["status"]), (&json!(true), &json!("success")));
    assert_eq!(shown["output"], json!({"output": "#102030"}));
    let audit = bench.admin.call("GET", &["audit"], None).await?;
    assert_eq!(audit["faults"], json!([]));
    Ok(())
}

#[tokio::test]
async fn a_task_that_cost_nothing_is_not_refunded() -> TestResult {
    let mut bench = Bench::start().await?;
    bench.service.controls()?.let_model(MODEL, Script::stay_queued()).await?;
    let input = json!({"input": "https://files.example/street.png"});
    let id = &bench.caller.create(MODEL, input).await?;
    let refused = bench.admin.call("POST", &["tasks", id, "refund"], None).await;
    assert!(refused.is_err_and(|error| error.to_string().contains("cost nothing")));
    let unknown = bench.admin.call("POST", &["tasks", "nothing", "refund"], None).await;
    assert!(unknown.is_err_and(|error| error.is_refused()));
    let wrong = bench.admin.list(&["tasks"], &[("status", "done".to_owned())]).await;
    assert!(wrong.is_err_and(|error| error.to_string().contains("must be one of in_queue, computing")));
    Ok(())
}

#[tokio::test]
async fn a_limit_that_no_page_has_is_refused_with_the_range() -> TestResult {
    let mut bench = Bench::start().await?;
    for list in ["models", "tasks"] {
        for limit in ["0", "1001", "-1", "4294967296"] {
            let refused = bench.admin.list(&[list], &[("limit", limit.to_owned())]).await;
            let refused = refused.err().ok_or("it is refused")?.to_string();
            assert!(refused.contains("limit must lie between 1 and 1000"), "{list} {limit}: {refused}");
        }
        bench.admin.list(&[list], &[("limit", "1000".to_owned())]).await?;
    }
    Ok(())
}

#[tokio::test]
async fn an_offset_that_no_list_has_is_refused_by_its_name() -> TestResult {
    let mut bench = Bench::start().await?;
    for list in ["models", "tasks"] {
        for (offset, why) in [("9223372036854775808", "0 and 9223372036854775807"), ("-1", "0 and")] {
            let refused = bench.admin.list(&[list], &[("offset", offset.to_owned())]).await;
            let refused = refused.err().ok_or("it is refused")?.to_string();
            assert!(refused.contains("offset") && refused.contains(why), "{list}: {refused}");
        }
        bench.admin.list(&[list], &[("offset", i64::MAX.to_string())]).await?;
    }
    Ok(())
}
