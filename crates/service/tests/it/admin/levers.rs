//! Interventions of the operator: suspends, resumes and closes accounts, ends tasks, pauses models, takes files down.

use inferstore_service::{AccountState, Scope, Script};
use serde_json::{Value, json};

use super::support::{Bench, TestResult};

const MODEL: &str = "color-extraction";

impl Bench {
    async fn change(&mut self, account: &str, state: &str) -> TestResult<Value> {
        let body = json!({ "state": state }).to_string();
        Ok(self.admin.call("PATCH", &["accounts", account], Some(body)).await?)
    }

    async fn queue(&self) -> TestResult<String> {
        self.caller.create(MODEL, json!({"input": "https://files.example/street.png"})).await
    }
}

#[tokio::test]
async fn a_suspended_account_can_do_nothing_and_loses_nothing() -> TestResult {
    let mut bench = Bench::start().await?;
    bench.service.controls()?.let_model(MODEL, Script::stay_queued()).await?;
    let task = bench.queue().await?;
    let target = bench.caller.presign("notes.txt", "text/plain", 2).await?;
    let before = bench.caller.get("/api-key/balance").await?;
    bench.change("demo", "suspended").await?;
    for path in ["/api-key/balance", "/api-key/task/histories", "/api-key/storage/upload/documents"] {
        assert_eq!(bench.caller.status(path).await?, 403, "{path}");
    }
    let (status, refused) = bench.caller.try_create(MODEL, &json!({})).await?;
    assert!(status == 403 && refused["message"].to_string().contains("suspended"), "{refused}");
    assert_eq!(bench.caller.with_key("isk_no_key").status("/api-key/balance").await?, 401);
    assert!(!bench.caller.upload(&target, b"hi".to_vec()).await?.is_success(), "the target is void");
    let listed = bench.admin.call("GET", &["accounts", "demo"], None).await?;
    assert_eq!(listed["state"], "suspended");

    bench.change("demo", "active").await?;
    assert_eq!(bench.caller.get("/api-key/balance").await?, before);
    assert_eq!(bench.caller.task(&task).await?["status"], "in_queue");
    let target = bench.caller.presign("notes.txt", "text/plain", 2).await?;
    assert!(bench.caller.upload(&target, b"hi".to_vec()).await?.is_success());
    Ok(())
}

