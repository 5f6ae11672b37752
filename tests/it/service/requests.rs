//! Malformed bodies and queries.

use reqwest::Method;
use serde_json::json;

use super::{MODEL, Refusals, an_input, start};
use crate::support::caller::Odd;

const LIST: &str = "/api-key/model/list";
const PRESIGN: &str = "/api-key/storage/upload/create-presigned-url";

fn create() -> String {
    format!("/api-key/model/{MODEL}/task")
}

#[tokio::test]
async fn a_body_that_is_no_json_is_refused() {
    let (_service, caller) = start().await;
    let mut refusals = Refusals::default();
    for body in ["", " ", "{", "{]", "{\"a\": }", "{} {}", "{\"a\": 1,}", "'", "\u{feff}{}", "{\"a\": NaN}"] {
        refusals.add(format!("{body:?}"), &caller.post_text(LIST, body).await);
        for path in [create(), format!("/model/{MODEL}/task")] {
            caller.post_text(&path, body).await.refusal(400);
        }
    }
    refusals.add("no UTF-8", &caller.post_text(LIST, b"{\"search\": \"\xff\"}".to_vec()).await);
    insta::assert_snapshot!(refusals.0);
}

#[tokio::test]
async fn json_of_a_wrong_shape_is_refused() {
    let (_service, caller) = start().await;
    let mut refusals = Refusals::default();
    for body in ["null", "true", "1", "\"{}\"", "\"x\"", "[[]]", "[]", "[5, 0, null, null, null]"] {
        refusals.add(body, &caller.post_text(LIST, body).await);
        refusals.add(format!("{body} as the inputs of a task"), &caller.post_text(&create(), body).await);
    }
    for body in [
        json!({ "limit": "10" }),
        // What the caller sent stays as it is.
        json!({ "limit": "expected i64 at line 5" }),
        json!({ "limit": 1.5 }),
        json!({ "limit": -1 }),
        json!({ "limit": 0 }),
        json!({ "limit": 101 }),
        json!({ "limit": 4_294_967_296_u64 }),
        json!({ "limit": 1e30 }),
        json!({ "offset": -1 }),
        json!({ "offset": "0" }),
        json!({ "offset": 9_223_372_036_854_775_808_u64 }),
        json!({ "search": 5 }),
        json!({ "search": ["x"] }),
        json!({ "sort": 1 }),
        json!({ "sort": "Likes" }),
        json!({ "sort": "likes " }),
        json!({ "filter_by": {} }),
        json!({ "filter_by": "" }),
        json!({ "limit": null }),
        json!({ "offset": null }),
        json!({ "search": null }),
        json!({ "sort": null }),
        json!({ "filter_by": null }),
    ] {
        refusals.add(&body, &caller.post(LIST, &body).await);
    }
    let file =
        json!({ "folder": "samples", "mime": "image/png", "name": "a.png", "size": 1, "org_username": null });
    refusals.add("org_username: null", &caller.post(PRESIGN, &file).await);
    insta::assert_snapshot!(refusals.0);
}

#[tokio::test]
async fn a_body_that_does_not_say_that_it_is_json_is_refused() {
    let (_service, caller) = start().await;
    for kind in [None, Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("json"), Some("")]
    {
        for path in [LIST, &create()] {
            let odd = Odd {
                headers: kind.map(|kind| ("content-type", kind)).into_iter().collect(),
                body: Some(an_input().to_string().into_bytes()),
            };
            caller.send(Method::POST, path, odd).await.refusal(415);
        }
    }
    for kind in ["application/json; charset=utf-8", "Application/JSON", "application/vnd.api+json"] {
        let odd = Odd { headers: vec![("content-type", kind)], body: Some(b"{}".to_vec()) };
        caller.send(Method::POST, LIST, odd).await.data();
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let (_service, caller) = start().await;
    for size in [1 << 20, (1 << 20) + 1, 4 << 20] {
        let body = format!("{{\"search\": \"{}\"}}", "x".repeat(size - 14));
        assert_eq!(body.len(), size);
        let answer = caller.post_text(LIST, body.clone()).await;
        if size == 1 << 20 {
            assert_eq!(answer.data()["total"], 0);
        } else {
            assert!(answer.refusal(413).contains("1048576"));
            caller.post_text(&create(), body).await.refusal(413);
        }
    }
}

#[tokio::test]
async fn json_that_is_nested_deeply_is_refused() {
    let (_service, caller) = start().await;
    for depth in [200, 100_000] {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let inner = if open == "[" { "" } else { "1" };
            let deep = format!("{}{inner}{}", open.repeat(depth), close.repeat(depth));
            for (path, body) in [
                (LIST, format!("[{deep}]")),
                (LIST, format!("{{\"search\": {deep}}}")),
                (&create(), deep.clone()),
                (&create(), format!("{{\"input\": {deep}}}")),
            ] {
                let answer = caller.post_text(path, body).await;
                assert!(matches!(answer.status, 400 | 413 | 422), "{path} {depth}: {answer:?}");
                assert!(answer.refusal(answer.status).len() < 500);
            }
            caller.post_text(LIST, format!("{{\"unknown\": {deep}}}")).await.data();
        }
    }
}

#[tokio::test]
async fn a_history_is_refused_for_a_query_that_makes_no_sense() {
    let (_service, caller) = start().await;
    let mut refusals = Refusals::default();
    for query in [
        "limit=0",
        "limit=101",
        "limit=-1",
        "limit=x",
        "limit=",
        "limit=1.5",
        "offset=-1",
        "offset=x",
        "offset=",
        "limit=99999999999999999999",
        "limit=10&limit=20",
    ] {
        refusals.add(query, &caller.get(&format!("/api-key/task/histories?{query}")).await);
    }
    insta::assert_snapshot!(refusals.0);
    for query in ["limit=1", "limit=100", "offset=0", "offset=9223372036854775807", "unknown=1", ""] {
        assert_eq!(
            caller.get(&format!("/api-key/task/histories?{query}")).await.data()["total"],
            0,
            "{query}"
        );
    }
}

#[tokio::test]
async fn the_page_size_of_files_has_the_second_name_of_the_description() {
    let (_service, caller) = start().await;
    for name in ["pageSize", "page_size"] {
        let page = |size: u32| format!("/api-key/storage/upload/samples?{name}={size}");
        caller.get(&page(1)).await.data();
        assert!(caller.get(&page(0)).await.refusal(422).contains("pageSize"), "{name}");
    }
}
