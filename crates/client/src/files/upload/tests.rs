//! Uploads over a socket: requests, and broken connections.

mod failures;
pub(crate) mod loopback;

use crate::files::upload::{UploadEvent, UploadedFile};
use crate::{Client, File, Result};
use loopback::{FORM_CEILING, KEY, Reaction, Scratch, Server, TestResult, said};

async fn upload_with_events(
    client: &Client,
    file: impl Into<File>,
) -> (Result<UploadedFile>, Vec<UploadEvent>) {
    let mut stream = client.folder("samples").upload(file).events();
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        events.push(event);
    }
    (stream.finish().await, events)
}

/// Asserts that progress never decreases, and returns its end.
fn end_of_progress(events: &[UploadEvent]) -> u64 {
    let sent = events.iter().filter_map(|event| match event {
        UploadEvent::Progress { sent, .. } => Some(*sent),
        _ => None,
    });
    let sent: Vec<u64> = sent.collect();
    assert!(sent.windows(2).all(|pair| pair[0] < pair[1]), "{sent:?}");
    sent.last().copied().unwrap_or_default()
}

/// Applies the reactions to the first requests, and responds with 200 afterwards.
fn at_first(
    reactions: impl IntoIterator<Item = Reaction, IntoIter: Send + 'static>,
) -> impl FnMut(&inferstore_wire::Request) -> Reaction {
    let mut reactions = reactions.into_iter();
    move |_| reactions.next().unwrap_or_else(|| Reaction::status(200))
}

