//! Uploads are judged by the targets that were issued.

use reqwest::{Body, Response};
use serde_json::{Value, json};

use super::super::{Fault, Fingerprint, PRESIGNED_SECRET, Route, ScriptedService, Upload};
use super::Caller;

const LARGE: usize = 6_000_000;

fn text<'a>(target: &'a Value, name: &str) -> &'a str {
    target[name].as_str().expect("the target has the text")
}

/// The file as the last field of a form, as the target wants it.
fn form(target: &Value, file: &str) -> String {
    let fields = target["fields"].as_object().expect("fields are an object").iter();
    let fields = fields.map(|(name, value)| (name.as_str(), value.as_str().expect("a text")));
    let fields = fields.chain([("file", file)]).map(|(name, value)| {
        format!("--limit\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    });
    fields.collect::<String>() + "--limit--\r\n"
}

async fn post(caller: &Caller, target: &Value, body: String) -> Response {
    let request = caller.http.post(text(target, "endpoint")).body(body);
    let request = request.header("content-type", "multipart/form-data; boundary=limit");
    request.send().await.expect("storage answers")
}

async fn put(caller: &Caller, target: &Value, mime: &str, body: impl Into<Body>) -> Response {
    let request = caller.http.put(text(target, "endpoint")).header("content-type", mime).body(body);
    request.send().await.expect("storage answers")
}

async fn assert_refused(response: Response, code: u16, parts: &str) {
    assert_eq!(response.status(), code);
    let body = response.text().await.expect("the body is whole");
    assert!(body.contains(parts), "{body}");
}

fn last(service: &ScriptedService) -> Upload {
    service.uploads().pop().expect("something was uploaded")
}

#[tokio::test]
async fn a_small_file_goes_as_a_form_and_is_then_listed_and_deleted() {
    let service = ScriptedService::start().await;
    let caller = Caller::of(&service);
    let target = caller.presign("a street.txt", "text/plain", 7).await;
    assert!(!text(&target, "endpoint").contains("X-Amz-Algorithm"));
    assert!(text(&target["fields"], "x-amz-signature").contains(PRESIGNED_SECRET));
    assert!(text(&target["fields"], "policy").contains(PRESIGNED_SECRET));
    assert_eq!(post(&caller, &target, form(&target, "7 bytes")).await.status(), 204);

    let upload = last(&service);
    assert_eq!((upload.method.as_str(), upload.fields.last().map(String::as_str)), ("POST", Some("file")));
    assert_eq!((upload.file.first.as_slice(), upload.file.length, upload.stored), (&b"7 bytes"[..], 7, true));
    assert!(upload.headers.iter().all(|(name, _)| name != "x-api-key"));
    assert!(!upload.is_chunked && upload.content_length.is_some());

    let url = text(&target, "download_url");
    let file = caller.http.get(url).send().await.expect("storage answers");
    assert_eq!((file.status().as_u16(), file.text().await.expect("whole").as_str()), (200, "7 bytes"));
    let (_, page) = caller.get("/api-key/storage/upload/samples?page=1&pageSize=5&type=text").await;
    assert_eq!((&page["data"]["total"], &page["data"]["total_pages"]), (&json!(1), &json!(1)));
    assert_eq!(page["data"]["files"][0]["key"], "samples/a street.txt");
    let (_, statistics) = caller.get("/api-key/storage/upload/statistics").await;
    assert_eq!(statistics["data"], json!({"total_files": 1, "total_size": 7}));

    let body = json!({"url": url});
    assert_eq!(caller.delete("/api-key/storage/store/url", Some(&body)).await.0, 200);
    assert_eq!(caller.delete("/api-key/storage/store/url", Some(&body)).await.0, 404);
    assert_refused(caller.http.get(url).send().await.expect("storage answers"), 404, "NoSuchKey").await;
}

#[tokio::test]
async fn a_large_file_is_put_and_not_kept_when_the_test_does_not_want_it() {
    let service = ScriptedService::start().await;
    let caller = Caller::of(&service);
    service.keep_first(1024);
    let target = caller.presign("street.mp4", "video/mp4", LARGE as u64).await;
    let endpoint = text(&target, "endpoint");
    assert!(endpoint.contains("X-Amz-Algorithm") && endpoint.contains(PRESIGNED_SECRET));
    assert_eq!(target["fields"], json!({"Content-Type": "video/mp4"}));
    let bytes = vec![7; LARGE];
    let fingerprint = Fingerprint::of(&bytes);
    let response = put(&caller, &target, "video/mp4", bytes).await;
    assert_eq!(response.headers()["etag"], format!("\"{fingerprint}\""));

    let upload = last(&service);
    assert_eq!((upload.method.as_str(), upload.file.length), ("PUT", LARGE as u64));
    assert_eq!((upload.file.fingerprint, upload.file.first.len()), (fingerprint, 1024));
    let url = text(&target, "download_url");
    assert_refused(caller.http.get(url).send().await.expect("storage answers"), 410, "NotKept").await;
}

#[tokio::test]
async fn what_a_target_does_not_allow_is_refused() {
    let service = ScriptedService::start().await;
    let caller = Caller::of(&service);
    let small = caller.presign("a.txt", "text/plain", 1).await;
    let large = caller.presign("a.mp4", "video/mp4", LARGE as u64).await;
    let mut forged = small.clone();
    forged["fields"]["policy"] = json!("another");
    let last_field_missing = form(&small, "1").replace("name=\"file\"", "name=\"data\"");
    assert_refused(post(&caller, &small, form(&small, "22")).await, 400, "EntityTooLarge").await;
    assert_refused(post(&caller, &small, form(&forged, "1")).await, 403, "Invalid according to Policy").await;
    assert_refused(post(&caller, &small, last_field_missing).await, 400, "must be the last field").await;
    assert_refused(put(&caller, &large, "video/ogg", "1").await, 403, "SignatureDoesNotMatch").await;
    assert_refused(put(&caller, &small, "text/plain", "1").await, 403, "Access denied").await;

    let with_key = caller.http.put(text(&large, "endpoint")).header("x-api-key", service.key()).body("1");
    assert_refused(with_key.send().await.expect("storage answers"), 400, "x-api-key").await;
    let empty = caller.http.post(text(&small, "endpoint")).body("no form");
    assert_refused(empty.send().await.expect("storage answers"), 403, "Access denied").await;
    assert!(service.uploads().iter().all(|upload| !upload.stored));
}

#[tokio::test]
async fn an_expired_target_is_refused_until_another_is_issued() {
    let service = ScriptedService::start().await;
    let caller = Caller::of(&service);
    let expired = "<Error><Code>AccessDenied</Code><Message>Request has expired</Message>";
    let target = caller.presign("a.txt", "text/plain", 1).await;
    service.expire_targets();
    assert_refused(post(&caller, &target, form(&target, "1")).await, 403, expired).await;
    service.issue_expired_targets(1);
    let target = caller.presign("a.txt", "text/plain", 1).await;
    assert_refused(post(&caller, &target, form(&target, "1")).await, 403, expired).await;
    let target = caller.presign("a.txt", "text/plain", 1).await;
    assert_eq!(post(&caller, &target, form(&target, "1")).await.status(), 204);
}

#[tokio::test]
async fn only_files_that_can_be_stored_get_a_target() {
    let service = ScriptedService::start().await;
    let caller = Caller::of(&service);
    for (field, value) in
        [("size", json!(0)), ("size", json!(104_857_601)), ("folder", json!("attic")), ("name", json!(null))]
    {
        let mut body = json!({"folder": "samples", "name": "a", "mime": "text/plain", "size": 104_857_600});
        body[field] = value;
        assert_eq!(caller.post("/api-key/storage/upload/create-presigned-url", body).await.0, 400);
    }
    for (size, is_put) in [(5_242_880, false), (5_242_881, true)] {
        let target = caller.presign("a.txt", "text/plain", size).await;
        assert_eq!(text(&target, "endpoint").contains("X-Amz-Algorithm"), is_put);
    }
}

#[tokio::test]
async fn an_upload_that_breaks_off_can_be_repeated() {
    let service = ScriptedService::start().await;
    let caller = Caller::of(&service);
    let target = caller.presign("a.mp4", "video/mp4", LARGE as u64).await;
    service.fault(Route::StorageUpload, Fault::CloseMidBody).await;
    service.fault(Route::StorageUpload, Fault::html_page(503)).await;
    let request = caller.http.put(text(&target, "endpoint")).header("content-type", "video/mp4");
    assert!(request.body(vec![1; LARGE]).send().await.is_err());
    assert_eq!(service.journal().pop().map(|entry| entry.body_length), Some(LARGE as u64 / 2));
    assert_eq!(put(&caller, &target, "video/mp4", vec![1; LARGE]).await.status(), 503);
    assert_eq!(put(&caller, &target, "video/mp4", vec![1; LARGE]).await.status(), 200);
    let stored: Vec<_> = service.uploads().iter().map(|upload| upload.stored).collect();
    assert_eq!(stored, [false, true], "what broke off did not arrive");
}
