//! Valid uploads, and the resulting files.

use inferstore_service::{Config, Service};
use reqwest::Method;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap, LAST_MODIFIED};

use super::support::{Bench, TestResult, bucket, client, file_part, pattern};

#[tokio::test]
async fn files_of_every_size_up_to_the_largest_arrive_as_they_were_sent() -> TestResult {
    let bench = Bench::start().await?;
    for (size, is_put) in [(1, false), (5_242_880, false), (5_242_881, true), (104_857_600, true)] {
        let bytes = pattern(size);
        let target = bench.presign("whole.bin", "application/octet-stream", size).await?;
        assert_eq!(target.is_put(), is_put, "{size}");
        let verdict = bench.upload(&target, bytes.clone()).await?;
        assert!(verdict.is_success(), "{size}: {verdict:?}");

        let response = bench.http.get(&target.download_url).send().await?;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()[CONTENT_TYPE], "application/octet-stream");
        assert!(response.headers().contains_key(LAST_MODIFIED) && response.headers().contains_key(ETAG));
        assert_eq!(response.headers()[CONTENT_LENGTH], size.to_string());
        assert!(response.bytes().await? == bytes, "{size} bytes came back changed");
    }
    assert_eq!(bench.count().await?, 1);
    Ok(())
}

const NAMES: [&str; 8] = [
    "plain.txt",
    "with spaces and  two.txt",
    "costs $5 ${filename} $key.txt",
    "a+b%20c%2Fd&e=f?g#h;i,j@k:l!m(n)*o'p.txt",
    "\"quoted\" \\back\\slash\\.txt",
    "日本語 тест ελληνικά עברית 👩‍🚀.png",
    "..hidden",
    "~-_.%2e%2e",
];

