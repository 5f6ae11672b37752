//! Listing, counting and deleting files.

use reqwest::Method;
use serde_json::{Value, json};

use super::support::{Bench, TestResult};

async fn store_in(bench: &Bench, folder: &str, name: &str, mime: &str, bytes: &[u8]) -> TestResult<String> {
    let body = json!({"folder": folder, "mime": mime, "name": name, "size": bytes.len()});
    let target = bench.presign_with(body).await?;
    assert!(bench.upload(&target, bytes.to_vec()).await?.is_success());
    Ok(target.download_url)
}

fn keys(page: &Value) -> Vec<&str> {
    let files = page["files"].as_array().map(Vec::as_slice).unwrap_or_default();
    files.iter().filter_map(|file| file["key"].as_str()).collect()
}

#[tokio::test]
async fn a_folder_is_listed_page_by_page_oldest_first() -> TestResult {
    let bench = Bench::start().await?;
    for number in 0..12 {
        store_in(&bench, "samples", &format!("{number}.txt"), "text/plain", b"x").await?;
    }
    store_in(&bench, "covers", "other.png", "image/png", b"x").await?;
    let first = bench.get("/api-key/storage/upload/samples").await?;
    assert_eq!((&first["total"], &first["total_pages"]), (&json!(12), &json!(2)));
    assert_eq!(
        (keys(&first).len(), keys(&first)[0], keys(&first)[9]),
        (10, "samples/0.txt", "samples/9.txt")
    );
    let second = bench.get("/api-key/storage/upload/samples?page=2").await?;
    assert_eq!(keys(&second), ["samples/10.txt", "samples/11.txt"]);
    for alias in ["pageSize", "page_size"] {
        let page = bench.get(&format!("/api-key/storage/upload/samples?page=3&{alias}=5")).await?;
        assert_eq!(keys(&page), ["samples/10.txt", "samples/11.txt"], "{alias}");
        assert_eq!(page["total_pages"], 3);
    }
    let behind = bench.get("/api-key/storage/upload/samples?page=99").await?;
    assert_eq!((keys(&behind).len(), &behind["total"]), (0, &json!(12)));
    let unknown = bench.get("/api-key/storage/upload/nothing-here").await?;
    assert_eq!(unknown, json!({"files": [], "total": 0, "total_pages": 0}));
    for query in ["page=0", "page=-1", "page=x", "pageSize=0", "pageSize=1001", "type=font"] {
        let path = format!("/api-key/storage/upload/samples?{query}");
        let (status, response) = bench.call(reqwest::Method::GET, &path, None).await?;
        assert_eq!((status, &response["status"]), (422, &json!("fail")), "{query}");
    }
    Ok(())
}

#[tokio::test]
async fn a_listing_can_be_narrowed_to_a_kind_of_files() -> TestResult {
    let bench = Bench::start().await?;
    for (name, mime) in [
        ("a", "image/png"),
        ("b", "IMAGE/GIF"),
        ("c", "audio/ogg"),
        ("d", "video/mp4"),
        ("e", "application/pdf"),
        ("f", "text/plain; charset=utf-8"),
        ("g", "font/woff2"),
    ] {
        store_in(&bench, "covers", name, mime, b"x").await?;
    }
    for (category, expected) in [
        ("image", &["covers/a", "covers/b"][..]),
        ("audio", &["covers/c"]),
        ("video", &["covers/d"]),
        ("application", &["covers/e"]),
        ("text", &["covers/f"]),
    ] {
        let page = bench.get(&format!("/api-key/storage/upload/covers?type={category}&pageSize=1")).await?;
        assert_eq!((keys(&page), page["total"].as_u64()), (vec![expected[0]], Some(expected.len() as u64)));
        assert_eq!(page["total_pages"], expected.len());
    }
    assert_eq!(bench.get("/api-key/storage/upload/covers").await?["total"], 7);
    Ok(())
}

