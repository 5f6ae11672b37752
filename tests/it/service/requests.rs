//! Malformed bodies and queries.

use reqwest::Method;
use serde_json::json;

use super::{MODEL, an_input, start};
use crate::support::caller::Odd;

const LIST: &str = "/api-key/model/list";
const PRESIGN: &str = "/api-key/storage/upload/create-presigned-url";

fn create() -> String {
    format!("/api-key/model/{MODEL}/task")
}

#[tokio::test]
async fn a_body_that_is_no_json_is_refused() {
    let (_service, caller) = start().await;
    for path in [LIST, &create(), &format!("/model/{MODEL}/task")] {
        for body in
            ["", " ", "{", "{]", "{\"a\": }", "{} {}", "{\"a\": 1,}", "'", "\u{feff}{}", "{\"a\": NaN}"]
        {
            caller.post_text(path, body).await.refusal(400);
        }
        caller.post_text(path, b"{\"search\": \"\xff\"}".to_vec()).await.refusal(400);
    }
}

#[tokio::test]
async fn json_of_a_wrong_shape_is_refused() {
    let (_service, caller) = start().await;
    for body in ["null", "true", "1", "\"{}\"", "\"x\"", "[[]]", "[]", "[5, 0, null, null, null]"] {
        caller.post_text(LIST, body).await.refusal(422);
        caller.post_text(&create(), body).await.refusal(422);
    }
    for body in [
        json!({ "limit": "10" }),
        json!({ "limit": 1.5 }),
        json!({ "limit": -1 }),
        json!({ "limit": 0 }),
        json!({ "limit": 101 }),
        json!({ "limit": 1e30 }),
        json!({ "offset": -1 }),
        json!({ "offset": "0" }),
        json!({ "search": 5 }),
        json!({ "search": ["x"] }),
        json!({ "sort": 1 }),
        json!({ "filter_by": {} }),
        json!({ "offset": 9_223_372_036_854_775_808_u64 }),
    ] {
        caller.post(LIST, &body).await.refusal(422);
    }
}

#[tokio::test]
async fn an_optional_field_is_left_out_and_null_is_refused() {
    let (_service, caller) = start().await;
    for field in ["limit", "offset", "search", "sort", "filter_by"] {
        caller.post(LIST, &json!({ field: null })).await.refusal(422);
    }
    let file =
        json!({ "folder": "samples", "mime": "image/png", "name": "a.png", "size": 1, "org_username": null });
    caller.post(PRESIGN, &file).await.refusal(422);
}

#[tokio::test]
async fn a_value_of_another_type_is_refused_in_the_words_of_json() {
    let (_service, caller) = start().await;
    for (body, message) in [
        (json!({ "limit": -1 }), "limit must lie between 1 and 100"),
        (json!({ "limit": 4_294_967_296_u64 }), "limit must lie between 1 and 100"),
        (json!({ "limit": 1e30 }), "limit must lie between 1 and 100"),
        (json!({ "offset": 1_u64 << 63 }), "offset must lie between 0 and 9223372036854775807"),
        (json!({ "limit": 1.5 }), "limit: invalid type: floating point `1.5`, expected a whole number"),
        (json!({ "sort": 1 }), "sort: expected a string"),
        (json!({ "search": 5 }), "search: invalid type: integer `5`, expected a string"),
    ] {
        assert_eq!(caller.post(LIST, &body).await.refusal(422), message, "{body}");
    }
    let text = json!({ "limit": "expected i64 at line 5" });
    let message = "limit: invalid type: string \"expected i64 at line 5\", expected a whole number";
    assert_eq!(caller.post(LIST, &text).await.refusal(422), message, "what the caller sent stays as it is");
    for (limit, message) in [
        ("ten", "the query: limit: expected a whole number"),
        ("", "the query: limit: expected a whole number"),
        ("99999999999999999999", "limit must lie between 1 and 100"),
    ] {
        let answer = caller.get(&format!("/api-key/task/histories?limit={limit}")).await;
        assert_eq!(answer.refusal(422), message, "{limit:?}");
    }
}

#[tokio::test]
async fn an_unknown_word_is_answered_with_the_known_ones() {
    let (_service, caller) = start().await;
    for word in ["", "newest", "Likes", "likes ", "created_newest"] {
        let answer = caller.post(LIST, &json!({ "sort": word })).await;
        let message = "sort: must be one of created_oldest, created, modified, likes, downloads, trending";
        assert_eq!(answer.refusal(422), message);
        let answer = caller.post(LIST, &json!({ "filter_by": word })).await;
        let message = "filter_by: must be one of official, public, community, author, playground, permission";
        assert_eq!(answer.refusal(422), message);
    }
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
            // Unknown fields are skipped at any depth.
            caller.post_text(LIST, format!("{{\"unknown\": {deep}}}")).await.data();
        }
    }
}

#[tokio::test]
async fn a_history_is_refused_for_a_query_that_makes_no_sense() {
    let (_service, caller) = start().await;
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
        caller.get(&format!("/api-key/task/histories?{query}")).await.refusal(422);
    }
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
