//! Outage of the object store: no acknowledged data are lost, and dependent requests are refused for a retry or wait.

use std::time::Duration;

use inferstore_service::{Config, Credit, Money, S3Config, Scope};
use inferstore_wire::{Cable, Line};
use reqwest::Method;
use serde_json::json;
use url::Url;

use crate::storage::support::{Bench, Caller, TestResult, pattern};

const STATISTICS: &str = "/api-key/storage/upload/statistics";
const FOLDER: &str = "/api-key/storage/upload/documents";

async fn start() -> TestResult<(Bench, Cable)> {
    let variable = |name: &str| std::env::var(name).map_err(|_| format!("{name} is not set"));
    let mut url = Url::parse(&variable("INFERSTORE_TEST_OBJECTS")?)?;
    let endpoint = url.query_pairs().find(|(name, _)| name == "endpoint");
    let endpoint = endpoint.map(|(_, value)| value.into_owned()).ok_or("no endpoint")?;
    let cable = Cable::to(Url::parse(&endpoint)?.socket_addrs(|| None)?[0], None)?;
    url.set_path(&format!("{:016x}", fastrand::u64(..)));
    url.set_query(Some(&format!("endpoint=http://{}&public_endpoint={endpoint}", cable.address)));
    let keys = (variable("AWS_ACCESS_KEY_ID")?, variable("AWS_SECRET_ACCESS_KEY")?);
    let mut config = Config::ephemeral();
    config.objects = Some(S3Config::new(url.as_str(), &keys.0, &keys.1)?);
    Ok((Bench::with(config).await?, cable))
}

#[tokio::test]
#[ignore = "needs the object store of .ci/cluster"]
async fn uploads_are_found_when_the_store_returns_and_the_rest_goes_on() -> TestResult {
    let (bench, cable) = start().await?;
    let known = bench.store("known.txt", "text/plain", b"known").await?;
    assert_eq!(bench.count().await?, 1);
    let target = bench.presign("new.bin", "text/plain", 5_242_881).await?;
    assert!(bench.upload(&target, pattern(5_242_881)).await?.is_success());
    for _ in 0..3 {
        cable.cut().await;
        for path in [STATISTICS, FOLDER] {
            let (status, answer) = bench.call(Method::GET, path, None).await?;
            assert_eq!((status, &answer["status"]), (503, &json!("fail")), "{answer}");
        }
        let url = format!("{}{STATISTICS}", bench.service.base_url());
        let refused = bench.http.get(url).header("x-api-key", &bench.key).send().await?;
        assert_eq!(refused.headers()["retry-after"], "1");
        let refused = bench.http.head(&target.download_url).send().await?;
        assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (503, &"1".parse()?));
        assert_eq!(bench.http.get(&known).send().await?.text().await?, "known");
        assert_eq!(bench.get("/api-key/storage/upload/covers").await?["total"], 0);
        bench.presign("later.txt", "text/plain", 1).await?;
        cable.set(Line::Open);
        assert_eq!(bench.get(STATISTICS).await?["total_files"], 2);
        assert_eq!(bench.delete(&target.download_url).await?.0, 200);
        let again = bench.presign("new.bin", "text/plain", 5_242_881).await?;
        assert!(bench.upload(&again, pattern(5_242_881)).await?.is_success());
    }
    assert_eq!(bench.count().await?, 2);
    cable.cut().await;
    assert_eq!(bench.delete(&known).await?.0, 200);
    assert_eq!(bench.http.get(&known).send().await?.status(), 404);
    assert_eq!(bench.service.audit().await?.faults, [""; 0]);
    Ok(())
}

#[tokio::test]
#[ignore = "needs the object store of .ci/cluster"]
async fn callers_do_not_wait_long_for_a_store_that_hangs() -> TestResult {
    let (bench, cable) = start().await?;
    let target = bench.presign("new.txt", "text/plain", 3).await?;
    assert!(bench.upload(&target, b"new".to_vec()).await?.is_success());
    // The service may have found the first upload already; it does not know of this one.
    bench.presign("later.txt", "text/plain", 3).await?;
    // Open connections would survive the stall.
    cable.cut().await;
    cable.set(Line::Stalled);
    let begun = std::time::Instant::now();
    assert_eq!(bench.call(Method::GET, STATISTICS, None).await?.0, 503);
    assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
    cable.set(Line::Open);
    assert_eq!(bench.get(STATISTICS).await?["total_files"], 1);
    Ok(())
}

#[tokio::test]
#[ignore = "needs the object store of .ci/cluster"]
async fn a_task_waits_for_the_store() -> TestResult {
    let (bench, cable) = start().await?;
    let picture = include_bytes!("../../../../models/tests/golden/color-extraction.png");
    let url = bench.store("picture.png", "image/png", picture).await?;
    assert_eq!(bench.count().await?, 1);
    cable.cut().await;
    let create = json!({ "input_image": url });
    let path = "/api-key/model/low-light-enhancement/task";
    let (status, created) = bench.call(Method::POST, path, Some(create)).await?;
    assert_eq!(status, 200, "{created}");
    let path = format!("/api-key/task/{}/detail", created["data"]["data"].as_str().unwrap_or_default());
    cable.refused(3).await;
    assert_eq!(bench.get(&path).await?["status"], "computing");
    cable.set(Line::Open);
    let ended = async {
        loop {
            let task = bench.get(&path).await?;
            if task["status"] != "computing" {
                break TestResult::Ok(task);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let task = tokio::time::timeout(Duration::from_mins(1), ended).await??;
    assert_eq!(task["status"], "success", "{task}");
    Ok(())
}

#[tokio::test]
#[ignore = "needs the object store of .ci/cluster"]
async fn a_membership_ends_while_the_store_is_away() -> TestResult {
    let (bench, cable) = start().await?;
    let service = &bench.service;
    service.add_account("studio", Scope::Organization).await?;
    service.add_account("member", Scope::Personal).await?;
    service.add_member("studio", "member").await?;
    service.credit("member", Credit::Free(Money::from_smallest(1))).await?;
    let member = Caller::new(service, &service.add_key("member").await?)?;
    let body =
        json!({"folder": "samples", "mime": "text/plain", "name": "a", "size": 1, "org_username": "studio"});
    member.presign_with(body).await?;
    cable.cut().await;
    assert!(service.remove_member("studio", "member").await?);
    Ok(())
}
