//! Errors of files: sources, uploads, downloads.

use inferstore::reqwest::Method;
use inferstore::{Client, Error, File, FileError, FileErrorKind, Retry};

use super::{Report, failed, service};

const KINDS: [FileErrorKind; 13] = [
    FileErrorKind::NotFound,
    FileErrorKind::Unreadable,
    FileErrorKind::Empty,
    FileErrorKind::TooLarge,
    FileErrorKind::Changed,
    FileErrorKind::InvalidName,
    FileErrorKind::InvalidMimeType,
    FileErrorKind::AlreadyExists,
    FileErrorKind::Unwritable,
    FileErrorKind::InvalidTarget,
    FileErrorKind::Forbidden,
    FileErrorKind::Rejected,
    FileErrorKind::Transport,
];

#[test]
fn kinds() {
    let mut report = Report::default();
    for kind in KINDS {
        let mut error = FileError::new("photos/a.png", kind, "the problem").with_source("the cause");
        error.field = Some("input_image".to_owned());
        report.add(format!("{kind:?}"), &Error::from(error));
    }
    insta::assert_snapshot!(report.render());
}

async fn upload(client: &Client, file: File) -> Error {
    failed(client.folder("samples").upload(file).await)
}

#[tokio::test(start_paused = true)]
async fn uploads() {
    let service = service();
    let client =
        service.client_builder().settings(|settings| settings.retry = Retry::none()).build().unwrap();
    let mut report = Report::default();
    let file = || File::bytes("a.png", "pixels");
    for (title, file) in [
        ("no such file", File::path("no/such/file.png")),
        ("a folder", File::path("/")),
        ("empty", File::bytes("a.png", "")),
        ("too large", File::bytes("a.png", vec![0; 104_857_601])),
        ("without a name", File::bytes(" ", "pixels")),
        ("no MIME type", file().with_mime("picture")),
    ] {
        report.add(title, &upload(&client, file).await);
    }
    for (title, target) in [
        (
            "a target that is no URL",
            r#"{"endpoint": "host", "fields": "{}", "download_url": "https://host/a"}"#,
        ),
        (
            "a target without fields",
            r#"{"endpoint": "https://host", "fields": "[]", "download_url": "https://host/a"}"#,
        ),
    ] {
        let response = format!(r#"{{"status": "success", "message": "ok", "data": {target}}}"#);
        service.responds("createPresignedUpload", 200, response);
        report.add(title, &upload(&client, file()).await);
    }
    let xml = |code: &str| format!("<Error><Code>{code}</Code><Message>the reason</Message></Error>");
    for (title, status, body) in [
        ("a redirect", 302, String::new()),
        ("rejected", 400, xml("EntityTooLarge")),
        ("forbidden", 403, xml("SignatureDoesNotMatch")),
        ("expired", 400, xml("ExpiredToken")),
        ("busy", 503, xml("SlowDown")),
        ("a page", 500, "<html>Oops</html>".to_owned()),
    ] {
        for _ in 0..9 {
            service.responds("upload", status, &body);
        }
        report.add(title, &upload(&client, file()).await);
        // The remaining responses are for other uploads.
        while client.folder("samples").upload(file()).await.is_err() {}
    }
    service.loses_response("upload");
    report.add("lost", &upload(&client, file()).await);
    insta::assert_snapshot!(report.render());
}

#[tokio::test(start_paused = true)]
async fn downloads() {
    let service = service();
    let client =
        service.client_builder().settings(|settings| settings.retry = Retry::none()).build().unwrap();
    let mut report = Report::default();
    let url = service.stores("a.png", "image/png", "pixels");
    let download = || client.download(&url);
    let folder = tempfile::tempdir().unwrap();
    let taken = folder.path().join("a.png");
    std::fs::write(&taken, "mine").unwrap();
    let shown = |error: Error| match error {
        Error::File(mut file) => {
            file.file = file.file.replace(folder.path().to_str().unwrap(), "FOLDER");
            Error::File(file)
        }
        other => other,
    };
    for (title, error) in [
        (
            "larger than the limit",
            failed(download().limits(|limits| limits.max_size = Some(3)).bytes().await),
        ),
        (
            "refused by the filter",
            failed(download().url_filter(|_| Err("not this host".to_owned())).bytes().await),
        ),
        ("no such file", failed(client.download("http://storage.localhost/9/b.png").bytes().await)),
        ("taken", failed(download().to_file(&taken).await)),
        ("below a file", failed(download().to_file(taken.join("b.png")).await)),
        ("not a path", failed(download().to_file("").await)),
    ] {
        report.add(title, &shown(error));
    }
    for (title, status) in
        [("expired", 403), ("gone", 410), ("busy", 503), ("a part", 206), ("a redirect", 302)]
    {
        service.responds("download", status, "");
        report.add(title, &failed(download().bytes().await));
    }
    service.loses_response("download");
    report.add("lost", &failed(download().bytes().await));
    let _ = client.request(Method::GET, "/api-key/balance", None).await.unwrap();
    insta::assert_snapshot!(report.render());
}
