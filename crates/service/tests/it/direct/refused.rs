//! Uploads that the store must refuse by the target alone, without leaving a file.

use reqwest::header::{CONTENT_TYPE, HeaderMap};

use super::start;
use crate::storage::support::{Target, TestResult, pattern, verdict};

const LARGE: u64 = 5_242_881;

fn wrong(signature: &str) -> String {
    let last = if signature.ends_with('0') { '1' } else { '0' };
    format!("{}{last}", signature.get(..63).unwrap_or_default())
}

#[tokio::test]
#[ignore = "needs the object store of .ci/cluster"]
async fn a_form_that_is_not_the_one_that_was_signed_is_refused() -> TestResult {
    let bench = start().await?;
    let target = bench.presign("form.txt", "text/plain", 100).await?;
    let other = bench.presign("other.txt", "text/plain", 101).await?;
    let changed = |name: &str, value: &str| target.with_field(name, value);
    let without = |name: &str| {
        let mut target = target.clone();
        target.fields.remove(name);
        target
    };
    let cases: [(&str, Target); 16] = [
        ("a wrong signature", changed("x-amz-signature", &wrong(target.field("x-amz-signature")))),
        ("a zero signature", changed("x-amz-signature", &"0".repeat(64))),
        ("a changed policy", changed("policy", &format!("{}Cg==", target.field("policy")))),
        ("the policy of another target", changed("policy", other.field("policy"))),
        ("another day", changed("x-amz-date", "20200101T000000Z")),
        ("another access key", changed("x-amz-credential", "root/20200101/us-east-1/s3/aws4_request")),
        ("a changed key", changed("key", other.field("key"))),
        ("a key outside its folder", changed("key", "blobs/../../other")),
        ("a key with a variable", changed("key", "blobs/${filename}")),
        ("a changed type", changed("Content-Type", "text/html")),
        ("a further field", changed("acl", "public-read")),
        ("metadata", changed("x-amz-meta-x", "y")),
        ("no signature", without("x-amz-signature")),
        ("no policy", without("policy")),
        ("no key", without("key")),
        ("no type", without("Content-Type")),
    ];
    let mut accepted = Vec::new();
    for (what, target) in cases {
        let verdict = bench.post(&target, &pattern(100)).await?;
        match verdict.status {
            400..500 => {}
            204 => accepted.push(what),
            _ => return Err(format!("{what}: {verdict:?}").into()),
        }
    }
    // SeaweedFS accepts an ACL that no policy condition names; a caller could expose its own file that way.
    let root = bench.http.get(&target.endpoint).send().await?;
    let server = root.headers().get("server").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let tolerated: &[&str] = if server.starts_with("SeaweedFS") { &["a further field"] } else { &[] };
    assert_eq!(accepted, tolerated);
    for size in [0, 1, 99, 101, 10_000] {
        let verdict = bench.post(&target, &pattern(size)).await?;
        assert!(verdict.status >= 400 && verdict.status < 500, "{size} bytes: {verdict:?}");
    }
    assert_eq!(bench.count().await?, u64::from(!accepted.is_empty()));
    assert!(bench.post(&target, &pattern(100)).await?.is_success());
    assert_eq!(bench.count().await?, 1);
    Ok(())
}

#[tokio::test]
#[ignore = "needs the object store of .ci/cluster"]
async fn a_put_that_is_not_the_one_that_was_signed_is_refused() -> TestResult {
    let bench = start().await?;
    let target = bench.presign("put.bin", "application/x-put", LARGE).await?;
    let other = bench.presign("other.bin", "application/x-put", LARGE).await?;
    let path = |target: &Target| target.endpoint.split('?').next().unwrap_or_default().to_owned();
    let signature = target.endpoint.split("X-Amz-Signature=").nth(1).unwrap_or_default().to_owned();
    let urls = [
        ("a wrong signature", target.endpoint.replace(&signature, &wrong(&signature))),
        ("no signature", target.endpoint.replace(&format!("&X-Amz-Signature={signature}"), "")),
        ("no query", path(&target)),
        ("another key", target.endpoint.replace(&path(&target), &path(&other))),
        ("a longer life", target.endpoint.replace("X-Amz-Expires=900", "X-Amz-Expires=9000")),
        ("fewer signed headers", target.endpoint.replace("content-length%3B", "")),
        ("a further parameter", format!("{}&x-id=PutObject", target.endpoint)),
    ];
    for (what, endpoint) in urls {
        let changed = Target { endpoint, ..target.clone() };
        let verdict = bench.put(&changed, pattern(LARGE)).await?;
        assert!(verdict.status >= 400 && verdict.status < 500, "{what}: {verdict:?}");
    }
    for size in [0, LARGE - 1, LARGE + 1] {
        let verdict = bench.put(&target, pattern(size)).await?;
        assert!(verdict.status >= 400 && verdict.status < 500, "{size} bytes: {verdict:?}");
    }
    for mime in ["text/html", ""] {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, mime.parse()?);
        let put = bench.http.put(&target.endpoint).headers(headers).body(pattern(LARGE)).send().await?;
        let verdict = verdict(put).await?;
        assert!(verdict.status >= 400 && verdict.status < 500, "type {mime:?}: {verdict:?}");
    }
    assert_eq!(bench.count().await?, 0);
    assert!(bench.put(&target, pattern(LARGE)).await?.is_success());
    assert_eq!(bench.count().await?, 1);
    Ok(())
}

#[tokio::test]
#[ignore = "needs the object store of .ci/cluster"]
async fn the_service_takes_no_bytes_that_belong_into_the_store() -> TestResult {
    let bench = start().await?;
    let target = bench.presign("x.txt", "text/plain", 3).await?;
    let endpoint = format!("{}/bucket", bench.service.storage_url());
    let verdict = bench.post(&Target { endpoint, ..target }, b"abc").await?;
    assert_eq!((verdict.status, verdict.code.as_str()), (405, "MethodNotAllowed"));
    Ok(())
}
