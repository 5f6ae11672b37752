//! Refused uploads, with S3's error codes, and without leftover files.

use std::fmt::Display;
use std::time::Duration;

use futures_util::stream;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::support::{Bench, Target, TestResult, Verdict, file_part, pattern, verdict};

const LARGE: u64 = 5_242_881;

#[derive(Default)]
struct Refusals(String);

impl Refusals {
    fn add(&mut self, what: impl Display, verdict: &Verdict) {
        assert!(!verdict.is_success(), "{what}");
        self.0 += &format!("{what}: {verdict}\n");
    }
}

fn wrong(signature: &str) -> String {
    let last = if signature.ends_with('0') { '1' } else { '0' };
    format!("{}{last}", signature.get(..63).unwrap_or_default())
}

#[tokio::test]
async fn a_put_to_another_spelling_of_the_signed_path_is_refused() -> TestResult {
    let bench = Bench::start().await?;
    let target = bench.presign("put.bin", "x/y", LARGE).await?;
    let (host, path) =
        target.endpoint.trim_start_matches("http://").split_once('/').ok_or("a URL with a path")?;
    let (path, query) = path.split_once('?').ok_or("a signed URL")?;
    let (folder, name) = path.rsplit_once('/').ok_or("a path with a folder")?;
    for spelling in ["./", "%2e/", "x/../", "%2e%2e/"] {
        let mut stream = TcpStream::connect(host).await?;
        let head = format!(
            "PUT /{folder}/{spelling}{name}?{query} HTTP/1.1\r\nhost: {host}\r\ncontent-type: x/y\r\n\
             content-length: {LARGE}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await?;
        let mut response = vec![0; 1024];
        let read = tokio::time::timeout(Duration::from_secs(10), stream.read(&mut response)).await??;
        let response = String::from_utf8_lossy(&response[..read]).into_owned();
        assert!(response.starts_with("HTTP/1.1 403 "), "{spelling}: {response}");
    }
    Ok(())
}

#[tokio::test]
async fn a_form_that_is_not_the_one_that_was_signed_is_refused() -> TestResult {
    let bench = Bench::start().await?;
    let target = bench.presign("form.txt", "text/plain", 100).await?;
    let bytes = pattern(100);
    let policy = target.field("policy").to_owned();
    let other = bench.presign("other.txt", "text/plain", 101).await?;
    let cases = [
        ("a wrong signature", "x-amz-signature", &*wrong(target.field("x-amz-signature"))),
        ("a zero signature", "x-amz-signature", &"0".repeat(64)),
        ("a short signature", "x-amz-signature", "ab"),
        ("a changed policy", "policy", &format!("{policy}Cg==")),
        ("the policy of another target", "policy", other.field("policy")),
        ("another day", "x-amz-date", "20200101T000000Z"),
        ("another region", "x-amz-credential", "inferstore/20200101/eu/s3/aws4_request"),
        ("another access key", "x-amz-credential", "root/20200101/us-east-1/s3/aws4_request"),
        ("another algorithm", "x-amz-algorithm", "none"),
        ("a changed key", "key", "documents/other.txt"),
        ("a key outside its folder", "key", "documents/../../inferstore.db"),
        ("a changed type", "Content-Type", "text/html"),
        ("another target", "x-amz-meta-target", other.field("x-amz-meta-target")),
        ("a further field", "acl", "public-read"),
        ("a redirect", "success_action_redirect", "http://example.com"),
        ("another bucket", "bucket", "files-other"),
    ];
    let mut refusals = Refusals::default();
    for (what, field, value) in cases {
        refusals.add(what, &bench.post(&target.with_field(field, value), &bytes).await?);
        assert_eq!(bench.count().await?, 0, "{what}");
    }
    for name in target.fields.keys() {
        let mut target = target.clone();
        target.fields.remove(name);
        refusals.add(format!("without {name}"), &bench.post(&target, &bytes).await?);
    }
    for size in [99, 101, 0, 1 << 20] {
        refusals.add(format!("{size} bytes"), &bench.post(&target, &pattern(size)).await?);
    }
    insta::assert_snapshot!(refusals.0);
    assert_eq!(bench.count().await?, 0);
    assert!(bench.post(&target, &bytes).await?.is_success());
    Ok(())
}

#[tokio::test]
async fn a_form_in_disorder_is_refused() -> TestResult {
    let bench = Bench::start().await?;
    let target = bench.presign("form.txt", "text/plain", 4).await?;
    let file = file_part("Content-Disposition: form-data; name=\"file\"; filename=\"f\"", b"file");
    let fields = target.field_parts();
    let whole = target.form(b"file");
    let many_fields =
        [b"--edge\r\nContent-Disposition: form-data; name=\"x-ignore-a\"\r\n\r\n", &pattern(1 << 20)[..]]
            .concat();
    let cases = [
        ("the file before the fields", [&file, &fields[..], b"--edge--\r\n"].concat()),
        ("no file", [&fields[..], b"--edge--\r\n"].concat()),
        ("a field twice", [&fields[..], &fields, &file, b"--edge--\r\n"].concat()),
        ("cut in the file", whole[..whole.len() - 14].to_vec()),
        ("no form at all", b"no form at all".to_vec()),
        ("nothing", Vec::new()),
        ("a megabyte of fields", many_fields),
    ];
    let mut refusals = Refusals::default();
    for (what, form) in cases {
        refusals.add(what, &bench.post_form(&target, &form, HeaderMap::new()).await?);
        assert_eq!(bench.count().await?, 0, "{what}");
    }
    let posted = bench.http.post(&target.endpoint).header(CONTENT_TYPE, "text/plain").body("text");
    refusals.add("another type", &verdict(posted.send().await?).await?);
    insta::assert_snapshot!(refusals.0);
    Ok(())
}

fn replaced(target: &Target, from: &str, to: &str) -> TestResult<Target> {
    let endpoint = target.endpoint.replace(from, to);
    if endpoint == target.endpoint {
        return Err(format!("{from} is not in the URL").into());
    }
    Ok(Target { endpoint, ..target.clone() })
}

#[tokio::test]
async fn a_signed_url_that_was_changed_is_refused() -> TestResult {
    let bench = Bench::start().await?;
    let target = bench.presign("large.bin", "application/x-large", LARGE).await?;
    let other = bench.presign("other.bin", "application/x-large", LARGE).await?;
    let query = |target: &Target, name: &str| {
        let value = target.endpoint.split(['?', '&']).find_map(|pair| pair.strip_prefix(&format!("{name}=")));
        value.unwrap_or_default().to_owned()
    };
    let signature = query(&target, "X-Amz-Signature");
    let cases = [
        ("a wrong signature", &*signature, &*wrong(&signature)),
        ("a zero signature", &signature, &"0".repeat(64)),
        ("the signature of another", &signature, &query(&other, "X-Amz-Signature")),
        ("a changed key", "large.bin", "other.bin"),
        ("a key in another folder", "/documents/", "/documents/..%2f"),
        ("another bucket", "/files-", "/files-x"),
        ("a longer life", "X-Amz-Expires=900", "X-Amz-Expires=901"),
        ("another target", &query(&target, "x-target"), &query(&other, "x-target")),
        ("a further parameter", "?", "?acl&"),
        ("fewer signed headers", "content-length%3B", ""),
        ("another access key", "inferstore%2F", "root%2F"),
        ("no signature", "X-Amz-Signature=", "Nothing="),
        ("an old signature", "X-Amz-Signature=", "Signature="),
    ];
    let mut refusals = Refusals::default();
    for (what, from, to) in cases {
        refusals.add(what, &bench.put(&replaced(&target, from, to)?, pattern(LARGE)).await?);
        assert_eq!(bench.count().await?, 0, "{what}");
    }
    refusals.add(
        "a changed type",
        &bench.put(&target.with_field("Content-Type", "text/html"), pattern(LARGE)).await?,
    );
    for size in [1, LARGE - 1, LARGE + 1, 4 * LARGE] {
        refusals.add(format!("{size} bytes"), &bench.put(&target, pattern(size)).await?);
    }
    let posted = bench.http.post(&target.endpoint).header(CONTENT_TYPE, "application/x-large");
    refusals.add("another method", &verdict(posted.body(pattern(LARGE)).send().await?).await?);
    insta::assert_snapshot!(refusals.0);
    assert_eq!(bench.count().await?, 0);
    assert!(bench.put(&target, pattern(LARGE)).await?.is_success());
    Ok(())
}

#[tokio::test]
async fn a_second_credential_is_refused_in_both_ways_of_uploading() -> TestResult {
    let bench = Bench::start().await?;
    let form = bench.presign("form.txt", "text/plain", 4).await?;
    let put = bench.presign("put.bin", "text/plain", LARGE).await?;
    let header = |name: &'static str, value: &'static str| {
        HeaderMap::from_iter([(
            reqwest::header::HeaderName::from_static(name),
            HeaderValue::from_static(value),
        )])
    };
    let mut refusals = Refusals::default();
    for (name, value) in [
        ("x-api-key", "isk_a_b"),
        (AUTHORIZATION.as_str(), "Bearer abc"),
        (AUTHORIZATION.as_str(), "AWS4-HMAC-SHA256 Credential=a/b/c/s3/aws4_request"),
    ] {
        let what = format!("{name}: {value}");
        let headers = header(name, value);
        refusals.add(&what, &bench.post_form(&form, &form.form(b"file"), headers.clone()).await?);
        let request = bench.http.put(&put.endpoint).headers(headers).header(CONTENT_TYPE, "text/plain");
        refusals.add(&what, &verdict(request.body(pattern(LARGE)).send().await?).await?);
    }
    insta::assert_snapshot!(refusals.0);
    assert_eq!(bench.count().await?, 0);
    Ok(())
}

#[tokio::test]
async fn an_upload_without_a_length_is_refused() -> TestResult {
    let bench = Bench::start().await?;
    let form = bench.presign("form.txt", "text/plain", 4).await?;
    let put = bench.presign("put.bin", "text/plain", LARGE).await?;
    let chunked = |bytes: Vec<u8>| reqwest::Body::wrap_stream(stream::iter([Ok::<_, std::io::Error>(bytes)]));
    let request =
        bench.http.put(&put.endpoint).header(CONTENT_TYPE, "text/plain").body(chunked(pattern(LARGE)));
    assert_eq!(verdict(request.send().await?).await?.code, "MissingContentLength");
    let request = bench.http.post(&form.endpoint).header(CONTENT_TYPE, "multipart/form-data; boundary=edge");
    let request = request.body(chunked(form.form(b"file")));
    assert_eq!(verdict(request.send().await?).await?.code, "MissingContentLength");
    assert_eq!(bench.count().await?, 0);
    Ok(())
}

#[tokio::test]
async fn headers_that_would_change_an_upload_and_are_not_signed_are_refused() -> TestResult {
    let bench = Bench::start().await?;
    let put = bench.presign("put.bin", "text/plain", LARGE).await?;
    let mut refusals = Refusals::default();
    for (name, value) in [
        ("x-amz-acl", "public-read"),
        ("x-amz-copy-source", "files/other"),
        ("x-amz-meta-target", "other"),
        ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"),
        ("content-md5", "AAAAAAAAAAAAAAAAAAAAAA=="),
        ("if-none-match", "*"),
    ] {
        let request = bench.http.put(&put.endpoint).header(CONTENT_TYPE, "text/plain").header(name, value);
        refusals.add(format!("{name}: {value}"), &verdict(request.body(pattern(LARGE)).send().await?).await?);
        assert_eq!(bench.count().await?, 0, "{name}");
    }
    insta::assert_snapshot!(refusals.0);
    Ok(())
}

#[tokio::test]
async fn an_expired_target_is_refused() -> TestResult {
    let mut config = inferstore_service::Config::ephemeral();
    config.target_life = Duration::from_millis(1);
    let bench = Bench::with(config).await?;
    let form = bench.presign("form.txt", "text/plain", 4).await?;
    let put = bench.presign("put.bin", "text/plain", LARGE).await?;
    tokio::time::sleep(Duration::from_millis(5)).await;
    let mut refusals = Refusals::default();
    refusals.add("a form", &bench.post(&form, b"file").await?);
    refusals.add("a signed URL", &bench.put(&put, pattern(LARGE)).await?);
    insta::assert_snapshot!(refusals.0);
    assert_eq!(bench.count().await?, 0);
    Ok(())
}