#[tokio::test]
async fn both_methods_send_exactly_the_file_with_its_length() -> TestResult {
    let scratch = Scratch::new()?;
    for (size, method) in [
        (1, "POST"),
        (FORM_CEILING, "POST"),
        (FORM_CEILING + 1, "PUT"),
        (crate::files::source::MAX_SIZE, "PUT"),
    ] {
        let server = Server::start(at_first([]));
        let path = scratch.sparse("a.png", size)?;
        let (uploaded, events) = upload_with_events(&server.client()?, path.as_path()).await;
        let uploaded = uploaded?;
        assert_eq!(
            (uploaded.size, uploaded.mime.as_str(), uploaded.name.as_str()),
            (size, "image/png", "a.png")
        );
        assert_eq!(uploaded.download_url, "https://host.example/1");
        assert_eq!(events.first(), Some(&UploadEvent::Started { size }));
        assert_eq!(end_of_progress(&events), size);

        let (presigned, stored) = (server.presigned(), server.stored());
        assert_eq!((presigned.len(), stored.len()), (1, 1));
        assert_eq!(presigned[0].header("x-api-key"), Some(KEY));
        let asked: serde_json::Value = serde_json::from_slice(&presigned[0].body)?;
        let expected =
            serde_json::json!({ "folder": "samples", "mime": "image/png", "name": "a.png", "size": size });
        assert_eq!(asked, expected);
        let request = &stored[0];
        assert_eq!(request.method, method);
        assert_eq!(request.header("x-api-key"), None);
        assert_eq!(request.header("transfer-encoding"), None, "never chunked");
        assert_eq!(request.header("content-length"), Some(request.body_length.to_string().as_str()));
        if method == "PUT" {
            assert_eq!((request.body_length, request.header("content-type")), (size, Some("image/png")));
        } else {
            assert!(request.body_length > size);
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_form_holds_its_fields_in_order_and_the_file_last() -> TestResult {
    let server = Server::start(at_first([]));
    let file = File::bytes("né \"1\".txt", &b"line\r\n--line"[..]);
    server.client()?.folder("samples").upload(file).await?;
    let stored = server.stored();
    let boundary =
        stored[0].header("content-type").and_then(|kind| kind.strip_prefix("multipart/form-data; boundary="));
    let boundary = boundary.unwrap_or("no boundary");
    let part = |name: &str, value: &str| {
        format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    let fields = [("x-amz-signature", loopback::SIGNATURE), ("key", "k"), ("Content-Type", "text/plain")];
    let fields: String = fields.iter().map(|(name, value)| part(name, value)).collect();
    let file = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"né _1_.txt\"\r\n\
         Content-Type: text/plain\r\n\r\nline\r\n--line\r\n--{boundary}--\r\n"
    );
    assert_eq!(String::from_utf8_lossy(&stored[0].body), format!("{fields}{file}"));
    Ok(())
}

#[tokio::test]
async fn files_that_cannot_be_stored_are_refused_before_anything_is_sent() -> TestResult {
    let scratch = Scratch::new()?;
    let server = Server::start(at_first([]));
    let folder = server.client()?.folder("samples");
    let endless = File::reader("endless", tokio::io::repeat(0));
    for (file, problem) in [
        (scratch.sparse("empty", 0)?.into(), "empty"),
        (scratch.sparse("large", 104_857_601)?.into(), "the storage takes at most 104857600 bytes"),
        (File::bytes("empty", Vec::new()), "empty"),
        (File::reader("empty", tokio::io::empty()), "empty"),
        (endless.clone(), "the storage takes at most 104857600 bytes"),
        (endless, "the storage takes at most 104857600 bytes"),
        (scratch.path("missing").into(), "cannot be read"),
        (scratch.path(".").into(), "not a regular file"),
        (File::bytes(" ", &b"x"[..]), "no name"),
        (File::bytes("a", &b"x"[..]).with_mime("image/png\r\nx: y"), "not a MIME type"),
    ] {
        let error = said(folder.upload(file.clone()).await);
        assert!(error.contains(problem), "{file:?}: {error}");
    }
    assert_eq!((server.presigned().len(), server.stored().len()), (0, 0));
    Ok(())
}

#[tokio::test]
async fn a_picture_is_stored_as_what_its_content_is() -> TestResult {
    let server = Server::start(at_first([]));
    let file = File::bytes("photo.jpg", &b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..]);
    assert_eq!(server.client()?.folder("samples").upload(file).await?.mime, "image/png");
    Ok(())
}

#[tokio::test]
async fn a_reader_is_read_once_and_sent_as_often_as_need_be() -> TestResult {
    use tokio::io::{AsyncReadExt, BufReader, repeat};

    let server = Server::start(at_first([Reaction::DropAfter(1_000_000), Reaction::status(500)]));
    let size = FORM_CEILING + 1;
    let file = File::reader("a.bin", BufReader::new(repeat(7)).take(size));
    let client = server.client()?;
    let (uploaded, events) = upload_with_events(&client, file.clone()).await;
    assert_eq!((uploaded?.size, end_of_progress(&events)), (size, size));
    assert_eq!(client.folder("samples").upload(file).await?.size, size, "a clone of it");
    let whole: Vec<_> = server.stored().into_iter().filter(|request| request.body_length == size).collect();
    assert_eq!(whole.len(), 3);
    assert!(whole.iter().all(|request| request.body.iter().all(|byte| *byte == 7)));
    Ok(())
}

#[tokio::test]
async fn uploads_are_values_that_can_be_spawned_and_joined() -> TestResult {
    let server = Server::start(at_first([]));
    let client = server.client()?;
    let upload = |name: &str| client.folder("samples").upload(File::bytes(name, &b"x"[..]));
    let spawned = tokio::spawn(upload("a").into_future());
    let (one, two) = tokio::join!(upload("b"), upload("c").org_username(None).deadline(None));
    assert_eq!((spawned.await??.size, one?.size, two?.size), (1, 1, 1));
    Ok(())
}

#[tokio::test]
async fn an_upload_for_an_organization_is_stored_as_a_file_of_it() -> TestResult {
    let server = Server::start(at_first([]));
    let upload = server.client()?.folder("samples").upload(File::bytes("a", &b"x"[..]));
    upload.org_username("lab".to_owned()).await?;
    let asked: serde_json::Value = serde_json::from_slice(&server.presigned()[0].body)?;
    assert_eq!(asked["org_username"], "lab");
    Ok(())
}

#[test]
fn a_stored_file_can_be_written_down_and_made_in_tests() -> TestResult {
    let file = UploadedFile { size: 7, ..UploadedFile::default() };
    let json = serde_json::to_string(&file)?;
    assert_eq!(serde_json::from_str::<UploadedFile>(&json)?, file);
    Ok(())
}
