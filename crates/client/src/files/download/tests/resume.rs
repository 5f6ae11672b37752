//! Downloads that break off: from where they go on, and when they must not.

use super::{client, content, url};
use crate::files::upload::tests::loopback::{Reaction, Request, Scratch, Server, TestResult, said};
use crate::transport::file_error::FileErrorKind;
use crate::{Error, Retry, Settings};

/// What is downloaded here.
fn whole() -> Vec<u8> {
    (0..200_000_u32).map(|number| (number / 7) as u8).collect()
}

/// The first so many bytes of the content, as if they were all going to come.
fn broken_off(version: (&'static str, &str), bytes: usize) -> Reaction {
    let (name, value) = version;
    content(&[(name, value), ("content-length", "200000")], &whole()[..bytes])
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
    let retry = Retry { max_attempts: 3, ..Retry::default() };
    let client = server.client(Settings { retry, ..Settings::default() })?;
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
async fn a_content_that_changed_is_downloaded_again_unless_it_is_delivered_already() -> TestResult {
    let scratch = Scratch::new()?;
    let path = scratch.path("a");
    let react = |request: &Request| match request.header("range") {
        None => broken_off(("etag", "\"1\""), 10_000),
        Some(_) => content(&[("etag", "\"2\"")], b"another content"),
    };
    let server = Server::start(react).await?;
    let download = client(&server)?.download(url(&server));
    download.clone().to_file(&path).await?;
    assert_eq!(std::fs::read_to_string(path)?, "another content");
    assert_eq!(download.clone().bytes().await?, "another content");

    let mut written = Vec::new();
    let result = download.to_writer(&mut written).await;
    let Err(Error::File(error)) = result else { return Err(format!("{result:?}").into()) };
    assert_eq!((error.kind, written.len()), (FileErrorKind::Changed, 10_000));
    Ok(())
}

#[tokio::test]
async fn a_content_that_became_empty_leaves_nothing_of_the_old_one() -> TestResult {
    let scratch = Scratch::new()?;
    let react = |request: &Request| match request.header("range") {
        None => broken_off(("etag", "\"1\""), 10_000),
        Some(_) => content(&[("etag", "\"2\"")], b""),
    };
    let server = Server::start(react).await?;
    let download = client(&server)?.download(url(&server));
    download.clone().to_file(scratch.path("a")).await?;
    assert_eq!(std::fs::read(scratch.path("a"))?.len(), 0);
    assert_eq!(download.bytes().await?.len(), 0);
    Ok(())
}

#[tokio::test]
async fn without_a_version_or_with_a_range_that_does_not_fit_it_starts_again() -> TestResult {
    let scratch = Scratch::new()?;
    let part_of = |version: &str, range: &str| {
        let headers = vec![("etag", version.to_owned()), ("content-range", range.to_owned())];
        Reaction::Answer(206, headers, b"wrong".to_vec())
    };
    let part = |range: &str| part_of("\"1\"", range);
    let cases = [
        ("x-none", Reaction::status(500)),
        ("etag", part("bytes 9999-199999/200000")),
        ("etag", part("bytes 10000-10004/10005")),
        ("etag", part("")),
        ("etag", part_of("\"2\"", "bytes 10000-199999/200000")),
        ("etag", Reaction::status(416)),
        ("etag", Reaction::DropAfter(0)),
    ];
    for (number, (version, second)) in cases.into_iter().enumerate() {
        let (mut count, mut second) = (0, Some(second));
        let server = Server::start(move |request| {
            count += 1;
            match count {
                1 => broken_off((version, "\"1\""), 10_000),
                2 => second.take().unwrap_or(Reaction::Silence),
                _ if request.header("range").is_some() => rest(request, "\"1\"", 200_000),
                _ => broken_off(("etag", "\"1\""), 200_000),
            }
        })
        .await?;
        let path = scratch.path(&number.to_string());
        client(&server)?.download(url(&server)).to_file(&path).await?;
        assert!(std::fs::read(&path)? == whole(), "case {number}");
        assert_eq!(server.stored().len(), 3, "case {number}");
        assert!(version == "etag" || server.stored().iter().all(|request| request.header("range").is_none()));
    }
    Ok(())
}

#[tokio::test]
async fn a_server_that_always_breaks_off_is_given_up() -> TestResult {
    let scratch = Scratch::new()?;
    let server = Server::start(|_| broken_off(("x-none", ""), 10_000)).await?;
    let retry = Retry { max_attempts: 3, ..Retry::default() };
    let client = server.client(Settings { retry, ..Settings::default() })?;
    let error = said(client.download(url(&server)).to_file(scratch.path("a")).await);
    assert!(error.contains("127.0.0.1: the connection to object storage was lost"), "{error}");
    assert_eq!((server.stored().len(), scratch.names()?.len()), (3, 0));
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
