//! Downloads that break off: from where they go on, and when they must not.

use super::{client, content, url};
use crate::Error;
use crate::files::upload::tests::loopback::{Reaction, Request, Scratch, Server, TestResult, said};
use crate::transport::causes::FileErrorKind;

/// What is downloaded here.
fn whole() -> Vec<u8> {
    (0..200_000_u32).map(|number| (number / 7) as u8).collect()
}

/// The first so many bytes of the content, as if they were all going to come.
fn broken_off(version: (&'static str, &str), bytes: usize) -> Reaction {
    let (name, value) = version;
    content(&[(name, value), ("content-length", "200000")], &whole()[..bytes])
}

/// The first 10,000 bytes of a content whose length is not said, without its end.
fn unknown_length() -> Reaction {
    let chunk = [b"2710\r\n", &whole()[..10_000], b"\r\n"].concat();
    content(&[("etag", "\"1\""), ("transfer-encoding", "chunked")], &chunk)
}

/// What the request asks for, from a server that can do so: at most so many bytes of it.
fn rest(request: &Request, version: &str, at_most: usize) -> Reaction {
    let begin = request.header("range").and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-'));
    match begin.and_then(|begin| begin.parse::<usize>().ok()) {
        Some(begin) if request.header("if-range") == Some(version) => {
            let headers = [
                ("content-range", format!("bytes {begin}-199999/200000")),
                ("content-length", (200_000 - begin).to_string()),
            ];
            Reaction::Answer(206, headers.into(), whole()[begin..(begin + at_most).min(200_000)].to_vec())
        }
        _ => Reaction::status(400),
    }
}

#[tokio::test]
async fn a_broken_download_is_resumed_for_as_long_as_it_advances() -> TestResult {
    let scratch = Scratch::new()?;
    let server = Server::start(move |request| match request.header("range") {
        None => broken_off(("etag", "\"1\""), 10_000),
        Some(_) => rest(request, "\"1\"", 20_000),
    })
    .await?;
    // More breaks than attempts, but each one advances.
    let client = server.builder(3).build()?;
    let path = scratch.path("a");
    let downloaded = client.download(url(&server)).to_file(&path).await?;
    assert_eq!((downloaded.size, server.stored().len()), (200_000, 11));
    assert!(std::fs::read(path)? == whole());
    assert!(client.download(url(&server)).bytes().await? == whole());
    let mut written = Vec::new();
    client.download(url(&server)).to_writer(&mut written).await?;
    assert!(written == whole());
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_resumed_fails_and_leaves_no_file() -> TestResult {
    let part = |tag: &str, range: &str| {
        Reaction::Answer(
            206,
            vec![("etag", tag.to_owned()), ("content-range", range.to_owned())],
            b"x".to_vec(),
        )
    };
    let cases = [
        content(&[("etag", "\"2\"")], b"another content"),
        part("\"1\"", "bytes 9999-199999/200000"),
        part("\"1\"", "bytes 10000-10004/10005"),
        part("\"1\"", ""),
        part("\"2\"", "bytes 10000-199999/200000"),
        Reaction::status(416),
        Reaction::Answer(416, vec![("content-range", "bytes */10000".to_owned())], Vec::new()),
    ];
    for (number, second) in cases.into_iter().enumerate() {
        let scratch = Scratch::new()?;
        let mut second = Some(second);
        let server = Server::start(move |request| match request.header("range") {
            None => broken_off(("etag", "\"1\""), 10_000),
            Some(_) => second.take().unwrap_or(Reaction::Silence),
        })
        .await?;
        let result = client(&server)?.download(url(&server)).to_file(scratch.path("a")).await;
        let Err(Error::File(error)) = result else { return Err(format!("case {number}: {result:?}").into()) };
        assert_eq!((error.kind, scratch.names()?.len()), (FileErrorKind::Changed, 0), "case {number}");
    }
    Ok(())
}

#[tokio::test]
async fn a_content_of_which_only_the_end_of_the_transfer_was_lost_is_complete() -> TestResult {
    let scratch = Scratch::new()?;
    let server = Server::start(move |request| match request.header("range") {
        None => unknown_length(),
        Some(_) => Reaction::Answer(416, vec![("content-range", "bytes */10000".to_owned())], Vec::new()),
    })
    .await?;
    let downloaded = client(&server)?.download(url(&server)).to_file(scratch.path("a")).await?;
    assert_eq!(downloaded.size, 10_000);
    Ok(())
}

#[tokio::test]
async fn a_content_of_unknown_length_is_not_complete_because_another_one_came() -> TestResult {
    let server = Server::start(move |request| match request.header("range") {
        None => unknown_length(),
        Some(_) => content(&[("etag", "\"2\"")], b"another content"),
    })
    .await?;
    let result = client(&server)?.download(url(&server)).bytes().await;
    assert!(matches!(&result, Err(Error::File(error)) if error.kind == FileErrorKind::Changed), "{result:?}");
    Ok(())
}

#[tokio::test]
async fn without_a_first_byte_the_whole_content_is_requested_again() -> TestResult {
    let mut failures = [broken_off(("etag", "\"1\""), 0)].into_iter();
    let server = Server::start(move |_| failures.next().unwrap_or_else(|| content(&[], b"content"))).await?;
    assert_eq!(client(&server)?.download(url(&server)).bytes().await?, "content");
    let requested: Vec<_> = server.stored().iter().map(|request| request.header("range").is_some()).collect();
    assert_eq!(requested, [false, false]);
    Ok(())
}

#[tokio::test]
async fn a_failure_before_the_first_byte_is_retried() -> TestResult {
    let mut failures = [Reaction::DropAfter(0), Reaction::status(503)].into_iter();
    let server = Server::start(move |_| failures.next().unwrap_or_else(|| content(&[], b"content"))).await?;
    assert_eq!(client(&server)?.download(url(&server)).bytes().await?, "content");
    assert_eq!(server.stored().len(), 3);
    Ok(())
}

#[tokio::test]
async fn without_a_strong_etag_nothing_is_resumed() -> TestResult {
    let scratch = Scratch::new()?;
    for version in [("x-none", ""), ("etag", "W/\"1\""), ("last-modified", "Wed, 21 Oct 2026 07:28:00 GMT")] {
        let server = Server::start(move |_| broken_off(version, 10_000)).await?;
        let error = said(client(&server)?.download(url(&server)).to_file(scratch.path("a")).await);
        assert!(error.contains("127.0.0.1: the connection to object storage was lost"), "{error}");
        assert_eq!((server.stored().len(), scratch.names()?.len()), (1, 0));
    }
    Ok(())
}

#[tokio::test]
async fn a_range_that_was_not_requested_is_an_error() -> TestResult {
    let scratch = Scratch::new()?;
    let server = Server::start(|_| Reaction::Answer(206, Vec::new(), b"part".to_vec())).await?;
    let error = said(client(&server)?.download(url(&server)).to_file(scratch.path("a")).await);
    assert!(error.contains("a part of the content only"), "{error}");
    assert_eq!(server.stored().len(), 1);
    Ok(())
}
