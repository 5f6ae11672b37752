//! Death of a node during a run: the task succeeds on another node, is billed once, and its status never goes back.
//! Each seed chooses the point and time of the death.

use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Value, json};

use super::support::{Bench, Leased, Node, TestResult, post_and_hang_up};

const SEEDS: u64 = 50;
const SIDE_BY_SIDE: usize = 25;

#[derive(Debug, Clone, Copy)]
enum Death {
    Leasing,
    Leased,
    Beating,
    PuttingHalfAFile,
    HavingPutAFile,
    FinishingHalf,
    Finishing,
    /// The node hangs, and sends its result after the lease expiry.
    Hanging,
}

const DEATHS: [Death; 8] = [
    Death::Leasing,
    Death::Leased,
    Death::Beating,
    Death::PuttingHalfAFile,
    Death::HavingPutAFile,
    Death::FinishingHalf,
    Death::Finishing,
    Death::Hanging,
];

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_dies_loses_nothing_and_costs_nothing() -> TestResult {
    let bench = Bench::start().await?;
    for seed in 0..SEEDS {
        bench.publish(&format!("echo-{seed}")).await?;
    }
    let runs = futures_util::stream::iter(0..SEEDS)
        .map(|seed| {
            let bench = &bench;
            async move { one(bench, seed).await.map_err(|cause| format!("seed {seed}: {cause}")) }
        })
        .buffer_unordered(SIDE_BY_SIDE);
    let failures: Vec<String> = runs.filter_map(|run| async { run.err() }).collect().await;
    assert_eq!(failures, Vec::<String>::new());

    let audit = bench.service.audit().await?;
    assert_eq!(audit.faults, Vec::<String>::new());
    let balance = bench.publisher.get("/api-key/balance").await?;
    assert_eq!(balance["earnings"], "12.5", "{SEEDS} times 0.25");
    bench.service.shutdown().await;
    Ok(())
}

async fn one(bench: &Bench, seed: u64) -> TestResult {
    let mut random = fastrand::Rng::with_seed(seed);
    let death = DEATHS[usize::try_from(seed)? % DEATHS.len()];
    let model = format!("echo-{seed}");
    let doomed = bench.register(&[&model]).await?;
    let healthy = bench.register(&[&model]).await?;
    let task = bench.create(&model, json!({ "say": "hello" })).await?;
    let pause = Duration::from_millis(random.u64(0..300));

    let watching = watch(bench, &task);
    let running = async {
        let held = die(bench, &doomed, death, pause).await?;
        loop {
            if let Some(lease) = healthy.lease(5.0).await? {
                let first = lease.data["attempt"].as_i64();
                if !matches!(death, Death::Leasing | Death::Finishing) && first != Some(2) {
                    return Err(format!("{death:?}: the second lease is number {first:?}").into());
                }
                if let (Death::Hanging, Some(held)) = (death, &held) {
                    let late = doomed.finish(held, "late").await?;
                    let beat = doomed.of_lease(held, "/heartbeat", &json!({})).await?.0;
                    if (late, beat) != (409, 409) {
                        return Err(format!("the response to a late result was {late} and {beat}").into());
                    }
                }
                match healthy.finish(&lease, "right").await? {
                    200 => {}
                    status => return Err(format!("{death:?}: the result was refused: {status}").into()),
                }
            }
            let status = bench.task(&task).await?["status"].clone();
            if status == "success" || status == "failed" {
                return TestResult::Ok(());
            }
        }
    };
    let (statuses, ran) = tokio::join!(watching, running);
    ran?;
    let statuses = statuses?;
    let order = ["in_queue", "computing", "success"];
    let places: Vec<_> = statuses.iter().map(|status| order.iter().position(|word| word == status)).collect();
    if !places.is_sorted() || places.contains(&None) {
        return Err(format!("{death:?}: the statuses were {statuses:?}").into());
    }

    let ended = bench.task(&task).await?;
    let said = ended["result"]["result"]["said"].as_str();
    let is_right = said == Some("right") || matches!(death, Death::Finishing) && said == Some("doomed");
    let url = ended["result"]["result"]["picture"].as_str().ok_or("there is no picture")?;
    let picture = bench.http.get(url).send().await?.text().await?;
    if !is_right || Some(&*picture) != said || ended["cost"] != json!(0.25) {
        return Err(format!("{death:?}: the task ended as {ended}, with the picture {picture:?}").into());
    }
    Ok(())
}

async fn die(bench: &Bench, node: &Node<'_>, death: Death, pause: Duration) -> TestResult<Option<Leased>> {
    if matches!(death, Death::Leasing) {
        post_and_hang_up(bench, &format!("{}/lease", node.url), r#"{"wait_seconds":1}"#, true).await?;
        return Ok(None);
    }
    let lease = node.lease(5.0).await?.ok_or("there was no task to die over")?;
    match death {
        Death::Leasing | Death::Leased => {}
        Death::Beating => {
            tokio::time::sleep(pause).await;
            node.of_lease(&lease, "/heartbeat", &json!({})).await?;
        }
        Death::PuttingHalfAFile => {
            post_and_hang_up(bench, &format!("{}/files/picture.png", lease.url), "doomed", false).await?;
        }
        Death::HavingPutAFile => {
            node.put(&lease, "picture.png", "image/png", b"doomed").await?;
        }
        Death::FinishingHalf | Death::Finishing => {
            let (_, response) = node.put(&lease, "picture.png", "image/png", b"doomed").await?;
            let output = json!({ "output": { "picture": response["data"]["url"], "said": "doomed" } });
            let is_whole = matches!(death, Death::Finishing);
            post_and_hang_up(bench, &format!("{}/finish", lease.url), &output.to_string(), is_whole).await?;
        }
        Death::Hanging => return Ok(Some(lease)),
    }
    Ok(None)
}

async fn watch(bench: &Bench, task: &str) -> TestResult<Vec<String>> {
    let mut seen: Vec<String> = Vec::new();
    for _ in 0..12_000 {
        let status: Value = bench.task(task).await?["status"].take();
        let status = status.as_str().unwrap_or_default();
        if seen.last().is_none_or(|last| last != status) {
            seen.push(status.to_owned());
        }
        if matches!(status, "success" | "failed" | "canceled") {
            return Ok(seen);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Err(format!("the task {task} never ended: {seen:?}").into())
}