#[tokio::test]
async fn names_in_any_language_and_with_any_sign_work_in_both_ways_of_uploading() -> TestResult {
    let bench = Bench::start().await?;
    let long = "ü".repeat((1_024 - "documents/".len()) / 2);
    for name in NAMES.into_iter().chain([long.as_str()]) {
        for size in [3, 5_242_881] {
            let bytes = pattern(size);
            let url =
                bench.store(name, "text/plain", &bytes).await.map_err(|cause| format!("{name}: {cause}"))?;
            let response = bench.http.get(&url).send().await?;
            assert_eq!(response.status(), 200, "{name}: {url}");
            assert!(response.bytes().await? == bytes, "{name}");
        }
        let listed = bench.get("/api-key/storage/upload/documents").await?;
        assert_eq!(listed["files"][0]["key"], format!("documents/{name}"));
        let url = listed["files"][0]["download_url"].as_str().unwrap_or_default().to_owned();
        assert_eq!(bench.delete(&url).await?.0, 200, "{url}");
        assert_eq!(bench.count().await?, 0, "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn a_name_and_another_below_it_live_side_by_side() -> TestResult {
    let bench = Bench::start().await?;
    for name in ["a", "a%2Fb", "a.", "A"] {
        bench.store(name, "text/plain", name.as_bytes()).await?;
    }
    assert_eq!(bench.count().await?, 4);
    Ok(())
}

#[tokio::test]
async fn forms_are_read_however_clients_write_them() -> TestResult {
    let bench = Bench::start().await?;
    let target = bench.presign("form.txt", "text/plain", 5).await?;
    let heads = [
        "Content-Disposition: form-data; name=\"file\"",
        "Content-Disposition: form-data; name=\"file\"; filename=\"\"\r\nContent-Type: text/plain",
        "content-disposition: form-data; name=\"file\"; filename*=utf-8''%E6%97%A5\r\ncontent-type: text/plain",
        "Content-Disposition: form-data; name=\"file\"; filename=\"a\"\r\nContent-Type: x/y\r\nContent-Length: 5",
        "Content-Type: image/png\r\nContent-Disposition: form-data; filename=\"日本.png\"; name=\"file\"",
    ];
    for head in heads {
        let form = [&target.field_parts(), &file_part(head, b"\r\n--e")[..], b"--edge--\r\n"].concat();
        let verdict = bench.post_form(&target, &form, HeaderMap::new()).await?;
        assert!(verdict.is_success(), "{head}: {verdict:?}");
        assert_eq!(bench.http.get(&target.download_url).send().await?.bytes().await?, "\r\n--e");
    }
    Ok(())
}

#[tokio::test]
async fn the_last_whole_upload_of_a_name_wins_under_the_same_url() -> TestResult {
    let bench = Bench::start().await?;
    let first = bench.store("same.txt", "text/plain", b"first").await?;
    let before = bench.get("/api-key/storage/upload/documents").await?;
    let second = bench.store("same.txt", "text/html", b"second one").await?;
    assert_eq!(first, second);
    let after = bench.get("/api-key/storage/upload/documents").await?;
    assert_eq!((after["total"].as_u64(), bench.count().await?), (Some(1), 1));
    assert_ne!(before["files"][0]["id"], after["files"][0]["id"]);
    assert_eq!(after["files"][0]["mime"], "text/html");
    let statistics = bench.get("/api-key/storage/upload/statistics").await?;
    assert_eq!(statistics["total_size"], 10);
    Ok(())
}

#[tokio::test]
async fn an_upload_with_a_lost_response_can_be_retried_while_its_file_exists() -> TestResult {
    let bench = Bench::start().await?;
    for size in [9, 5_242_881] {
        let target = bench.presign("again.bin", "application/x-again", size).await?;
        for _ in 0..2 {
            assert!(bench.upload(&target, pattern(size)).await?.is_success());
            assert_eq!(bench.count().await?, 1);
        }
        assert_eq!(bench.delete(&target.download_url).await?.0, 200);
        let refused = bench.upload(&target, pattern(size)).await?;
        assert_eq!((refused.status, refused.code.as_str()), (403, "AccessDenied"));
        assert_eq!(bench.count().await?, 0);
        assert_eq!(bench.http.get(&target.download_url).send().await?.status(), 404);
    }
    Ok(())
}

#[tokio::test]
async fn a_target_stores_the_bytes_of_its_first_upload_and_no_others() -> TestResult {
    let bench = Bench::start().await?;
    for size in [9, 5_242_881] {
        let target = bench.presign("once.bin", "application/x-once", size).await?;
        assert!(bench.upload(&target, pattern(size)).await?.is_success());
        let before = bench.get("/api-key/storage/upload/documents").await?;
        let mut others = pattern(size);
        others[4] ^= 1;
        let refused = bench.upload(&target, others).await?;
        assert_eq!((refused.status, refused.code.as_str()), (403, "AccessDenied"));
        assert!(bench.upload(&target, pattern(size)).await?.is_success());
        assert_eq!(bench.http.get(&target.download_url).send().await?.bytes().await?, pattern(size));
        assert_eq!(bench.get("/api-key/storage/upload/documents").await?, before, "the file was replaced");
        assert_eq!(bench.count().await?, 1);
    }
    Ok(())
}

#[tokio::test]
async fn a_used_target_does_not_undo_a_newer_upload_of_the_same_name() -> TestResult {
    let bench = Bench::start().await?;
    let older = bench.presign("name.txt", "text/plain", 5).await?;
    assert!(bench.upload(&older, b"older".to_vec()).await?.is_success());
    let newer = bench.presign("name.txt", "text/plain", 5).await?;
    assert!(bench.upload(&newer, b"newer".to_vec()).await?.is_success());
    let refused = bench.upload(&older, b"older".to_vec()).await?;
    assert_eq!((refused.status, refused.code.as_str()), (403, "AccessDenied"));
    assert_eq!(bench.http.get(&newer.download_url).send().await?.text().await?, "newer");
    assert!(bench.upload(&newer, b"newer".to_vec()).await?.is_success());
    assert_eq!(bench.count().await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_target_that_was_not_used_yet_outlives_the_deletion_of_its_name() -> TestResult {
    let bench = Bench::start().await?;
    let url = bench.store("name.txt", "text/plain", b"old").await?;
    let target = bench.presign("name.txt", "text/plain", 3).await?;
    assert_eq!(bench.delete(&url).await?.0, 200);
    assert!(bench.upload(&target, b"new".to_vec()).await?.is_success());
    assert_eq!(bench.count().await?, 1);
    Ok(())
}

#[tokio::test]
async fn stored_files_survive_a_restart() -> TestResult {
    let folder = tempfile::tempdir()?;
    let mut config = Config::folder(folder.path());
    config.first_account.api_key = Some("a-key-for-this-test".to_owned());
    config.objects = bucket()?;
    let bench = Bench::with(config.clone()).await?;
    let url = bench.store("kept.txt", "text/plain", b"kept").await?;
    let address = url.split('/').nth(2).and_then(|address| address.parse().ok());
    bench.service.shutdown().await;

    config.storage = address.ok_or("the URL has no address")?;
    let service = Service::start(config).await?;
    let http = client()?;
    assert_eq!(http.get(&url).send().await?.text().await?, "kept");
    service.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn browsers_may_upload_and_read_from_any_page() -> TestResult {
    let bench = Bench::start().await?;
    let target = bench.presign("page.txt", "text/plain", 4).await?;
    let asked = bench.http.request(Method::OPTIONS, &target.endpoint);
    let asked = asked.header("access-control-request-headers", "content-type").send().await?;
    assert!(asked.status().is_success());
    assert_eq!(asked.headers()["access-control-allow-origin"], "*");
    assert_eq!(asked.headers()["access-control-allow-headers"], "content-type");
    assert!(bench.upload(&target, b"page".to_vec()).await?.is_success());
    let read = bench.http.get(&target.download_url).send().await?;
    assert_eq!(read.headers()["access-control-allow-origin"], "*");
    assert_eq!(read.headers()["x-content-type-options"], "nosniff");
    Ok(())
}
