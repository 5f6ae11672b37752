//! Controls of the clock, the local node, scripts and the journal.

use std::time::Duration;

use inferstore_api::operations;
use inferstore_service::{Config, Fault, Script, Then};
use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::json;

use super::support::{Bench, MODEL, TestResult};

const OTHER_MODEL: &str = "haze-removal";

#[tokio::test]
async fn a_model_stays_queued_runs_slowly_fails_and_succeeds_on_demand() -> TestResult {
    let bench = Bench::start().await?;
    bench.controls.let_model(MODEL, Script::stay_queued()).await?;
    let waits = bench.create().await?;
    bench.controls.let_model(OTHER_MODEL, Script::fail("no").once()).await?;
    let other =
        bench.caller.create(OTHER_MODEL, json!({"input_image": "https://files.example/a.png"})).await?;
    bench.until(&other, &["failed"]).await?;
    assert_eq!(bench.task(&waits).await?["status"], "in_queue");
    assert_eq!(bench.get(&format!("/api-key/model/{MODEL}/serving")).await?["serving"], true);

    bench.controls.let_model(MODEL, Script::fail("out of memory").once()).await?;
    let failed = bench.until(&waits, &["failed", "success"]).await?;
    assert_eq!(
        (failed["status"].as_str(), failed["message"].as_str()),
        (Some("failed"), Some("out of memory"))
    );
    assert_eq!(failed["result"]["error"]["message"], "out of memory");

    let output = json!({"output": "#123456"});
    let slow = Script::succeed(output.clone()).after(Duration::from_millis(300)).times(2);
    bench.controls.let_model(MODEL, slow).await?;
    for _ in 0..2 {
        let id = bench.create().await?;
        bench.until(&id, &["computing"]).await?;
        assert_eq!(bench.until(&id, &["success"]).await?["result"]["result"], output);
    }
    assert!(bench.controls.scripts().is_empty(), "the script is cleared");
    let itself = bench.create().await?;
    assert_eq!(bench.until(&itself, &["failed"]).await?["result"]["error"]["kind"], "input");
    bench.audit().await
}

#[tokio::test]
async fn a_model_that_nothing_runs_is_served_when_a_tester_says_what_comes_out() -> TestResult {
    let mut config = Config::ephemeral().with_controls();
    config.excluded_models.insert("face-mesh".to_owned());
    let bench = Bench::with(config).await?;
    let serving = "/api-key/model/face-mesh/serving";
    assert_eq!(bench.get(serving).await?["serving"], false);
    bench.controls.let_model("face-mesh", Script::succeed(json!({"output": "x"}))).await?;
    assert_eq!(bench.get(serving).await?["serving"], true);
    assert!(bench.controls.clear_script("face-mesh").await?);
    assert_eq!(bench.get(serving).await?["serving"], false);
    Ok(())
}

#[tokio::test]
async fn a_script_that_contradicts_itself_is_refused() -> TestResult {
    let bench = Bench::start().await?;
    for script in [
        Script::succeed(json!("no object")),
        Script::stay_queued().once(),
        Script::stay_queued().after(Duration::from_secs(1)),
    ] {
        assert!(bench.controls.let_model(MODEL, script.clone()).await.is_err(), "{script:?}");
    }
    let odd = serde_json::from_value::<Script>(json!({"then": "run", "output": {}}))?;
    assert!(bench.controls.let_model(MODEL, odd).await.is_err());
    assert!(serde_json::from_value::<Then>(json!("explode")).is_err());
    Ok(())
}

#[tokio::test]
async fn a_node_that_is_down_serves_nothing_and_its_task_begins_anew() -> TestResult {
    let bench = Bench::start().await?;
    let serving = format!("/api-key/model/{MODEL}/serving");
    bench.controls.let_model(MODEL, Script::run().after(Duration::from_mins(1))).await?;
    let task = bench.create().await?;
    bench.until(&task, &["computing"]).await?;
    bench.controls.take_node_down().await?;
    assert_eq!(bench.get(&serving).await?["serving"], false);
    bench.controls.let_model(MODEL, Script::succeed(json!({"output": "#fff"}))).await?;
    let queued = bench.create().await?;
    bench.controls.advance_clock(Duration::from_secs(1)).await?;
    assert_eq!(bench.task(&task).await?["status"], "computing", "statuses never go back");
    assert_eq!(bench.task(&queued).await?["status"], "in_queue");
    assert!(!bench.controls.is_node_up().await);

    bench.controls.bring_node_up().await?;
    assert_eq!(bench.get(&serving).await?["serving"], true);
    for id in [&task, &queued] {
        bench.until(id, &["success"]).await?;
    }
    bench.audit().await
}

