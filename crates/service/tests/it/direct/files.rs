//! Files uploaded directly to the bucket: when the service finds them, how they are read, and how they are deleted.

use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE};
use reqwest::redirect::Policy;
use reqwest::{Client, Method};
use serde_json::json;

use inferstore_fetch::over_ring;
use inferstore_service::{Config, Service};

use super::start;
use crate::storage::support::{Bench, TestResult, pattern};

const STATISTICS: &str = "/api-key/storage/upload/statistics";
const FOLDER: &str = "/api-key/storage/upload/documents";

const SIZES: [u64; 4] = [1, 5_242_880, 5_242_881, 104_857_600];

#[tokio::test]
#[ignore = "needs the object store of .ci/cluster"]
async fn files_of_every_size_go_to_the_store_and_come_from_it() -> TestResult {
    let bench = start().await?;
    for size in SIZES {
        let bytes = pattern(size);
        let target = bench.presign("whole.bin", "application/x-whole", size).await?;
        let storage = bench.service.storage_url();
        assert!(!target.endpoint.starts_with(storage), "{size}: the bytes pass the service");
        assert!(target.download_url.starts_with(storage), "{size}: the permanent URL is of the store");
        assert_eq!(target.is_put(), size > 5_242_880);
        let verdict = bench.upload(&target, bytes.clone()).await?;
        assert!(verdict.is_success(), "{size}: {verdict:?}");

        let response = bench.http.get(&target.download_url).send().await?;
        assert_eq!(response.status(), 200, "{size}");
        assert_eq!(response.headers()[CONTENT_TYPE], "application/x-whole");
        assert_eq!(response.headers()[CONTENT_LENGTH], size.to_string());
        assert!(response.bytes().await? == bytes, "{size} bytes came back changed");
        let head = bench.http.head(&target.download_url).send().await?;
        assert_eq!(
            (head.status().as_u16(), &head.headers()[CONTENT_LENGTH]),
            (200, &size.to_string().parse()?)
        );
        let range = bench.http.get(&target.download_url).header("range", "bytes=0-0").send().await?;
        assert_eq!((range.status().as_u16(), range.bytes().await?.len()), (206, 1));
    }
    let statistics = bench.get(STATISTICS).await?;
    assert_eq!(statistics, json!({"total_files": 1, "total_size": 104_857_600}));
    Ok(())
}

async fn look(bench: &Bench, way: &str, url: &str) -> TestResult<bool> {
    Ok(match way {
        "listing" => bench.get(FOLDER).await?["total"] == 1,
        "statistics" => bench.get(STATISTICS).await?["total_files"] == 1,
        "get" => bench.http.get(url).send().await?.status() == 200,
        "head" => bench.http.head(url).send().await?.status() == 200,
        _ => bench.delete(url).await?.0 == 200,
    })
}

