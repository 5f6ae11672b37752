//! Files are served, whole and in ranges, and uploads are read however they are framed.

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::super::{Content, Fault, Fingerprint, Route, ScriptedService};
use super::Caller;

#[tokio::test]
async fn a_file_is_served_whole_and_in_ranges() {
    let service = ScriptedService::start().await;
    let caller = Caller::of(&service);
    let url = service.store_file("samples/ten.txt", "text/plain", "0123456789");
    let etag = format!("\"{}\"", Fingerprint::of(b"0123456789"));
    for (header, value, code, body, span) in [
        ("accept", "*/*", 200, "0123456789", None),
        ("range", "bytes=2-4", 206, "234", Some("bytes 2-4/10")),
        ("range", "bytes=7-", 206, "789", Some("bytes 7-9/10")),
        ("range", "bytes=-2", 206, "89", Some("bytes 8-9/10")),
    ] {
        let response = caller.http.get(&url).header(header, value).header("if-range", &etag).send().await;
        let response = response.expect("storage answers");
        let headers = response.headers().clone();
        assert_eq!(response.status(), code);
        assert_eq!(headers["etag"], etag);
        assert_eq!(headers.get("content-range").and_then(|value| value.to_str().ok()), span);
        assert_eq!(headers["content-length"], body.len().to_string());
        assert_eq!(headers["content-type"], "text/plain");
        assert_eq!(response.text().await.expect("the body is whole"), body);
    }
    let beyond = caller.http.get(&url).header("range", "bytes=10-").send().await.expect("storage answers");
    assert_eq!(beyond.status(), 416);
    assert_eq!(beyond.headers()["content-range"], "bytes */10");
    let changed =
        caller.http.get(&url).header("range", "bytes=2-4").header("if-range", "\"old\"").send().await;
    assert_eq!(changed.expect("storage answers").status(), 200);
    let with_key = caller.http.get(&url).header("x-api-key", service.key()).send().await;
    assert_eq!(with_key.expect("storage answers").status(), 400);
    assert_eq!((service.count(Route::Download), service.count(Route::Any)), (7, 0));
}

#[tokio::test]
async fn a_large_file_is_made_while_it_is_sent() {
    let service = ScriptedService::start().await;
    let caller = Caller::of(&service);
    let content = Content::pattern(3_000_000);
    let url = service.store_file("samples/large.bin", "application/octet-stream", content.clone());
    let response = caller.http.get(&url).send().await.expect("storage answers");
    let bytes = response.bytes().await.expect("the body is whole");
    assert_eq!((bytes.len() as u64, Fingerprint::of(&bytes)), (content.length(), content.fingerprint()));
    assert_eq!(bytes[250..253], [250, 0, 1]);
    let (head, tail) = bytes.split_at(1_000);
    assert_eq!(Fingerprint::of(head).followed_by(tail), content.fingerprint());

    service.fault(Route::Download, Fault::CutBody).await;
    let cut = caller.http.get(&url).send().await.expect("the head comes");
    assert!(cut.bytes().await.is_err());
}

/// Sends bytes as they are and returns the status line of the answer.
async fn raw(target: &Value, request: &str) -> String {
    let url = target["endpoint"].as_str().expect("a URL").trim_start_matches("http://");
    let (host, path) = url.split_once('/').expect("a URL has a path");
    let mut stream = TcpStream::connect(host).await.expect("storage listens");
    stream.write_all(request.replace("PATH", path).as_bytes()).await.expect("storage reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("storage answers");
    answer.lines().next().expect("an answer has a status line").trim().to_owned()
}

#[tokio::test]
async fn an_upload_without_a_length_is_refused() {
    let service = ScriptedService::start().await;
    let caller = Caller::of(&service);
    let target = caller.presign("a.mp4", "video/mp4", 6_000_000).await;
    let head = "PUT /PATH HTTP/1.1\r\nContent-Type: video/mp4\r\nConnection: close\r\n";
    assert_eq!(raw(&target, &format!("{head}\r\n")).await, "HTTP/1.1 411");
    let chunks = "Transfer-Encoding: chunked\r\n\r\n4\r\nWiki\r\n6;x=y\r\npedia \r\n0\r\n\r\n";
    assert_eq!(raw(&target, &format!("{head}{chunks}")).await, "HTTP/1.1 501");
    let uploads = service.uploads();
    let seen = |index: usize| (uploads[index].is_chunked, uploads[index].file.first.as_slice());
    assert_eq!((seen(0), seen(1)), ((false, &b""[..]), (true, &b"Wikipedia "[..])));
}
