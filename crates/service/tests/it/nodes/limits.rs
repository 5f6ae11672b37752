//! Limits of accounts (fair scheduling): no account can delay others' tasks for long, or fill the queue.

use inferstore_service::{Config, Credit, Scope, Service};
use serde_json::json;

use super::support::{Bench, TestResult};

async fn bench(change: impl FnOnce(&mut Config)) -> TestResult<Bench> {
    let mut config = Config::ephemeral();
    config.nodes = Some(([127, 0, 0, 1], 0).into());
    config.workers = 0;
    change(&mut config);
    let bench = Bench::around(Service::start(config).await?).await?;
    bench.publish("echo").await?;
    Ok(bench)
}

async fn customer(bench: &Bench, name: &str) -> TestResult<String> {
    bench.service.add_account(name, Scope::Personal).await?;
    bench.service.credit(name, Credit::Paid("1000".parse()?)).await?;
    Ok(bench.service.add_key(name).await?)
}

#[tokio::test]
async fn a_long_queue_of_one_account_delays_another_by_one_task() -> TestResult {
    let bench = bench(|_| {}).await?;
    let (greedy, other) = (customer(&bench, "greedy").await?, customer(&bench, "other").await?);
    for _ in 0..300 {
        assert_eq!(bench.with_key(&greedy).try_create("echo", &json!({ "say": "greedy" })).await?.0, 200);
    }
    assert_eq!(bench.with_key(&other).try_create("echo", &json!({ "say": "other" })).await?.0, 200);
    let node = bench.register(&["echo"]).await?;
    let mut order = Vec::new();
    for _ in 0..3 {
        let lease = node.lease(1.0).await?.ok_or("there was no task")?;
        order.push(lease.data["input"]["say"].as_str().unwrap_or_default().to_owned());
    }
    assert_eq!(order, ["greedy", "other", "greedy"]);
    Ok(())
}

#[tokio::test]
async fn too_many_unfinished_tasks_are_refused_until_one_ends() -> TestResult {
    let bench = bench(|config| config.limits.account_unfinished = 3).await?;
    let (greedy, other) = (customer(&bench, "greedy").await?, customer(&bench, "other").await?);
    let input = json!({ "say": "hello" });
    for _ in 0..3 {
        assert_eq!(bench.with_key(&greedy).try_create("echo", &input).await?.0, 200);
    }
    let (status, response) = bench.with_key(&greedy).try_create("echo", &input).await?;
    let message = response["message"].as_str().unwrap_or_default();
    assert!(status == 429 && message.starts_with("3 tasks of this account have not ended"), "{response}");
    let url = format!("{}/api-key/model/echo/task", bench.service.base_url());
    let request =
        bench.http.post(url).header("x-api-key", &greedy).header("content-type", "application/json");
    let refused = request.body(input.to_string()).send().await?;
    assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (429, &"5".parse()?));
    assert_eq!(bench.with_key(&other).try_create("echo", &input).await?.0, 200);

    let node = bench.register(&["echo"]).await?;
    let lease = node.lease(1.0).await?.ok_or("there was no task")?;
    assert_eq!(bench.with_key(&greedy).try_create("echo", &input).await?.0, 429, "it is running");
    assert_eq!(node.finish(&lease, "hello").await?, 200);
    assert_eq!(bench.with_key(&greedy).try_create("echo", &input).await?.0, 200);
    Ok(())
}

#[tokio::test]
async fn so_many_tasks_of_an_account_run_at_a_time() -> TestResult {
    let bench = bench(|config| config.limits.account_running = 2).await?;
    let greedy = customer(&bench, "greedy").await?;
    for _ in 0..3 {
        bench.with_key(&greedy).try_create("echo", &json!({ "say": "hello" })).await?;
    }
    let node = bench.register(&["echo"]).await?;
    let first = node.lease(1.0).await?.ok_or("there was no task")?;
    node.lease(1.0).await?.ok_or("there was no second task")?;
    assert!(node.lease(0.0).await?.is_none());
    assert_eq!(node.finish(&first, "hello").await?, 200);
    assert!(node.lease(1.0).await?.is_some());
    Ok(())
}

#[tokio::test]
async fn inputs_that_are_too_large_are_refused() -> TestResult {
    let bench = bench(|_| {}).await?;
    let key = customer(&bench, "writer").await?;
    let say = |length: usize| json!({ "say": "x".repeat(length) });
    assert_eq!(bench.with_key(&key).try_create("echo", &say(250 << 10)).await?.0, 200);
    let (status, response) = bench.with_key(&key).try_create("echo", &say(256 << 10)).await?;
    let message = response["message"].as_str().unwrap_or_default();
    assert!(status == 413 && message.contains("at most 262144 bytes"), "{status} {response}");
    Ok(())
}
