//! Downloads over a socket: written content, and broken connections.

use std::time::Duration;

use tokio::time::Instant;

use super::{DownloadEvent, DownloadedFile};
use crate::files::upload::tests::loopback::{
    KEY, Reaction, SIGNATURE, Scratch, Server, TestResult, refusal, said,
};
use crate::transport::error::FileErrorKind;
use crate::{Client, Error};

fn content(headers: &[(&'static str, &str)], body: &[u8]) -> Reaction {
    let headers = headers.iter().map(|&(name, value)| (name, value.to_owned())).collect();
    Reaction::Answer(200, headers, body.to_owned())
}

fn redirect(location: &str) -> Reaction {
    Reaction::Answer(302, vec![("location", location.to_owned())], Vec::new())
}

/// Returns a URL of the server with a secret in it.
fn url(server: &Server) -> String {
    format!("{}/output.png?X-Amz-Signature={SIGNATURE}", server.origin())
}

fn client(server: &Server) -> crate::Result<Client> {
    server.client()
}

#[tokio::test]
async fn a_file_appears_when_it_is_complete() -> TestResult {
    let scratch = Scratch::new()?;
    let body: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
    let sent = body.clone();
    let server = Server::start(move |_| content(&[("content-type", "image/png")], &sent));
    let path = scratch.path("a.png");
    let mut events = client(&server)?.download(url(&server)).to_file(&path);
    let mut progress = Vec::new();
    while let Some(DownloadEvent::Progress { received, total, .. }) = events.next().await {
        progress.push((received, total));
        assert_eq!(scratch.names()?.len(), 1, "it comes beside its destination, where it can be moved");
    }
    let expected = DownloadedFile { path: path.clone(), size: 300_000, mime: Some("image/png".to_owned()) };
    assert_eq!(events.finish().await?, expected);
    assert!(std::fs::read(&path)? == body);
    assert_eq!(scratch.names()?, ["a.png"]);
    assert!(progress.windows(2).all(|pair| pair[0].0 < pair[1].0));
    assert_eq!(progress.last(), Some(&(300_000, Some(300_000))));
    #[cfg(unix)]
    assert_eq!(mode(&path)?, mode(&scratch.sparse("other", 1)?)?, "as any new file");
    let asked = &server.stored()[0];
    assert_eq!((asked.header("x-api-key"), asked.header("accept-encoding")), (None, Some("identity")));
    assert!(!format!("{asked:?}").contains(KEY));
    Ok(())
}

#[cfg(unix)]
fn mode(path: &std::path::Path) -> std::io::Result<u32> {
    Ok(std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(path)?.permissions()))
}

#[tokio::test]
async fn an_existing_file_is_replaced_only_on_request() -> TestResult {
    let scratch = Scratch::new()?;
    let path = scratch.path("a.png");
    std::fs::write(&path, "old")?;
    let server = Server::start(|_| content(&[], b"new"));
    let download = client(&server)?.download(url(&server));
    let Err(Error::File(error)) = download.clone().to_file(&path).await else {
        return Err("replaced".into());
    };
    assert_eq!(error.kind, FileErrorKind::AlreadyExists);
    assert!(error.to_string().contains("a.png: it exists already"), "{error}");
    assert!(server.stored().is_empty());
    for impossible in ["missing/a.png", &"a".repeat(300)] {
        let error = said(download.clone().to_file(scratch.path(impossible)).await);
        assert!(error.contains("it cannot be written"), "{error}");
        assert!(server.stored().is_empty(), "it is known before the transfer");
    }

    download.limits(|limits| limits.overwrite = true).to_file(&path).await?;
    assert_eq!(
        (std::fs::read_to_string(&path)?, scratch.names()?),
        ("new".to_owned(), vec!["a.png".to_owned()])
    );
    Ok(())
}

#[tokio::test]
async fn only_regular_files_are_replaced() -> TestResult {
    let scratch = Scratch::new()?;
    let server = Server::start(|_| content(&[], b"new"));
    let mut paths = vec![scratch.path("."), scratch.path("folder")];
    std::fs::create_dir(&paths[1])?;
    #[cfg(unix)]
    {
        paths.push("/dev/null".into());
        paths.push(scratch.path("link"));
        std::os::unix::fs::symlink("folder", scratch.path("link"))?;
    }
    for path in paths {
        let error = said(
            client(&server)?
                .download(url(&server))
                .limits(|limits| limits.overwrite = true)
                .to_file(path)
                .await,
        );
        assert!(error.contains("it cannot be written: it is not a regular file"), "{error}");
    }
    assert!(server.stored().is_empty());
    Ok(())
}

#[tokio::test]
async fn a_file_that_appears_during_the_download_is_not_replaced() -> TestResult {
    let scratch = Scratch::new()?;
    let path = scratch.path("a.png");
    let meanwhile = path.clone();
    let server = Server::start(move |_| match std::fs::write(&meanwhile, "of another") {
        Ok(()) => content(&[], b"new"),
        Err(_) => Reaction::status(500),
    });
    let error = said(client(&server)?.download(url(&server)).to_file(&path).await);
    assert!(error.contains("a.png: it exists already"), "{error}");
    assert_eq!((std::fs::read_to_string(&path)?, scratch.names()?.len()), ("of another".to_owned(), 1));
    Ok(())
}

#[tokio::test]
async fn a_file_in_a_folder_gets_the_extension_of_its_mime_type() -> TestResult {
    for (mime, target, stem, name) in [
        ("image/jpeg", "output.png", "a", "a.jpg"),
        ("image/png; charset=binary", "output", "a", "a.png"),
        ("video/mp4", "output", "a.b", "a.b.mp4"),
        ("application/octet-stream", "output.webp", "a", "a.webp"),
        ("", "output.webp?a=b.c", "a", "a.webp"),
        ("", "output", "a", "a"),
        ("image/x-unheard-of", "output", "a", "a"),
        ("image/gif", "output", "../../a", "_._.._a.gif"),
        ("image/gif", "output", ".a", "_a.gif"),
    ] {
        let scratch = Scratch::new()?;
        let server = Server::start(move |_| content(&[("content-type", mime)], b"new"));
        let url = format!("{}/{target}", server.origin());
        let file = client(&server)?.download(url).to_dir(scratch.path(""), stem).await?;
        assert_eq!((scratch.names()?, file.path), (vec![name.to_owned()], scratch.path(name)));
    }
    Ok(())
}

#[tokio::test]
async fn a_name_that_exists_in_a_folder_gets_a_number() -> TestResult {
    let scratch = Scratch::new()?;
    let server = Server::start(|_| content(&[("content-type", "image/png")], b"new"));
    let download = client(&server)?.download(url(&server));
    let folder = scratch.path("new");
    for name in ["a.png", "a-2.png", "a-3.png"] {
        assert_eq!(download.clone().to_dir(&folder, "a").await?.path, folder.join(name));
    }
    assert_eq!(
        download.limits(|limits| limits.overwrite = true).to_dir(&folder, "a").await?.path,
        folder.join("a.png")
    );
    assert_eq!(std::fs::read_dir(folder)?.count(), 3);
    Ok(())
}

#[tokio::test]
async fn a_download_can_be_read_in_memory_and_as_a_stream() -> TestResult {
    let body: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
    let sent = body.clone();
    let server = Server::start(move |_| content(&[], &sent));
    let download = client(&server)?.download(url(&server));
    assert!(download.clone().bytes().await? == body);
    let mut stream = download.stream();
    let mut read = Vec::new();
    while let Some(bytes) = stream.next().await {
        read.extend_from_slice(&bytes?);
    }
    assert!(read == body);
    Ok(())
}

#[tokio::test]
async fn the_etag_is_read_without_the_content() -> TestResult {
    let mut answers = [
        Reaction::status(503),
        content(&[("etag", "\"0cc175b9\"")], b""),
        content(&[("etag", "W/\"0cc175b9\"")], b""),
        content(&[], b""),
        refusal(404, "NoSuchKey"),
    ]
    .into_iter();
    let server = Server::start(move |request| match request.method.as_str() {
        "HEAD" => answers.next().unwrap_or_else(|| Reaction::status(500)),
        method => content(&[("etag", method)], b""),
    });
    let download = client(&server)?.download(url(&server));
    for etag in [Some("0cc175b9"), Some("0cc175b9"), None] {
        assert_eq!(download.clone().etag().await?.as_deref(), etag);
    }
    let error = download.etag().await;
    assert!(matches!(&error, Err(Error::File(error)) if error.kind == FileErrorKind::NotFound), "{error:?}");
    Ok(())
}

#[tokio::test]
async fn a_stream_that_is_cut_ends_with_an_error() -> TestResult {
    let server = Server::start(|_| content(&[("content-length", "1000")], &[0; 10]));
    let mut stream = client(&server)?.download(url(&server)).stream();
    assert!(stream.next().await.is_some_and(|first| first.is_ok_and(|bytes| bytes.len() == 10)));
    assert!(stream.next().await.is_some_and(|last| last.is_err()));
    assert!(stream.next().await.is_none());
    Ok(())
}

#[tokio::test]
async fn a_download_retries_before_its_content_and_leaves_no_partial_file() -> TestResult {
    let scratch = Scratch::new()?;
    let mut failures = [Reaction::DropAfter(0), Reaction::status(503)].into_iter();
    let server = Server::start(move |_| failures.next().unwrap_or_else(|| content(&[], b"content")));
    assert_eq!(client(&server)?.download(url(&server)).bytes().await?, "content");
    assert_eq!(server.stored().len(), 3);
    let server = Server::start(|_| content(&[("content-length", "1000")], &[0; 10]));
    let error = said(client(&server)?.download(url(&server)).to_file(scratch.path("a")).await);
    assert!(error.contains("127.0.0.1: the connection to object storage was lost"), "{error}");
    assert_eq!((server.stored().len(), scratch.names()?.len()), (1, 0));
    Ok(())
}

#[tokio::test]
async fn a_range_that_was_not_requested_is_an_error() -> TestResult {
    let scratch = Scratch::new()?;
    let server = Server::start(|_| Reaction::Answer(206, Vec::new(), b"part".to_vec()));
    let error = said(client(&server)?.download(url(&server)).to_file(scratch.path("a")).await);
    assert!(error.contains("a part of the content only"), "{error}");
    assert_eq!(server.stored().len(), 1);
    Ok(())
}

#[tokio::test]
async fn too_much_is_refused_before_and_while_it_comes() -> TestResult {
    let scratch = Scratch::new()?;
    for headers in [&[][..], &[("content-length", "")]] {
        let server = Server::start(move |_| content(headers, &[0; 1001]));
        for (max, fits) in [(1001, true), (1000, false)] {
            let path = scratch.path("a.png");
            let download =
                client(&server)?.download(url(&server)).limits(|limits| limits.max_size = Some(max));
            assert_eq!(download.clone().bytes().await.is_ok(), fits);
            let downloaded = download.to_file(&path).await;
            assert_eq!(downloaded.is_ok(), fits, "{downloaded:?}");
            assert_eq!(scratch.names()?.len(), usize::from(fits), "nothing stays of what was refused");
            let _ = std::fs::remove_file(path);
            let error = said(downloaded);
            assert!(fits || error.contains("127.0.0.1: the content has more than 1000 bytes"), "{error}");
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
    });
    let (client, path) = (client(&server)?, scratch.path("a"));
    client.download(url(&server)).to_file(&path).await?;
    assert_eq!(std::fs::read_to_string(&path)?, "here");
    for (from, problem) in
        [("loop", "more than 5 redirects"), ("file", "leads to no URL"), ("nowhere", "leads to no URL")]
    {
        let before = server.stored().len();
        let url = format!("{}/{from}", server.origin());
        let error = said(client.download(url).to_file(scratch.path("b")).await);
        assert!(error.contains(problem), "{error}");
        assert!(server.stored().len() - before <= 6);
    }
    Ok(())
}

#[tokio::test]
async fn a_refusal_is_readable_and_shows_no_more_than_the_host() -> TestResult {
    let scratch = Scratch::new()?;
    let server = Server::start(|_| refusal(403, "AccessDenied"));
    let download = client(&server)?.download(url(&server));
    assert!(!format!("{download:?}").contains(SIGNATURE), "{download:?}");
    let error = said(download.to_file(scratch.path("a")).await);
    assert!(
        error.contains("127.0.0.1: object storage responded with 403 (AccessDenied): … is not good enough"),
        "{error}"
    );
    assert!(!error.contains(SIGNATURE) && !error.contains("output.png"), "{error}");
    assert_eq!((server.stored().len(), scratch.names()?.len()), (1, 0));
    for no_url in ["", "a.png", "ftp://host.example/a", "file:///etc/hostname"] {
        let error = said(client(&server)?.download(no_url).to_file(scratch.path("a")).await);
        assert!(error.contains("not a URL with http"), "{error}");
    }
    Ok(())
}

#[tokio::test]
async fn a_url_that_the_filter_refuses_is_never_requested() -> TestResult {
    let server = Server::start(|_| redirect("/internal"));
    let download = client(&server)?.download(url(&server));
    let error = said(
        download.clone().url_filter(|_| Err("it leads into the local network".to_owned())).bytes().await,
    );
    assert!(error.contains("127.0.0.1: it leads into the local network"), "{error}");
    assert!(server.stored().is_empty());
    let refused = ["/internal".to_owned()];
    let filter = move |url: &reqwest::Url| match refused.iter().any(|path| path == url.path()) {
        true => Err("it leads to an internal page".to_owned()),
        false => Ok(()),
    };
    let error = said(download.url_filter(filter).bytes().await);
    assert!(error.contains("it leads to an internal page"), "{error}");
    assert_eq!(server.stored().len(), 1, "the redirect was not followed");
    Ok(())
}

#[tokio::test]
async fn silence_and_the_deadline_end_it() -> TestResult {
    let scratch = Scratch::new()?;
    let server = Server::start(|_| Reaction::Silence);
    let short = Duration::from_millis(100);
    let (client, started) = (client(&server)?, Instant::now());
    let download = client.download(url(&server)).limits(|limits| limits.deadline = Some(short));
    let downloaded = download.clone().to_file(scratch.path("a")).await;
    assert!(matches!(downloaded, Err(Error::DeadlineReached(_))), "{downloaded:?}");
    let first = download.stream().next().await;
    assert!(matches!(first, Some(Err(Error::DeadlineReached(_)))), "{first:?}");
    assert!(started.elapsed() < Duration::from_secs(5), "long before anything else would end it");

    let idle = Duration::from_millis(500);
    let client = server
        .builder(2)
        .settings(|settings| settings.transfer_timeout = idle)
        .settings(|settings| settings.read_timeout = idle)
        .build()?;
    let error = said(client.download(url(&server)).to_file(scratch.path("a")).await);
    assert!(error.contains("127.0.0.1: nothing was transferred for 0.5 s"), "{error}");
    assert_eq!((server.stored().len(), scratch.names()?.len()), (4, 0));
    Ok(())
}

#[test]
fn a_redirect_never_leads_from_https_to_http() {
    use reqwest::Url;
    use reqwest::header::{HeaderMap, HeaderValue, LOCATION};

    let leads = |from: &str, location: &str| {
        let headers =
            HeaderMap::from_iter(HeaderValue::from_str(location).map(|location| (LOCATION, location)));
        match Url::parse(from).map(|from| super::redirect(&from, &headers)) {
            Ok(Ok(to)) => to.to_string(),
            Ok(Err(problem)) => problem.to_owned(),
            Err(error) => error.to_string(),
        }
    };
    assert_eq!(leads("https://a.example/b/c", "d?e"), "https://a.example/b/d?e");
    assert_eq!(leads("http://a.example/", "https://b.example/"), "https://b.example/");
    assert_eq!(leads("http://a.example/", "//b.example/"), "http://b.example/");
    assert!(leads("https://a.example/", "http://a.example/").contains("from https to unencrypted http"));
    for location in ["file:///etc/hostname", "data:,x", "https://"] {
        assert!(leads("https://a.example/", location).contains("leads to no URL"), "{location}");
    }
}

#[tokio::test]
async fn a_web_page_or_compressed_bytes_are_not_taken_for_a_picture() -> TestResult {
    let mut answers = [
        content(&[("content-type", "text/html")], b"<html>Sign in</html>"),
        content(&[("content-type", "image/png")], b"pixels"),
        content(&[("content-type", "image/png"), ("content-encoding", "gzip")], b"packed"),
        content(&[("content-type", "text/html")], b"<html>A report</html>"),
    ]
    .into_iter();
    let server = Server::start(move |_| answers.next().unwrap_or_else(|| Reaction::status(500)));
    let client = client(&server)?;
    assert_eq!(client.download(url(&server)).bytes().await?, b"pixels"[..]);
    let error = client.download(url(&server)).bytes().await;
    assert!(matches!(&error, Err(Error::File(error)) if error.kind == FileErrorKind::Rejected), "{error:?}");
    let report = client.download(format!("{}/report", server.origin())).bytes().await?;
    assert_eq!(report, b"<html>A report</html>"[..]);
    Ok(())
}
