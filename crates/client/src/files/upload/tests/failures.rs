//! Failing uploads: retries, targets, and final errors.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::Instant;

use super::loopback::{FORM_CEILING, KEY, Reaction, SIGNATURE, Scratch, Server, TestResult, refusal, said};
use super::{at_first, end_of_progress, upload_with_events};
use crate::files::source::Prepared;
use crate::files::upload::{UploadEvent, UploadedFile, response_timeout, upload};
use crate::transport::Timeouts;
use crate::transport::deadline::Deadline;
use crate::transport::error::FileErrorKind;
use crate::transport::events::ignored;
use crate::{Client, Error, File};

async fn send(client: &Client, file: &Prepared) -> crate::Result<UploadedFile> {
    let (folder, deadline) = (crate::types::UploadFolder::Samples, Deadline::never());
    upload(&client.core, folder, file, None, deadline, ignored(), &|_| ()).await
}

fn retries(events: &[UploadEvent]) -> usize {
    events.iter().filter(|event| matches!(event, UploadEvent::Retrying { .. })).count()
}

#[tokio::test]
async fn a_retried_upload_sends_the_same_bytes_to_the_same_target() -> TestResult {
    let scratch = Scratch::new()?;
    for size in [1000, 3 * FORM_CEILING] {
        let failures = [Reaction::DropAfter(500), Reaction::status(500), refusal(400, "RequestTimeout")];
        let server = Server::start(at_first(failures));
        let path = scratch.sparse("a.png", size)?;
        let (uploaded, events) = upload_with_events(&server.client()?, path).await;
        assert_eq!(uploaded?.download_url, "https://host.example/1");
        assert_eq!((end_of_progress(&events), retries(&events)), (size, 3));
        let stored = server.stored();
        assert_eq!((server.presigned().len(), stored.len()), (1, 4));
        assert!(stored.iter().all(|request| request.target == stored[0].target));
        let lengths: Vec<_> = stored.iter().map(|request| request.header("content-length")).collect();
        assert!(lengths.windows(2).all(|pair| pair[0] == pair[1]), "{lengths:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_web_page_in_place_of_the_store_is_no_success() -> TestResult {
    let page = || {
        let headers = vec![("content-type", "Text/HTML; charset=utf-8".to_owned())];
        Reaction::Answer(200, headers, b"<html>Sign in</html>".to_vec())
    };
    let server = Server::start(at_first([page(), page()]));
    let (uploaded, events) = upload_with_events(&server.client()?, File::bytes("a.txt", &b"text"[..])).await;
    uploaded?;
    assert_eq!((retries(&events), server.stored().len()), (2, 3));
    let server = Server::start(move |_| page());
    let (uploaded, _) = upload_with_events(&server.client()?, File::bytes("a.txt", &b"text"[..])).await;
    let Err(Error::File(error)) = uploaded else { return Err("it was stored".into()) };
    assert!(error.kind == FileErrorKind::Transport && error.to_string().contains("a web page"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_refused_target_is_replaced_at_most_twice() -> TestResult {
    let server = Server::start(at_first([403, 403].map(|status| refusal(status, "AccessDenied"))));
    let (uploaded, events) = upload_with_events(&server.client()?, File::bytes("a.txt", &b"text"[..])).await;
    assert_eq!(uploaded?.download_url, "https://host.example/3", "of the target that took it");
    assert_eq!((server.presigned().len(), retries(&events)), (3, 2));
    let targets: Vec<_> = server.stored().into_iter().map(|request| request.target).collect();
    assert_eq!(targets, ["/bucket?target=1", "/bucket?target=2", "/bucket?target=3"]);

    let server = Server::start(|_| refusal(403, "AccessDenied"));
    let (uploaded, _) = upload_with_events(&server.client()?, File::bytes("a.txt", &b"text"[..])).await;
    assert_eq!((server.presigned().len(), server.stored().len()), (3, 3));
    let Err(Error::File(error)) = uploaded else { return Err("it was stored".into()) };
    assert_eq!((error.kind, error.status), (FileErrorKind::Forbidden, Some(403)));
    let error = format!("{error} {error:?}");
    assert!(
        error.contains("a.txt: object storage responded with 403 (AccessDenied): … is not good enough"),
        "{error}"
    );
    assert!(!error.contains(SIGNATURE) && !error.contains(KEY), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_refusal_of_the_file_is_not_repeated() -> TestResult {
    let moved = || Reaction::Answer(307, vec![("location", "/elsewhere".to_owned())], Vec::new());
    for (reaction, problem) in [
        (refusal(400, "EntityTooLarge"), "responded with 400 (EntityTooLarge): … is not good enough"),
        (
            Reaction::Answer(404, Vec::new(), b"<html>\nno</html>".to_vec()),
            "responded with 404: an HTML page",
        ),
        (moved(), "responded with 307, and this redirect is not followed"),
    ] {
        let server = Server::start(at_first([reaction]));
        let (uploaded, _) = upload_with_events(&server.client()?, File::bytes("a.txt", &b"text"[..])).await;
        let error = said(uploaded);
        assert!(error.contains(problem), "{error}");
        assert_eq!((server.presigned().len(), server.stored().len()), (1, 1));
    }
    Ok(())
}

#[tokio::test]
async fn a_response_before_the_end_of_the_file_counts_if_it_is_a_refusal() -> TestResult {
    let scratch = Scratch::new()?;
    let path = scratch.sparse("a.bin", 24 * 1024 * 1024)?;
    let server = Server::start(at_first([Reaction::Early(403), Reaction::Early(200)]));
    let (uploaded, events) = upload_with_events(&server.client()?, path).await;
    assert_eq!(uploaded?.download_url, "https://host.example/2");
    let problems: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            UploadEvent::Retrying { problem, .. } => Some(problem.as_str()),
            _ => None,
        })
        .collect();
    let too_early = "object storage responded before it had the whole file";
    assert_eq!(problems, ["object storage responded with 403", too_early]);
    assert_eq!(server.stored().len(), 3);
    Ok(())
}

#[tokio::test]
async fn a_file_that_changes_meanwhile_is_not_stored() -> TestResult {
    let scratch = Scratch::new()?;
    // More than the buffers of two sockets, so that the end is read after the change.
    let size = 24 * 1024 * 1024;
    for changed_size in [size + 1, size - 1] {
        let path = scratch.sparse("a.bin", size)?;
        let changed = path.clone();
        let server = Server::start(move |_| {
            let file = std::fs::OpenOptions::new().append(true).open(&changed);
            let is_changed = file.and_then(|file| file.set_len(changed_size)).is_ok();
            Reaction::status(if is_changed { 200 } else { 500 })
        });
        let (uploaded, events) = upload_with_events(&server.client()?, path).await;
        let error = said(uploaded);
        assert!(error.contains("a.bin: it changed while it was uploaded"), "{error}");
        assert!(end_of_progress(&events) < size);
        assert!(server.stored().iter().all(|request| request.body_length < size));
        assert_eq!((server.presigned().len(), retries(&events)), (1, 0));
    }
    Ok(())
}

async fn prepared_file(scratch: &Scratch) -> Result<(PathBuf, Prepared), Box<dyn std::error::Error>> {
    let path = scratch.path("a.txt");
    std::fs::write(&path, "before")?;
    let prepared = File::from(path.as_path()).prepare(None).await?;
    Ok((path, prepared))
}

#[tokio::test]
async fn a_file_that_is_gone_before_it_is_sent_is_told_by_name() -> TestResult {
    let scratch = Scratch::new()?;
    let server = Server::start(at_first([]));
    let client = server.client()?;
    let (path, prepared) = prepared_file(&scratch).await?;
    std::fs::remove_file(&path)?;
    let uploaded = send(&client, &prepared).await;
    let error = said(uploaded);
    assert!(error.contains("a.txt: it cannot be read"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_file_that_changed_before_it_is_sent_is_not_sent() -> TestResult {
    let scratch = Scratch::new()?;
    let server = Server::start(at_first([]));
    let client = server.client()?;
    let (path, prepared) = prepared_file(&scratch).await?;
    // Even with the same length and time.
    let time = std::fs::metadata(&path)?.modified()?;
    std::fs::write(&path, "after.")?;
    std::fs::File::options().append(true).open(&path)?.set_modified(time)?;
    let uploaded = send(&client, &prepared).await;
    let error = said(uploaded);
    assert!(error.contains("it changed while it was uploaded"), "{error}");
    assert!(server.stored().iter().all(|request| !String::from_utf8_lossy(&request.body).contains("after.")));
    Ok(())
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_cannot_be_read_to_its_end_is_not_said_to_have_changed() -> TestResult {
    let scratch = Scratch::new()?;
    let server = Server::start(at_first([]));
    let client = server.client()?;
    let (path, prepared) = prepared_file(&scratch).await?;
    // A folder can be opened, but not read.
    std::fs::remove_file(&path)?;
    std::fs::create_dir(&path)?;
    let error = said(send(&client, &prepared).await);
    assert!(error.contains("a.txt: it cannot be read"), "{error}");
    Ok(())
}

const IDLE: Duration = Duration::from_millis(500);

fn strict_client(server: &Server) -> crate::Result<Client> {
    server
        .builder(1)
        .settings(|settings| settings.transfer_timeout = IDLE)
        .settings(|settings| settings.read_timeout = IDLE)
        .build()
}

#[tokio::test]
async fn an_upload_that_moves_may_take_its_time() -> TestResult {
    let scratch = Scratch::new()?;
    let size = 24 * 1024 * 1024;
    let server = Server::start(at_first([Reaction::Slowly(IDLE * 4)]));
    let (uploaded, _) = upload_with_events(&strict_client(&server)?, scratch.sparse("a.bin", size)?).await;
    assert_eq!(uploaded?.size, size);
    Ok(())
}

#[test]
fn the_response_timeout_allows_a_slow_line_to_empty_the_buffers() {
    let second = Duration::from_secs(1);
    let timeouts = Timeouts { read: 60 * second, transfer: 30 * second };
    assert_eq!(response_timeout(timeouts, 1), 60 * second);
    // Time for a full socket buffer, at 40 kB/s.
    assert!(response_timeout(timeouts, 4 * 1024 * 1024) > 60 * second + 100 * second);
    assert!(response_timeout(timeouts, u64::MAX) < 330 * second);
}

#[tokio::test]
async fn a_retry_later_than_allowed_is_left_to_the_caller() -> TestResult {
    let later = Reaction::Answer(429, vec![("retry-after", "3600".to_owned())], Vec::new());
    let server = Server::start(at_first([later]));
    let (uploaded, events) = upload_with_events(&server.client()?, File::bytes("a.txt", &b"text"[..])).await;
    let Err(Error::File(error)) = uploaded else { return Err("it was stored".into()) };
    assert_eq!((error.kind, error.retry_after), (FileErrorKind::Transport, Some(Duration::from_secs(3600))));
    assert_eq!((server.stored().len(), retries(&events)), (1, 0));
    Ok(())
}

#[tokio::test]
async fn an_idle_upload_times_out() -> TestResult {
    let scratch = Scratch::new()?;
    let server = Server::start(|_| Reaction::Silence);
    for size in [1, 24 * 1024 * 1024] {
        let (uploaded, _) =
            upload_with_events(&strict_client(&server)?, scratch.sparse("a.bin", size)?).await;
        let error = said(uploaded);
        assert!(error.contains("nothing was transferred for 0.5 s"), "{error}");
    }
    Ok(())
}

#[tokio::test]
async fn the_deadline_bounds_everything() -> TestResult {
    let server = Server::start(|_| Reaction::Silence);
    let folder = server.client()?.folder("samples");
    let (never, _keep) = tokio::io::duplex(1);
    for file in [File::bytes("a.txt", &b"text"[..]), File::reader("a.txt", never)] {
        let deadline = Duration::from_millis(100);
        let started = Instant::now();
        let uploaded = folder.upload(file).deadline(deadline).await;
        assert!(matches!(uploaded, Err(Error::DeadlineReached(_))), "{uploaded:?}");
        assert!(started.elapsed() < Duration::from_secs(5), "long before anything else would end it");
    }
    Ok(())
}

#[tokio::test]
async fn a_refused_presign_comes_as_it_is() -> TestResult {
    let server = Server::start(at_first([]));
    let client = crate::Client::new(format!("{}/elsewhere/v1", server.origin()), crate::ApiKey::new(KEY))?;
    let (uploaded, _) = upload_with_events(&client, File::bytes("a.txt", &b"text"[..])).await;
    let operation = uploaded.err().and_then(|error| error.context().map(|context| context.operation));
    assert_eq!(operation, Some("createPresignedUpload"));
    Ok(())
}