#[tokio::test]
#[ignore = "needs the object store of .ci/cluster"]
async fn a_file_is_seen_as_soon_as_it_is_uploaded_wherever_one_looks_first() -> TestResult {
    let bench = start().await?;
    for way in ["listing", "statistics", "get", "head", "delete"] {
        for size in [7, 5_242_881] {
            let target = bench.presign("seen.txt", "text/plain", size).await?;
            assert!(!look(&bench, way, &target.download_url).await?, "{way}: there is no file yet");
            assert!(bench.upload(&target, pattern(size)).await?.is_success());
            assert!(look(&bench, way, &target.download_url).await?, "{way}: {size} bytes are not seen");
            if way != "delete" {
                assert_eq!(bench.delete(&target.download_url).await?.0, 200, "{way}");
            }
            assert_eq!(bench.delete(&target.download_url).await?.0, 404);
            assert_eq!(bench.http.get(&target.download_url).send().await?.status(), 404);
            // A retry of the upload, as after a lost response, does not restore the deleted file.
            assert!(bench.upload(&target, pattern(size)).await?.is_success());
            assert_eq!(bench.http.get(&target.download_url).send().await?.status(), 404, "{way}");
            assert_eq!(bench.count().await?, 0, "{way}");
        }
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs the object store of .ci/cluster"]
async fn the_last_upload_of_a_name_wins_in_any_order_of_targets() -> TestResult {
    let bench = start().await?;
    let earlier = bench.presign("same.txt", "text/plain", 5).await?;
    let later = bench.presign("same.txt", "text/html", 6).await?;
    assert_eq!(earlier.download_url, later.download_url);
    assert!(bench.upload(&later, b"second".to_vec()).await?.is_success());
    // Dates of the store are in whole seconds.
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    assert!(bench.upload(&earlier, b"first".to_vec()).await?.is_success());
    let read = bench.http.get(&earlier.download_url).send().await?;
    assert_eq!(read.headers()[CONTENT_TYPE], "text/plain");
    assert_eq!(read.text().await?, "first");
    assert_eq!(bench.get(STATISTICS).await?, json!({"total_files": 1, "total_size": 5}));

    let next = bench.presign("same.txt", "text/plain", 4).await?;
    assert!(bench.upload(&next, b"last".to_vec()).await?.is_success());
    assert_eq!(bench.http.get(&next.download_url).send().await?.text().await?, "last");
    assert_eq!(bench.count().await?, 1);
    Ok(())
}

#[tokio::test]
#[ignore = "needs the object store of .ci/cluster"]
async fn names_in_any_language_are_ours_alone() -> TestResult {
    let bench = start().await?;
    for name in
        ["a b.txt", "costs $5 ${filename}.txt", "a+b%20c%2Fd&e=f?g#h.txt", "日本語 тест 👩‍🚀.png", "\"q\" \\b"]
    {
        for size in [3, 5_242_881] {
            let target = bench.presign(name, "text/plain; charset=utf-8", size).await?;
            let verdict = bench.upload(&target, pattern(size)).await?;
            assert!(verdict.is_success(), "{name}: {verdict:?}");
            let read = bench.http.get(&target.download_url).send().await?;
            assert_eq!(read.status(), 200, "{name}");
            assert_eq!(read.headers()[CONTENT_TYPE], "text/plain; charset=utf-8");
            assert!(read.bytes().await? == pattern(size), "{name}");
        }
        let listed = bench.get(FOLDER).await?;
        assert_eq!(listed["files"][0]["key"], format!("documents/{name}"));
        let url = listed["files"][0]["download_url"].as_str().unwrap_or_default();
        assert_eq!(bench.delete(url).await?.0, 200);
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs the object store of .ci/cluster"]
async fn a_download_has_a_permanent_url_and_saves_harmful_types() -> TestResult {
    let bench = start().await?;
    let still = over_ring(Client::builder()).no_proxy().redirect(Policy::none()).build()?;
    for (mime, is_shown) in [("image/png", true), ("text/html", false), ("image/svg+xml", false)] {
        let target = bench.presign("page", mime, 4).await?;
        assert!(bench.upload(&target, b"page".to_vec()).await?.is_success());
        let moved = still.get(&target.download_url).send().await?;
        assert_eq!(moved.status(), 302);
        assert_eq!(moved.headers()["cache-control"], "no-store");
        let location = moved.headers()["location"].to_str()?;
        assert!(location.contains("X-Amz-Expires=300"), "the URL of the store lives too long");

        for method in [Method::GET, Method::HEAD] {
            let read = bench.http.request(method, &target.download_url).send().await?;
            assert_eq!(read.headers()[CONTENT_TYPE], mime);
            let disposition = read.headers().get("content-disposition").and_then(|value| value.to_str().ok());
            assert_eq!(disposition, (!is_shown).then_some("attachment"), "{mime}");
        }
        let etag = bench.http.head(&target.download_url).send().await?.headers()["etag"].clone();
        let known = bench.http.get(&target.download_url).header("if-none-match", etag).send().await?;
        assert_eq!(known.status(), 304, "the store judges conditions");
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs the object store of .ci/cluster"]
async fn a_task_reads_its_input_from_the_store_and_writes_its_output_there() -> TestResult {
    let bench = start().await?;
    let picture = include_bytes!("../../../../models/tests/golden/color-extraction.png");
    let target = bench.presign("picture.png", "image/png", picture.len() as u64).await?;
    assert!(bench.upload(&target, picture.to_vec()).await?.is_success());
    let input = json!({ "input_image": target.download_url });
    let (status, created) =
        bench.call(Method::POST, "/api-key/model/low-light-enhancement/task", Some(input)).await?;
    assert_eq!(status, 200, "{created}");
    let task = created["data"]["data"].as_str().ok_or("no task")?.to_owned();
    let output = loop {
        let task = bench.get(&format!("/api-key/task/{task}/detail")).await?;
        match task["status"].as_str() {
            Some("success") => break task["result"]["result"]["output_image"].clone(),
            Some("failed") => return Err(task.to_string().into()),
            _ => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
        }
    };
    let url = output.as_str().ok_or("no output")?;
    assert!(url.starts_with(bench.service.storage_url()));
    let read = bench.http.get(url).send().await?;
    assert_eq!((read.status().as_u16(), &read.headers()[CONTENT_TYPE]), (200, &"image/png".parse()?));
    assert!(read.bytes().await?.starts_with(b"\x89PNG"));
    assert_eq!(bench.delete(url).await?.0, 200);
    assert_eq!(bench.http.get(url).send().await?.status(), 404);
    Ok(())
}

#[tokio::test]
#[ignore = "needs the object store of .ci/cluster"]
async fn a_page_of_any_origin_may_upload_and_read() -> TestResult {
    let bench = start().await?;
    for size in [3, 5_242_881] {
        let target = bench.presign("cors.txt", "text/plain", size).await?;
        let method = if target.is_put() { "PUT" } else { "POST" };
        let preflight = bench.http.request(Method::OPTIONS, &target.endpoint);
        let preflight = preflight.header("origin", "https://app.example");
        let preflight = preflight.header("access-control-request-method", method);
        let preflight = preflight.header("access-control-request-headers", "content-type").send().await?;
        assert!(preflight.status().is_success(), "{method}: {}", preflight.status());
        let allowed = preflight.headers()["access-control-allow-origin"].to_str()?;
        assert!(["*", "https://app.example"].contains(&allowed), "{method}: {allowed}");
        assert!(bench.upload(&target, pattern(size)).await?.is_success());
        // A browser sends the origin `null` after a redirect, which no CORS rule can name.
        let read = bench.http.get(&target.download_url).header("origin", "null").send().await?;
        assert!(read.headers().contains_key("access-control-allow-origin"), "{method}");
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs the object store of .ci/cluster"]
async fn a_bucket_belongs_to_one_database() -> TestResult {
    let mut config = Config::ephemeral();
    config.objects = crate::storage::support::bucket()?;
    let bench = Bench::with(config.clone()).await?;
    for content in ["", "kept"] {
        if !content.is_empty() {
            bench.store("kept.txt", "text/plain", content.as_bytes()).await?;
        }
        let refused = Service::start(config.clone()).await.err().ok_or("another database may use it")?;
        assert!(refused.to_string().contains("does not belong to this database"), "{refused}");
        assert!(refused.hint().is_some_and(|hint| hint.contains("another prefix")), "{refused:?}");
    }
    Ok(())
}