#[tokio::test]
async fn a_file_is_shown_with_everything_that_is_known_of_it() -> TestResult {
    let bench = Bench::start().await?;
    let url = store_in(&bench, "avatars", "me ü.png", "image/png", b"pixels").await?;
    let page = bench.get("/api-key/storage/upload/avatars").await?;
    let file = &page["files"][0];
    assert_eq!(file["download_url"], url);
    assert_eq!((&file["folder"], &file["key"]), (&json!("avatars"), &json!("avatars/me ü.png")));
    assert_eq!((&file["mime"], &file["size"]), (&json!("image/png"), &json!(6)));
    assert_eq!((&file["status"], &file["is_expired"]), (&json!(true), &json!(false)));
    assert!(file["id"].as_str().is_some_and(|id| !id.is_empty()));
    assert!(file["created_at"].as_str().is_some_and(|at| at.ends_with('Z') && at.contains('T')));
    Ok(())
}

#[tokio::test]
async fn statistics_count_what_is_stored_now() -> TestResult {
    let bench = Bench::start().await?;
    let statistics = || bench.get("/api-key/storage/upload/statistics");
    assert_eq!(statistics().await?, json!({"total_files": 0, "total_size": 0}));
    let url = store_in(&bench, "covers", "a", "image/png", b"12345").await?;
    store_in(&bench, "samples", "a", "text/plain", b"123").await?;
    assert_eq!(statistics().await?, json!({"total_files": 2, "total_size": 8}));
    bench.presign("never-uploaded", "text/plain", 100).await?;
    assert_eq!(bench.delete(&url).await?.0, 200);
    assert_eq!(statistics().await?, json!({"total_files": 1, "total_size": 3}));
    assert_eq!(bench.service.audit().await?.faults, [""; 0]);
    Ok(())
}

#[tokio::test]
async fn a_file_is_deleted_by_its_url_once() -> TestResult {
    let bench = Bench::start().await?;
    let url = bench.store("to delete $.txt", "text/plain", b"x").await?;
    let (status, response) = bench.delete(&url).await?;
    assert_eq!((status, &response["status"], response.get("data")), (200, &json!("success"), None));
    assert_eq!(bench.http.get(&url).send().await?.status(), 404);
    assert_eq!(bench.count().await?, 0);
    let (status, response) = bench.delete(&url).await?;
    assert_eq!((status, &response["status"]), (404, &json!("fail")));

    let url = bench.store("to delete $.txt", "text/plain", b"x").await?;
    let other = url.replace("%20", " ").replace("%24", "$");
    assert_ne!(url, other);
    assert_eq!(bench.delete(&format!("{other}?x=1")).await?.0, 200, "a download ignores the query, too");
    for foreign in ["", "/", "https://example.com/a/b", &url, "documents/to delete $.txt"] {
        assert_eq!(bench.delete(foreign).await?.0, 404, "{foreign}");
    }
    Ok(())
}

#[tokio::test]
async fn a_page_that_no_list_has_is_refused_with_the_range() -> TestResult {
    let bench = Bench::start().await?;
    let size = "pageSize must lie between 1 and 1000";
    for (path, message) in [
        ("storage/upload/samples?page=0", "page must lie between 1 and 9223372036854775807"),
        ("storage/upload/samples?page=-1", "page must lie between 1 and 9223372036854775807"),
        ("storage/upload/samples?pageSize=-1", size),
        ("storage/upload/samples?pageSize=1001", size),
        ("task/histories?limit=-1", "limit must lie between 1 and 100"),
        ("task/histories?limit=4294967296", "limit must lie between 1 and 100"),
    ] {
        let (status, response) = bench.call(Method::GET, &format!("/api-key/{path}"), None).await?;
        assert_eq!((status, &response["message"]), (422, &json!(message)), "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn a_long_url_of_no_file_is_shown_as_cut() -> TestResult {
    let bench = Bench::start().await?;
    let url = format!("https://example.com/{}", "a".repeat(100));
    let (status, response) = bench.delete(&url).await?;
    let message = format!("there is no file \"{}…\" that you may see", &url[..80]);
    assert_eq!((status, &response["message"]), (404, &json!(message)));
    Ok(())
}
