//! Downloads by permanent URL.

use reqwest::header::{CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, LAST_MODIFIED, RANGE};
use reqwest::{Method, Response};

use super::support::{Bench, TestResult};

async fn read(bench: &Bench, url: &str, name: &str, value: &str) -> TestResult<Response> {
    Ok(bench.http.get(url).header(name, value).send().await?)
}

#[tokio::test]
async fn a_part_of_a_file_can_be_read() -> TestResult {
    let bench = Bench::start().await?;
    let url = bench.store("digits.txt", "text/plain; charset=utf-8", b"0123456789").await?;
    let cases = [
        ("bytes=2-5", "2345", "bytes 2-5/10"),
        ("bytes=7-", "789", "bytes 7-9/10"),
        ("bytes=-2", "89", "bytes 8-9/10"),
        ("bytes=0-99", "0123456789", "bytes 0-9/10"),
        ("bytes=-99", "0123456789", "bytes 0-9/10"),
        ("bytes=0-18446744073709551615", "0123456789", "bytes 0-9/10"),
        ("bytes=9-99999999999999999999999", "9", "bytes 9-9/10"),
        ("BYTES=0-0", "0", "bytes 0-0/10"),
    ];
    for (range, expected, shown) in cases {
        let response = read(&bench, &url, "range", range).await?;
        assert_eq!(response.status(), 206, "{range}");
        assert_eq!(response.headers()[CONTENT_RANGE], shown);
        assert_eq!(response.headers()[CONTENT_TYPE], "text/plain; charset=utf-8");
        assert_eq!(response.headers()[CONTENT_LENGTH], expected.len().to_string());
        assert_eq!(response.text().await?, expected);
        let head = bench.http.head(&url).header("range", range).send().await?;
        assert_eq!((head.status().as_u16(), &head.headers()[CONTENT_RANGE]), (206, &shown.parse()?));
    }
    for range in ["bytes=10-", "bytes=-0", "bytes=18446744073709551616-"] {
        let beyond = read(&bench, &url, "range", range).await?;
        assert_eq!(
            (beyond.status().as_u16(), &beyond.headers()[CONTENT_RANGE]),
            (416, &"bytes */10".parse()?)
        );
        assert!(beyond.text().await?.contains("<Code>InvalidRange</Code>"));
    }
    for odd in ["lines=1-2", "bytes=5-2", "bytes=0-1,4-5", "bytes=x", "bytes=-", "bytes=+1-2", "bytes"] {
        let response = read(&bench, &url, "range", odd).await?;
        assert_eq!((response.status().as_u16(), response.text().await?.len()), (200, 10), "{odd}");
    }
    Ok(())
}

#[tokio::test]
async fn a_resumed_download_never_mixes_two_files() -> TestResult {
    let bench = Bench::start().await?;
    let url = bench.store("resumed.txt", "text/plain", b"first version").await?;
    let etag = bench.http.head(&url).send().await?.headers()[ETAG].clone();
    let resume = || bench.http.get(&url).header(RANGE, "bytes=6-").header("if-range", etag.clone());
    assert_eq!(resume().send().await?.text().await?, "version");
    bench.store("resumed.txt", "text/plain", b"another thing").await?;
    let response = resume().send().await?;
    assert_eq!((response.status().as_u16(), response.text().await?.as_str()), (200, "another thing"));
    // Two files can be stored within the same second, so a date is too weak for a resumption.
    let head = bench.http.head(&url).send().await?;
    let stored = head.headers()[LAST_MODIFIED].clone();
    for weak in [stored, format!("W/{}", head.headers()[ETAG].to_str()?).parse()?] {
        let resume = bench.http.get(&url).header(RANGE, "bytes=6-").header("if-range", weak);
        assert_eq!(resume.send().await?.status(), 200);
    }
    Ok(())
}