#[tokio::test]
async fn a_clock_set_ahead_lets_targets_expire_and_storage_be_billed() -> TestResult {
    let bench = Bench::start().await?;
    let target = bench.presign("note.txt", "text/plain", 6).await?;
    bench.controls.advance_clock(Duration::from_mins(16)).await?;
    let refused = bench.send_form(&target, &target.form(b"a note"), HeaderMap::new()).await?;
    assert_eq!(refused.status().as_u16(), 403);
    assert!(refused.text().await?.contains("expired"));

    bench.store("large.txt", "text/plain", &[b'x'; 1 << 20]).await?;
    let before = bench.balance().await?;
    bench.controls.advance_clock(Duration::from_hours(30 * 24)).await?;
    assert_ne!(bench.balance().await?, before, "a month was billed");
    let serving = bench.get(&format!("/api-key/model/{MODEL}/serving")).await?;
    assert_eq!(serving["serving"], true, "the node was alive all along");
    bench.audit().await
}

#[tokio::test]
async fn the_header_date_and_the_times_of_tasks_are_by_one_clock() -> TestResult {
    let bench = Bench::start().await?;
    bench.controls.advance_clock(Duration::from_hours(1)).await?;
    let task = bench.create().await?;
    let created_at: jiff::Timestamp =
        bench.task(&task).await?["created_at"].as_str().unwrap_or_default().parse()?;
    let balance = bench.send(Method::GET, "/api-key/balance", None).await?;
    let object = bench.http.get(bench.store("a.txt", "text/plain", b"a").await?).send().await?;
    for response in [balance, object] {
        let date = response.headers().get("date").ok_or("a response has a date")?.to_str()?;
        let date: jiff::Timestamp = httpdate::parse_http_date(date)?.try_into()?;
        let difference = date.duration_since(created_at).abs();
        assert!(difference < jiff::SignedDuration::from_mins(1), "{difference:?}");
    }
    Ok(())
}

#[tokio::test]
async fn an_expired_lease_moves_the_task_to_another_worker_and_bills_once() -> TestResult {
    let bench = Bench::start().await?;
    let before = bench.balance().await?;
    bench.controls.let_model(MODEL, Script::run().after(Duration::from_mins(1)).once()).await?;
    let task = bench.create().await?;
    bench.until(&task, &["computing"]).await?;
    bench.controls.let_model(MODEL, Script::succeed(json!({"output": "#fff"}))).await?;
    bench.controls.advance_clock(Duration::from_mins(1)).await?;
    assert_eq!(bench.until(&task, &["success"]).await?["result"]["result"]["output"], "#fff");
    assert_ne!(bench.balance().await?, before);
    bench.audit().await
}

#[tokio::test]
async fn the_journal_tells_what_was_asked_and_never_a_key() -> TestResult {
    let bench = Bench::start().await?;
    bench.balance().await?;
    bench.controls.add_fault(Fault::status(503).on(operations::LIST_TASKS).once())?;
    let _ = bench.tasks().await;
    bench.get("/api-key/task/histories?limit=5").await?;
    let journal = bench.controls.journal();
    let seen: Vec<_> = journal.iter().map(|entry| (entry.operation, entry.status, entry.fault)).collect();
    let (balance, tasks) = (Some(operations::GET_BALANCE.into()), Some(operations::LIST_TASKS.into()));
    assert_eq!(seen, [(balance, Some(200), None), (tasks, Some(503), Some(1)), (tasks, Some(200), None)]);
    assert!(!format!("{journal:?}").contains(&bench.key));
    assert!(!serde_json::to_string(&journal)?.contains("limit=5"));
    assert_eq!(bench.controls.seen(operations::LIST_TASKS), 2);
    bench.controls.clear_journal();
    assert!(bench.controls.journal().is_empty());
    for _ in 0..3 {
        bench.balance().await?;
    }
    assert_eq!(bench.controls.journal().first().map(|entry| entry.number), Some(4), "numbers go on");
    Ok(())
}
