//! Publication of a model: search, runs, earnings. A new version does not affect existing tasks.

use inferstore_service::{ModelChange, Scope, Visibility};
use serde_json::json;

use super::support::{Bench, PUBLISHER, TestResult, echo};

fn seen_by(visibility: Visibility) -> ModelChange {
    ModelChange { visibility: Some(visibility), ..ModelChange::default() }
}

#[tokio::test]
async fn a_published_model_is_found_runs_and_earns() -> TestResult {
    let bench = Bench::start().await?;
    let hash = bench.service.publish_model(PUBLISHER, echo("echo")?).await?;
    let model = bench.get("/api-key/model/echo").await?;
    assert_eq!((&model["username"], &model["price"]), (&json!(PUBLISHER), &json!(0.25)));
    assert_eq!((&model["is_official"], &model["is_verified"]), (&json!(false), &json!(false)));
    assert_eq!(model["model_metadata"]["model_id"], "echo");
    let verified = ModelChange { is_verified: Some(true), ..ModelChange::default() };
    bench.service.change_model("echo", verified).await?;
    assert_eq!(bench.get("/api-key/model/echo").await?["is_verified"], true);
    assert_eq!(bench.get("/api-key/model/echo/versioning").await?["commit_hash"], json!(hash));

    let task = bench.create("echo", json!({ "say": "hello" })).await?;
    let node = bench.register(&["echo"]).await?;
    let lease = node.lease(1.0).await?.ok_or("there was no task")?;
    assert_eq!(node.finish(&lease, "hello").await?, 200);
    assert_eq!(bench.task(&task).await?["status"], "success");
    assert_eq!(bench.publisher.get("/api-key/balance").await?["earnings"], "0.25");
    assert_eq!(bench.service.audit().await?.faults, Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn a_new_version_leaves_tasks_that_exist_alone() -> TestResult {
    let bench = Bench::start().await?;
    bench.publish("echo").await?;
    let (queued, running) = (json!({ "say": "queued" }), json!({ "say": "running" }));
    let running = bench.create("echo", running).await?;
    let node = bench.register(&["echo"]).await?;
    let lease = node.lease(1.0).await?.ok_or("there was no task")?;
    let queued = bench.create("echo", queued).await?;
    let old = bench.get("/api-key/model/echo/versioning").await?;

    let inputs = r#"{"words": {"type": "int", "required": true, "position": 0, "samples": ["3"]}}"#;
    let outputs = r#"{"count": {"type": "int", "position": 0}}"#;
    let hash = bench.service.publish_version(PUBLISHER, "echo", inputs, outputs).await?;
    let new = bench.get("/api-key/model/echo/versioning").await?;
    assert_eq!((&new["commit_hash"], &new["is_active"]), (&json!(hash), &json!(true)));
    assert_ne!(new["commit_hash"], old["commit_hash"]);

    assert_eq!(node.finish(&lease, "running").await?, 200);
    let lease = node.lease(1.0).await?.ok_or("the queued task is gone")?;
    assert_eq!(lease.data["output_format"], old["output_format"]);
    assert_eq!(node.finish(&lease, "queued").await?, 200);
    for task in [&running, &queued] {
        let ended = bench.task(task).await?;
        assert_eq!((&ended["status"], &ended["input_format"]), (&json!("success"), &old["input_format"]));
    }
    assert!(bench.create("echo", json!({ "say": "hello" })).await.is_err());
    let task = bench.create("echo", json!({ "words": "7" })).await?;
    let lease = node.lease(1.0).await?.ok_or("the new task is not there")?;
    assert_eq!(node.of_lease(&lease, "/finish", &json!({ "output": { "count": 7 } })).await?.0, 200);
    assert_eq!(bench.task(&task).await?["result"]["result"], json!({ "count": 7 }));

    let (inputs, outputs) = (old["input_format"].to_string(), old["output_format"].to_string());
    let back = bench.service.publish_version(PUBLISHER, "echo", &inputs, &outputs).await?;
    assert_eq!(json!(back), old["commit_hash"]);
    Ok(())
}

#[tokio::test]
async fn a_private_model_is_its_owners_alone() -> TestResult {
    let bench = Bench::start().await?;
    bench.publish("echo").await?;
    bench.service.change_model("echo", seen_by(Visibility::Private)).await?;
    assert!(bench.get("/api-key/model/echo").await.is_err());
    assert_eq!(bench.publisher.get("/api-key/model/echo").await?["visibility"], "private");
    bench.service.change_model("echo", seen_by(Visibility::Public)).await?;
    assert_eq!(bench.get("/api-key/model/echo").await?["visibility"], "public");
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_published_is_refused_with_the_reason() -> TestResult {
    let bench = Bench::start().await?;
    bench.service.add_account("eve", Scope::Personal).await?;
    bench.publish("echo").await?;
    let mut odd = echo("Echo")?;
    let mut negative = echo("negative")?;
    negative.price = "-1".parse()?;
    let mut unreadable = echo("unreadable")?;
    unreadable.output_format = serde_json::value::to_raw_value(&json!({ "a": { "type": "file" } }))?;
    odd.description.clear();
    for (spec, reason) in [
        (echo("echo")?, "is taken"),
        (echo("haze-removal")?, "is taken"),
        (odd, "lower-case"),
        (negative, "below zero"),
        (unreadable, "position"),
    ] {
        let refused = bench.service.publish_model("eve", spec).await;
        assert!(refused.as_ref().is_err_and(|why| why.to_string().contains(reason)), "{reason}: {refused:?}");
    }
    let stolen =
        bench.service.publish_version("eve", "echo", "{}", r#"{"a": {"type": "int", "position": 0}}"#);
    assert!(stolen.await.is_err_and(|why| why.to_string().contains("no such model")));
    assert!(bench.service.publish_model("stranger", echo("other")?).await.is_err());
    assert_eq!(bench.get("/api-key/model/echo").await?["username"], json!(PUBLISHER));
    Ok(())
}