#[tokio::test]
async fn a_file_is_never_a_page_of_the_address_that_serves_it() -> TestResult {
    let bench = Bench::start().await?;
    for (mime, is_shown) in [
        ("image/png", true),
        ("image/jpeg", true),
        ("video/mp4", true),
        ("audio/mpeg", true),
        ("text/plain; charset=utf-8", true),
        ("application/pdf", true),
        ("application/json", true),
        ("text/html", false),
        ("TEXT/HTML; charset=utf-8", false),
        ("image/svg+xml", false),
        ("application/xhtml+xml", false),
        ("text/xml", false),
        ("text/javascript", false),
        ("application/javascript", false),
        ("application/octet-stream", false),
    ] {
        let url = bench.store("page", mime, b"<script>alert(1)</script>").await?;
        for method in [Method::GET, Method::HEAD] {
            let response = bench.http.request(method, &url).send().await?;
            let headers = response.headers();
            assert_eq!(headers["content-security-policy"], "sandbox", "{mime}");
            assert_eq!(headers["x-content-type-options"], "nosniff", "{mime}");
            let disposition = headers.get("content-disposition").and_then(|value| value.to_str().ok());
            assert_eq!(disposition, (!is_shown).then_some("attachment"), "{mime}");
            assert_eq!(headers[CONTENT_TYPE], mime);
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_file_with_lost_bytes_is_a_service_error_for_get_and_head() -> TestResult {
    let bench = Bench::start().await?;
    let url = bench.store("lost.txt", "text/plain", b"lost").await?;
    std::fs::remove_dir_all(bench.service.data_folder().join("objects/blobs"))?;
    assert_eq!(bench.http.get(&url).send().await?.status(), 500);
    assert_eq!(bench.http.head(&url).send().await?.status(), 500);
    bench.store("lost.txt", "text/plain", b"back").await?;
    assert_eq!(bench.http.get(&url).send().await?.text().await?, "back");
    Ok(())
}

#[tokio::test]
async fn head_tells_of_a_file_what_get_would_and_sends_nothing() -> TestResult {
    let bench = Bench::start().await?;
    let url = bench.store("head.bin", "application/x-head", b"12345").await?;
    let (head, get) = (bench.http.head(&url).send().await?, bench.http.get(&url).send().await?);
    assert_eq!(head.status(), 200);
    for name in [CONTENT_LENGTH, CONTENT_TYPE, ETAG, LAST_MODIFIED] {
        assert_eq!(head.headers().get(&name), get.headers().get(&name), "{name}");
    }
    assert_eq!(head.headers()[ETAG], "\"827ccb0eea8a706c4c34a16891f84e7b\"");
    assert_eq!(head.text().await?, "");
    assert_eq!(bench.http.head(format!("{url}x")).send().await?.status(), 404);
    Ok(())
}

#[tokio::test]
async fn a_file_is_sent_only_when_it_is_the_one_that_is_wanted() -> TestResult {
    let bench = Bench::start().await?;
    let url = bench.store("wanted.txt", "text/plain", b"wanted").await?;
    let head = bench.http.head(&url).send().await?;
    let text = |value: &reqwest::header::HeaderValue| value.to_str().unwrap_or_default().to_owned();
    let (etag, stored) = (text(&head.headers()[ETAG]), text(&head.headers()[LAST_MODIFIED]));
    let long_ago = "Wed, 21 Oct 2015 07:28:00 GMT";
    let (weak, list) = (format!("W/{etag}"), format!("\"a, b\", {etag}"));
    let cases = [
        ("if-none-match", etag.as_str(), 304),
        ("if-none-match", "*", 304),
        ("if-none-match", "\"other\"", 200),
        ("if-match", etag.as_str(), 200),
        ("if-match", "\"other\"", 412),
        ("if-modified-since", stored.as_str(), 304),
        ("if-modified-since", long_ago, 200),
        ("if-unmodified-since", stored.as_str(), 200),
        ("if-unmodified-since", long_ago, 412),
        ("if-match", list.as_str(), 200),
        ("if-none-match", list.as_str(), 304),
        ("if-match", "*", 200),
        ("if-match", "\"a\", \"b\"", 412),
        // A weak tag means semantic equality, which suffices for a cache only.
        ("if-match", weak.as_str(), 412),
        ("if-none-match", weak.as_str(), 304),
        // An invalid date is ignored; the two obsolete date formats are parsed.
        ("if-modified-since", "junk", 200),
        ("if-unmodified-since", "junk", 200),
        ("if-modified-since", "Wednesday, 21-Oct-15 07:28:00 GMT", 200),
        ("if-unmodified-since", "Wed Oct 21 07:28:00 2015", 412),
    ];
    for (name, value, expected) in cases {
        let response = read(&bench, &url, name, value).await?;
        assert_eq!(response.status(), expected, "{name}: {value}");
        if expected == 304 {
            assert_eq!(text(&response.headers()[ETAG]), etag);
        }
    }
    Ok(())
}

#[tokio::test]
async fn reading_needs_a_url_that_is_known_and_gives_no_more_than_the_file() -> TestResult {
    let bench = Bench::start().await?;
    let url = bench.store("known.html", "text/html", b"<p>").await?;
    let bucket = url.rsplit_once("/documents/").map(|(bucket, _)| bucket.to_owned()).unwrap_or_default();
    let root = bucket.rsplit_once('/').map(|(root, _)| root.to_owned()).unwrap_or_default();
    let cases = [
        (Method::GET, format!("{url}x"), 404, "NoSuchKey"),
        (Method::GET, format!("{bucket}/documents/..%2f..%2f..%2finferstore.db"), 404, "NoSuchKey"),
        (Method::GET, format!("{bucket}/documents/%2e%2e%2fknown.html"), 404, "NoSuchKey"),
        (Method::GET, format!("{url}?versionId=1"), 404, "NoSuchVersion"),
        (Method::GET, format!("{url}?response-content-type=text/xml"), 400, "InvalidRequest"),
        (Method::GET, format!("{url}?acl"), 403, "AccessDenied"),
        (Method::GET, format!("{url}?tagging"), 403, "AccessDenied"),
        (Method::GET, format!("{bucket}/"), 403, "AccessDenied"),
        (Method::GET, format!("{bucket}?list-type=2"), 403, "AccessDenied"),
        (Method::GET, format!("{bucket}?uploads"), 403, "AccessDenied"),
        (Method::GET, format!("{root}/"), 403, "AccessDenied"),
        (Method::PUT, bucket.clone(), 403, "AccessDenied"),
        (Method::DELETE, bucket.clone(), 403, "AccessDenied"),
        (Method::DELETE, url.clone(), 403, "AccessDenied"),
        (Method::PUT, url.clone(), 403, "AccessDenied"),
        (Method::POST, format!("{bucket}?delete"), 403, "AccessDenied"),
        (Method::POST, format!("{url}?uploads"), 403, "AccessDenied"),
    ];
    for (method, url, status, code) in cases {
        let request = bench.http.request(method.clone(), &url).header(CONTENT_LENGTH, 0);
        let verdict = super::support::verdict(request.send().await?).await?;
        assert_eq!((verdict.status, verdict.code.as_str()), (status, code), "{method} {url}");
    }
    assert_eq!(bench.count().await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_browser_revalidates_a_cached_file() -> TestResult {
    let bench = Bench::start().await?;
    let url = bench.store("avatar.png", "image/png", b"old").await?;
    let first = bench.http.get(&url).send().await?;
    assert_eq!(first.headers()["cache-control"], "no-cache");
    let etag = first.headers()[ETAG].to_str()?.to_owned();
    let same = read(&bench, &url, "if-none-match", &etag).await?;
    assert_eq!((same.status().as_u16(), &same.headers()["cache-control"]), (304, &"no-cache".parse()?));
    assert_eq!(bench.store("avatar.png", "image/png", b"new").await?, url, "another file has the same URL");
    assert_eq!(read(&bench, &url, "if-none-match", &etag).await?.text().await?, "new");
    Ok(())
}

#[tokio::test]
async fn a_method_that_is_not_allowed_is_refused_with_those_that_are() -> TestResult {
    let bench = Bench::start().await?;
    let url = bench.store("some.txt", "text/plain", b"text").await?;
    let refused = bench.http.patch(&url).send().await?;
    assert_eq!(
        (refused.status().as_u16(), &refused.headers()["allow"]),
        (405, &"GET, HEAD, POST, PUT".parse()?)
    );
    let form = bench.http.post(&url).header(CONTENT_TYPE, "multipart/form-data; boundary=x").body("--x--");
    let refused = form.send().await?;
    assert_eq!((refused.status().as_u16(), &refused.headers()["allow"]), (405, &"GET, HEAD, PUT".parse()?));
    Ok(())
}
