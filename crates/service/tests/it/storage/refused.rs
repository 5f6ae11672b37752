//! Refused uploads, with S3's error codes, and without leftover files.

use std::time::Duration;

use futures_util::stream;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::support::{Bench, Target, TestResult, Verdict, file_part, pattern, verdict};

const LARGE: u64 = 5_242_881;

fn refused(status: u16, code: &str) -> Verdict {
    Verdict { status, code: code.to_owned() }
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
    let mismatch = refused(403, "SignatureDoesNotMatch");
    let denied = refused(403, "AccessDenied");
    let cases = [
        (
            "a wrong signature",
            target.with_field("x-amz-signature", &wrong(target.field("x-amz-signature"))),
            &mismatch,
        ),
        ("a zero signature", target.with_field("x-amz-signature", &"0".repeat(64)), &mismatch),
        ("a short signature", target.with_field("x-amz-signature", "ab"), &mismatch),
        ("a changed policy", target.with_field("policy", &format!("{policy}Cg==")), &mismatch),
        ("the policy of another target", target.with_field("policy", other.field("policy")), &mismatch),
        ("another day", target.with_field("x-amz-date", "20200101T000000Z"), &mismatch),
        (
            "another region",
            target.with_field("x-amz-credential", "inferstore/20200101/eu/s3/aws4_request"),
            &mismatch,
        ),
        (
            "another access key",
            target.with_field("x-amz-credential", "root/20200101/us-east-1/s3/aws4_request"),
            &refused(403, "InvalidAccessKeyId"),
        ),
        ("another algorithm", target.with_field("x-amz-algorithm", "none"), &refused(400, "InvalidArgument")),
        ("a changed key", target.with_field("key", "documents/other.txt"), &denied),
        ("a key outside its folder", target.with_field("key", "documents/../../inferstore.db"), &denied),
        ("a changed type", target.with_field("Content-Type", "text/html"), &denied),
        ("another target", target.with_field("x-amz-meta-target", other.field("x-amz-meta-target")), &denied),
        ("a further field", target.with_field("acl", "public-read"), &denied),
        ("a redirect", target.with_field("success_action_redirect", "http://example.com"), &denied),
        ("another bucket", target.with_field("bucket", "files-other"), &denied),
    ];
    for (what, target, expected) in cases {
        assert_eq!(&bench.post(&target, &bytes).await?, expected, "{what}");
        assert_eq!(bench.count().await?, 0, "{what}");
    }
    for name in target.fields.keys() {
        let mut target = target.clone();
        target.fields.remove(name);
        assert_eq!(bench.post(&target, &bytes).await?.status, 403, "without {name}");
    }
    for (size, code) in
        [(99, "EntityTooSmall"), (101, "EntityTooLarge"), (0, "EntityTooSmall"), (1 << 20, "EntityTooLarge")]
    {
        assert_eq!(bench.post(&target, &pattern(size)).await?, refused(400, code), "{size}");
    }
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
    let cases = [
        (
            "the file before the fields",
            [&file, &fields[..], b"--edge--\r\n"].concat(),
            refused(403, "AccessDenied"),
        ),
        ("no file", [&fields[..], b"--edge--\r\n"].concat(), refused(400, "InvalidArgument")),
        (
            "a field twice",
            [&fields[..], &fields, &file, b"--edge--\r\n"].concat(),
            refused(400, "InvalidArgument"),
        ),
        ("cut in the file", whole[..whole.len() - 14].to_vec(), refused(400, "IncompleteBody")),
        ("no form at all", b"no form at all".to_vec(), refused(400, "MalformedPOSTRequest")),
        ("nothing", Vec::new(), refused(400, "MalformedPOSTRequest")),
        (
            "a megabyte of fields",
            [b"--edge\r\nContent-Disposition: form-data; name=\"x-ignore-a\"\r\n\r\n", &pattern(1 << 20)[..]]
                .concat(),
            refused(400, "MaxPostPreDataLengthExceededError"),
        ),
    ];
    for (what, form, expected) in cases {
        assert_eq!(bench.post_form(&target, &form, HeaderMap::new()).await?, expected, "{what}");
        assert_eq!(bench.count().await?, 0, "{what}");
    }
    Ok(())
}

#[tokio::test]
async fn a_post_that_is_no_form_is_refused_with_the_type_of_one() -> TestResult {
    let bench = Bench::start().await?;
    let target = bench.presign("form.txt", "text/plain", 4).await?;
    let posted = bench.http.post(&target.endpoint).header(CONTENT_TYPE, "text/plain").body("text");
    let response = posted.send().await?;
    assert_eq!(response.status(), 403);
    let text = response.text().await?;
    assert!(text.contains("<Code>AccessDenied</Code>") && text.contains("multipart/form-data"), "{text}");
    Ok(())
}

