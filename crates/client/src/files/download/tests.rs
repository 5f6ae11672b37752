//! Downloads over a socket: what is written, and what happens when it breaks.

mod resume;

use std::time::Duration;

use tokio::time::Instant;

use crate::files::upload::tests::loopback::{KEY, Reaction, SIGNATURE, Scratch, Server, TestResult};
use crate::{Client, DownloadOptions, Error, Retry, Settings};

/// An answer with this content and these headers.
fn content(headers: &[(&'static str, &str)], body: &[u8]) -> Reaction {
    let headers = headers.iter().map(|&(name, value)| (name, value.to_owned())).collect();
    Reaction::Answer(200, headers, body.to_owned())
}

fn redirect(location: &str) -> Reaction {
    Reaction::Answer(302, vec![("location", location.to_owned())], Vec::new())
}

/// Where the server has something, with a secret in it.
fn url(server: &Server) -> String {
    format!("http://{}/output.png?X-Amz-Signature={SIGNATURE}", server.address)
}

fn client(server: &Server) -> crate::Result<Client> {
    server.client(Settings::default())
}

/// What an error says, everything of it.
fn said<T>(result: crate::Result<T>) -> String {
    result.map_or_else(|error| format!("{error} {error:?}"), |_| "it was downloaded".to_owned())
}

#[tokio::test]
async fn a_file_appears_when_it_is_complete() -> TestResult {
    let scratch = Scratch::new()?;
    let body: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
    let sent = body.clone();
    let server = Server::start(move |_| content(&[("content-type", "image/png")], &sent)).await?;
    let mut progress = Vec::new();
    let path = scratch.path("a.png");
    let options = DownloadOptions::default();
    let downloaded =
        client(&server)?.download_with(&url(&server), &path, options, |at| progress.push(at)).await?;
    assert_eq!((downloaded.size, downloaded.mime.as_deref()), (300_000, Some("image/png")));
    assert!(std::fs::read(&path)? == body);
    assert_eq!(scratch.names()?, ["a.png"]);
    assert!(progress.windows(2).all(|pair| pair[0].received < pair[1].received));
    assert!(progress.last().is_some_and(|at| at.received == 300_000 && at.total == Some(300_000)));
    let asked = &server.stored()[0];
    assert_eq!((asked.header("x-api-key"), asked.header("accept-encoding")), (None, Some("identity")));
    assert!(!format!("{asked:?}").contains(KEY));
    Ok(())
}

#[tokio::test]
async fn a_file_that_is_there_is_replaced_only_when_told() -> TestResult {
    let scratch = Scratch::new()?;
    let path = scratch.path("a.png");
    std::fs::write(&path, "old")?;
    let server = Server::start(|_| content(&[], b"new")).await?;
    let client = client(&server)?;
    let error = said(client.download(&url(&server), &path).await);
    assert!(error.contains("a.png: it is there already"), "{error}");
    assert!(server.stored().is_empty());
    let error = said(client.download(&url(&server), scratch.path(".")).await);
    assert!(error.contains("it is a folder"), "{error}");
    let error = said(client.download(&url(&server), scratch.path("missing/a.png")).await);
    assert!(error.contains("it cannot be written"), "{error}");

    let options = DownloadOptions { overwrite: true, ..DownloadOptions::default() };
    client.download_with(&url(&server), &path, options, |_| {}).await?;
    assert_eq!(
        (std::fs::read_to_string(&path)?, scratch.names()?),
        ("new".to_owned(), vec!["a.png".to_owned()])
    );
    Ok(())
}

#[tokio::test]
async fn a_file_that_appears_meanwhile_is_not_replaced() -> TestResult {
    let scratch = Scratch::new()?;
    let path = scratch.path("a.png");
    let meanwhile = path.clone();
    let server = Server::start(move |_| match std::fs::write(&meanwhile, "of another") {
        Ok(()) => content(&[], b"new"),
        Err(_) => Reaction::status(500),
    })
    .await?;
    let error = said(client(&server)?.download(&url(&server), &path).await);
    assert!(error.contains("a.png: it is there already"), "{error}");
    assert_eq!((std::fs::read_to_string(&path)?, scratch.names()?.len()), ("of another".to_owned(), 1));
    Ok(())
}

#[tokio::test]
async fn too_much_is_refused_before_and_while_it_comes() -> TestResult {
    let scratch = Scratch::new()?;
    for headers in [&[][..], &[("content-length", "")]] {
        let server = Server::start(move |_| content(headers, &[0; 1001])).await?;
        for (max, fits) in [(1001, true), (1000, false)] {
            let options = DownloadOptions { max_size: Some(max), ..DownloadOptions::default() };
            let path = scratch.path("a.png");
            let downloaded = client(&server)?.download_with(&url(&server), &path, options, |_| {}).await;
            assert_eq!(downloaded.is_ok(), fits, "{downloaded:?}");
            assert_eq!(scratch.names()?.len(), usize::from(fits), "nothing stays of what was refused");
            let _ = std::fs::remove_file(path);
            let error = said(downloaded);
            assert!(fits || error.contains("127.0.0.1: the content has more than the 1000 bytes"), "{error}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn redirects_are_followed_so_far_and_not_everywhere() -> TestResult {
    let scratch = Scratch::new()?;
    let server = Server::start(|request| match request.target.as_str() {
        "/loop" => redirect("/loop"),
        "/file" => redirect("file:///etc/hostname"),
        "/nowhere" => Reaction::status(302),
        "/end" => content(&[], b"here"),
        _ => redirect("/end"),
    })
    .await?;
    let (client, path) = (client(&server)?, scratch.path("a"));
    client.download(&url(&server), &path).await?;
    assert_eq!(std::fs::read_to_string(&path)?, "here");
    for (from, problem) in
        [("loop", "more than 5 redirects"), ("file", "leads to nothing"), ("nowhere", "leads to nothing")]
    {
        let before = server.stored().len();
        let error =
            said(client.download(&format!("http://{}/{from}", server.address), scratch.path("b")).await);
        assert!(error.contains(problem), "{error}");
        assert!(server.stored().len() - before <= 6);
    }
    Ok(())
}

#[tokio::test]
async fn a_refusal_is_readable_and_shows_no_more_than_the_host() -> TestResult {
    let scratch = Scratch::new()?;
    let server = Server::start(|_| Reaction::refusal(403, "AccessDenied")).await?;
    let error = said(client(&server)?.download(&url(&server), scratch.path("a")).await);
    assert!(
        error.contains("127.0.0.1: object storage answered 403 (AccessDenied): … is not good enough;"),
        "{error}"
    );
    assert!(!error.contains(SIGNATURE) && !error.contains("output.png"), "{error}");
    assert_eq!((server.stored().len(), scratch.names()?.len()), (1, 0));
    for no_url in ["", "a.png", "ftp://host.example/a", "file:///etc/hostname"] {
        let error = said(client(&server)?.download(no_url, scratch.path("a")).await);
        assert!(error.contains("not a URL with http"), "{error}");
    }
    Ok(())
}

#[tokio::test]
async fn silence_and_the_deadline_end_it() -> TestResult {
    let scratch = Scratch::new()?;
    let server = Server::start(|_| Reaction::Silence).await?;
    let short = Duration::from_millis(100);
    let options = DownloadOptions { deadline: Some(short), ..DownloadOptions::default() };
    let (client, started) = (client(&server)?, Instant::now());
    let downloaded = client.download_with(&url(&server), scratch.path("a"), options, |_| {}).await;
    assert!(matches!(downloaded, Err(Error::DeadlineReached(_))), "{downloaded:?}");
    assert!(started.elapsed() < Duration::from_secs(5), "long before anything else would end it");

    let retry = Retry { max_attempts: 2, ..Retry::default() };
    let idle = Duration::from_millis(500);
    let settings = Settings { transfer_timeout: idle, read_timeout: idle, retry, ..Settings::default() };
    let error = said(server.client(settings)?.download(&url(&server), scratch.path("a")).await);
    assert!(error.contains("127.0.0.1: ") && error.contains("check the network"), "{error}");
    assert_eq!((server.stored().len(), scratch.names()?.len()), (3, 0));
    Ok(())
}