#[tokio::test]
async fn a_closed_account_gets_its_reserved_money_back_and_stays_closed() -> TestResult {
    let mut bench = Bench::start().await?;
    bench.service.controls()?.let_model(MODEL, Script::stay_queued()).await?;
    bench.service.add_account("studio", Scope::Organization).await?;
    bench.service.add_member("studio", "demo").await?;
    let before = bench.caller.get("/api-key/balance").await?;
    for _ in 0..3 {
        bench.queue().await?;
    }
    let closed = bench.change("demo", "closed").await?;
    assert_eq!(closed["canceled_tasks"], 3);
    assert_eq!(bench.caller.status("/api-key/balance").await?, 401);
    let shown = bench.admin.call("GET", &["accounts", "demo"], None).await?;
    assert_eq!((&shown["balance"], &shown["held"]), (&before["balance"], &json!("0")));
    assert_eq!((&shown["state"], &shown["organizations"]), (&json!("closed"), &json!([])));
    assert_eq!(bench.change("demo", "closed").await?["canceled_tasks"], 0);
    for state in ["active", "suspended"] {
        let refused = bench.change("demo", state).await.err().ok_or("it stays closed")?;
        assert!(refused.to_string().contains("stays closed"), "{refused}");
    }
    let refused = bench.service.add_key("demo").await.err().ok_or("it has no keys any more")?;
    assert!(refused.to_string().contains("the account is closed"), "{refused}");
    let refused = bench.service.add_member("studio", "demo").await.err().ok_or("it joins nothing")?;
    assert!(refused.to_string().contains("the account \"demo\" is closed"), "{refused}");
    for (account, state, wanted) in [
        ("inferstore", "suspended", "stays active"),
        ("nobody", "suspended", "there is no account"),
        ("demo", "asleep", "must be one of active, suspended, closed"),
    ] {
        let refused = bench.change(account, state).await.err().ok_or("it is refused")?;
        assert!(refused.to_string().contains(wanted), "{refused}");
    }
    assert!(bench.service.audit().await?.faults.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_refused_state_leaves_the_quota_as_it_is() -> TestResult {
    let mut bench = Bench::start().await?;
    bench.service.add_account("vv", Scope::Personal).await?;
    let quota = json!({"quota": 100}).to_string();
    bench.admin.call("PATCH", &["accounts", "vv"], Some(quota)).await?;
    bench.change("vv", "closed").await?;
    for (account, kept) in [("vv", json!(100)), ("inferstore", Value::Null)] {
        let both = json!({"quota": 7, "state": "suspended"}).to_string();
        let refused = bench.admin.call("PATCH", &["accounts", account], Some(both)).await;
        assert!(refused.is_err_and(|error| error.is_refused()), "{account}");
        let shown = bench.admin.call("GET", &["accounts", account], None).await?;
        assert_eq!(shown["quota"], kept, "{account}");
    }
    let both = json!({"quota": 7, "state": "suspended"}).to_string();
    let changed = bench.admin.call("PATCH", &["accounts", "demo"], Some(both)).await?;
    assert_eq!((&changed["quota"], &changed["state"]), (&json!(7), &json!("suspended")));
    let shown = bench.admin.call("GET", &["accounts", "demo"], None).await?;
    assert_eq!((&shown["quota"], &shown["state"]), (&json!(7), &json!("suspended")));
    Ok(())
}

#[tokio::test]
async fn a_member_uploads_nothing_into_a_suspended_organization() -> TestResult {
    let bench = Bench::start().await?;
    bench.service.add_account("studio", Scope::Organization).await?;
    bench.service.add_member("studio", "demo").await?;
    let body = json!({
        "folder": "documents", "mime": "text/plain", "name": "a.txt", "size": 2, "org_username": "studio"
    });
    let target = bench.caller.presign_with(body.clone()).await?;
    bench.service.set_account_state("studio", AccountState::Suspended).await?;
    assert!(!bench.caller.upload(&target, b"hi".to_vec()).await?.is_success());
    let refused = bench.caller.presign_with(body).await.err().ok_or("it is refused")?.to_string();
    assert!(refused.contains("403") && refused.contains("suspended"), "{refused}");
    Ok(())
}

#[tokio::test]
async fn a_queued_task_is_canceled_and_a_running_one_failed() -> TestResult {
    let mut bench = Bench::start().await?;
    let before = bench.caller.get("/api-key/balance").await?;
    bench.service.controls()?.let_model(MODEL, Script::stay_queued()).await?;
    let queued = bench.queue().await?;
    let mut post = async |task: &str, change: &str, body: Option<Value>| {
        let body = body.map(|body| body.to_string());
        bench.admin.call("POST", &["tasks", task, change], body).await
    };
    let message = json!({"message": "it would run for ever"});
    for (change, body) in [("fail", Some(message.clone())), ("requeue", None)] {
        let refused = post(&queued, change, body).await.err().ok_or("it is queued")?;
        assert!(refused.to_string().contains("is in_queue"), "{refused}");
    }
    post(&queued, "cancel", None).await?;
    let unknown = post("nothing", "cancel", None).await;
    assert!(unknown.is_err_and(|error| error.to_string().contains("there is no task")));
    let two_lines = post(&queued, "fail", Some(json!({"message": "two\nlines"}))).await;
    assert!(two_lines.is_err_and(|error| error.to_string().contains("one line")));
    assert_eq!(bench.caller.task(&queued).await?["status"], "canceled");
    assert_eq!(bench.caller.get("/api-key/balance").await?, before);
    Ok(())
}

#[tokio::test]
async fn a_paused_model_takes_tasks_that_wait_and_a_retired_one_takes_none() -> TestResult {
    let mut bench = Bench::start().await?;
    let before = bench.caller.get("/api-key/balance").await?;
    let mut set = async |state: &str| {
        let body = json!({ "state": state }).to_string();
        bench.admin.call("PATCH", &["models", MODEL], Some(body)).await
    };
    let serving = format!("/api-key/model/{MODEL}/serving");
    set("paused").await?;
    let waiting = bench.caller.create(MODEL, json!({"input": "https://files.example/street.png"})).await?;
    assert_eq!(bench.caller.get(&serving).await?["serving"], false);
    assert_eq!(bench.caller.task(&waiting).await?["status"], "in_queue");
    set("retired").await?;
    assert_eq!(bench.caller.task(&waiting).await?["status"], "canceled");
    assert_eq!(bench.caller.get("/api-key/balance").await?, before);
    let input = json!({"input": "https://files.example/street.png"});
    let (status, refused) = bench.caller.try_create(MODEL, &input).await?;
    assert!(status == 409 && refused["message"].to_string().contains("retired"), "{refused}");
    set("active").await?;
    bench.caller.create(MODEL, input).await?;
    assert_eq!(bench.caller.get(&serving).await?["serving"], true);
    Ok(())
}

#[tokio::test]
async fn a_file_is_taken_down_by_its_url() -> TestResult {
    let mut bench = Bench::start().await?;
    let target = bench.caller.presign("notes.txt", "text/plain", 2).await?;
    assert!(bench.caller.upload(&target, b"hi".to_vec()).await?.is_success());
    let body = json!({"url": target.download_url}).to_string();
    bench.admin.call("DELETE", &["files"], Some(body.clone())).await?;
    let gone = bench.caller.http.get(&target.download_url).send().await?;
    assert_eq!(gone.status(), 404);
    let listed = bench.caller.get("/api-key/storage/upload/documents").await?;
    assert_eq!(listed["total"], 0);
    let again = bench.admin.call("DELETE", &["files"], Some(body)).await;
    assert!(again.is_err_and(|error| error.is_refused()));
    assert!(!bench.caller.upload(&target, b"hi".to_vec()).await?.is_success());
    Ok(())
}