/// Returns the target with a part of its URL replaced.
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
    let mismatch = refused(403, "SignatureDoesNotMatch");
    let cases = [
        ("a wrong signature", replaced(&target, &signature, &wrong(&signature))?, &mismatch),
        ("a zero signature", replaced(&target, &signature, &"0".repeat(64))?, &mismatch),
        (
            "the signature of another",
            replaced(&target, &signature, &query(&other, "X-Amz-Signature"))?,
            &mismatch,
        ),
        ("a changed key", replaced(&target, "large.bin", "other.bin")?, &mismatch),
        ("a key in another folder", replaced(&target, "/documents/", "/documents/..%2f")?, &mismatch),
        ("another bucket", replaced(&target, "/files-", "/files-x")?, &mismatch),
        ("a longer life", replaced(&target, "X-Amz-Expires=900", "X-Amz-Expires=901")?, &mismatch),
        (
            "another target",
            replaced(&target, &query(&target, "x-target"), &query(&other, "x-target"))?,
            &mismatch,
        ),
        ("a further parameter", replaced(&target, "?", "?acl&")?, &refused(403, "SignatureDoesNotMatch")),
        ("fewer signed headers", replaced(&target, "content-length%3B", "")?, &mismatch),
        (
            "another access key",
            replaced(&target, "inferstore%2F", "root%2F")?,
            &refused(403, "InvalidAccessKeyId"),
        ),
        ("no signature", replaced(&target, "X-Amz-Signature=", "Nothing=")?, &refused(403, "AccessDenied")),
        (
            "an old signature",
            replaced(&target, "X-Amz-Signature=", "Signature=")?,
            &refused(400, "InvalidRequest"),
        ),
    ];
    for (what, target, expected) in cases {
        assert_eq!(&bench.put(&target, pattern(LARGE)).await?, expected, "{what}");
        assert_eq!(bench.count().await?, 0, "{what}");
    }
    let mut changed = target.clone();
    changed.fields.insert("Content-Type".to_owned(), "text/html".into());
    assert_eq!(bench.put(&changed, pattern(LARGE)).await?, mismatch, "a changed type");
    for size in [1, LARGE - 1, LARGE + 1, 4 * LARGE] {
        assert_eq!(bench.put(&target, pattern(size)).await?, mismatch, "{size} bytes");
    }
    let posted = bench.http.post(&target.endpoint).header(CONTENT_TYPE, "application/x-large");
    assert_eq!(verdict(posted.body(pattern(LARGE)).send().await?).await?.status, 403, "another method");
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
    for (headers, code) in [
        (header("x-api-key", "isk_a_b"), "InvalidRequest"),
        (header(AUTHORIZATION.as_str(), "Bearer abc"), "InvalidArgument"),
        (
            header(AUTHORIZATION.as_str(), "AWS4-HMAC-SHA256 Credential=a/b/c/s3/aws4_request"),
            "InvalidArgument",
        ),
    ] {
        let posted = bench.post_form(&form, &form.form(b"file"), headers.clone()).await?;
        assert_eq!(posted, refused(400, code), "{headers:?}");
        let request = bench.http.put(&put.endpoint).headers(headers).header(CONTENT_TYPE, "text/plain");
        assert_eq!(verdict(request.body(pattern(LARGE)).send().await?).await?, refused(400, code));
    }
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
    assert_eq!(verdict(request.send().await?).await?, refused(411, "MissingContentLength"));
    let request = bench.http.post(&form.endpoint).header(CONTENT_TYPE, "multipart/form-data; boundary=edge");
    let request = request.body(chunked(form.form(b"file")));
    assert_eq!(verdict(request.send().await?).await?, refused(411, "MissingContentLength"));
    assert_eq!(bench.count().await?, 0);
    Ok(())
}

#[tokio::test]
async fn headers_that_would_change_an_upload_and_are_not_signed_are_refused() -> TestResult {
    let bench = Bench::start().await?;
    let put = bench.presign("put.bin", "text/plain", LARGE).await?;
    for (name, value, expected) in [
        ("x-amz-acl", "public-read", refused(403, "AccessDenied")),
        ("x-amz-copy-source", "files/other", refused(403, "AccessDenied")),
        ("x-amz-meta-target", "other", refused(403, "AccessDenied")),
        ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", refused(501, "NotImplemented")),
        ("content-md5", "AAAAAAAAAAAAAAAAAAAAAA==", refused(400, "BadDigest")),
        ("if-none-match", "*", refused(501, "NotImplemented")),
    ] {
        let request = bench.http.put(&put.endpoint).header(CONTENT_TYPE, "text/plain").header(name, value);
        assert_eq!(verdict(request.body(pattern(LARGE)).send().await?).await?, expected, "{name}");
        assert_eq!(bench.count().await?, 0, "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn an_expired_target_is_refused() -> TestResult {
    let mut config = inferstore_service::Config::ephemeral();
    config.target_life = std::time::Duration::from_millis(900);
    let bench = Bench::with(config).await?;
    let form = bench.presign("form.txt", "text/plain", 4).await?;
    let put = bench.presign("put.bin", "text/plain", LARGE).await?;
    tokio::time::sleep(std::time::Duration::from_millis(1_000)).await;
    assert_eq!(bench.post(&form, b"file").await?, refused(403, "AccessDenied"));
    assert_eq!(bench.put(&put, pattern(LARGE)).await?, refused(403, "AccessDenied"));
    assert_eq!(bench.count().await?, 0);
    Ok(())
}
