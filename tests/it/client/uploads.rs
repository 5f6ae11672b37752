//! Uploads over real sockets: exact at every boundary, in both tiers, and readable when they fail.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use inferstore::{Client, Error, File, FileErrorKind, Result, UploadEvent, UploadedFile};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::client;
use crate::support::scripted::{Content, Fault, PRESIGNED_SECRET, Route, ScriptedService, Upload};

/// The largest file that goes as a form, and the largest of all.
const FORM: u64 = 5_242_880;
const LARGEST: u64 = 104_857_600;

/// More than the buffers of two sockets hold.
const LONG: u64 = 48 * 1024 * 1024;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";

/// A folder that goes with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("inferstore-uploads-{test}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("temporary files can be made");
        Self(folder)
    }

    /// A file of zeros that takes no space.
    fn sparse(&self, size: u64) -> PathBuf {
        let path = self.0.join(format!("{size}.png"));
        fs::File::create(&path).and_then(|file| file.set_len(size)).expect("a file can be made");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Whatever is left is among the temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

async fn reported(client: &Client, file: impl Into<File>) -> (Result<UploadedFile>, Vec<UploadEvent>) {
    let mut upload = client.folder("samples").upload(file).events();
    let mut events = Vec::new();
    while let Some(event) = upload.next().await {
        events.push(event);
    }
    (upload.finish().await, events)
}

fn progress(events: &[UploadEvent]) -> Vec<u64> {
    let sent = events.iter().map(|event| match event {
        UploadEvent::Progress { sent, .. } => Some(*sent),
        _ => None,
    });
    sent.flatten().collect()
}

fn repeats(events: &[UploadEvent]) -> usize {
    events.iter().filter(|event| matches!(event, UploadEvent::Retrying { .. })).count()
}

/// What has to be true of every request of step 2.
fn assert_as_promised(upload: &Upload) {
    assert!(upload.content_length.is_some() && !upload.is_chunked, "{upload:?}");
    let foreign = |(name, _): &&(String, String)| name == "x-api-key" || name == "authorization";
    assert_eq!(upload.headers.iter().find(foreign), None);
    if upload.method == "POST" {
        // In the order in which the target names them.
        let fields = ["Content-Type", "key", "policy", "x-amz-algorithm", "x-amz-credential", "x-amz-date"];
        assert_eq!(upload.fields, [&fields[..], &["x-amz-signature", "file"]].concat());
    }
}

#[tokio::test]
async fn every_possible_size_arrives_whole_in_its_tier() {
    let (service, scratch) = (ScriptedService::start().await, Scratch::new("sizes"));
    service.keep_first(0);
    let client = client(&service);
    for (size, method) in [(1, "POST"), (FORM, "POST"), (FORM + 1, "PUT"), (LARGEST, "PUT")] {
        let (uploaded, events) = reported(&client, scratch.sparse(size)).await;
        assert_eq!(uploaded.expect("it is stored").size, size);
        let upload = service.uploads().pop().expect("it arrived");
        assert_eq!((upload.method.as_str(), upload.file.length, upload.stored), (method, size, true));
        assert_as_promised(&upload);
        let sent = progress(&events);
        assert!(sent.is_sorted() && sent.last() == Some(&size), "{size}: {sent:?}");
    }
    assert_eq!(service.count(Route::CreatePresignedUpload), 4);
}

#[tokio::test]
async fn impossible_sizes_are_refused_before_anything_is_sent() {
    let (service, scratch) = (ScriptedService::start().await, Scratch::new("impossible"));
    let client = client(&service);
    for (size, problem) in [(0, "empty"), (LARGEST + 1, "at most 104857600")] {
        let error =
            reported(&client, scratch.sparse(size)).await.0.expect_err("the storage does not take it");
        assert!(matches!(error, Error::File(_)) && error.to_string().contains(problem), "{error}");
    }
    assert_eq!(service.journal().len(), 0);
}

#[tokio::test]
async fn the_bytes_arrive_as_they_are_whichever_way_they_go() {
    let service = ScriptedService::start().await;
    let client = client(&service);
    for size in [1, 65_536, 65_537, FORM, FORM + 1] {
        let content = Content::pattern(size);
        let bytes: Vec<u8> = (0..size).map(|offset| (offset % 251) as u8).collect();
        let file = [File::bytes("a.bin", bytes.clone()), File::reader("a.bin", std::io::Cursor::new(bytes))];
        for file in file {
            let uploaded = client.folder("documents").upload(file).await.expect("it is stored");
            let upload = service.uploads().pop().expect("it arrived");
            assert_eq!(upload.file.fingerprint, content.fingerprint());
            assert_as_promised(&upload);
            assert!(uploaded.download_url.ends_with("/documents/a.bin"), "{}", uploaded.download_url);
        }
    }
}

#[tokio::test]
async fn a_target_that_has_expired_is_replaced_by_a_fresh_one_at_most_twice() {
    let service = ScriptedService::start().await;
    let client = client(&service);
    service.issue_expired_targets(2);
    let (uploaded, events) = reported(&client, File::bytes("a.png", PNG)).await;
    uploaded.expect("the third target is good");
    assert_eq!((service.count(Route::CreatePresignedUpload), repeats(&events)), (3, 2));

    service.issue_expired_targets(usize::MAX);
    let error = reported(&client, File::bytes("a.png", PNG)).await.0.expect_err("no target is good");
    assert_eq!(service.count(Route::CreatePresignedUpload), 6);
    assert!(error.to_string().contains("403 (AccessDenied): Request has expired"), "{error}");
}

#[tokio::test]
async fn a_refusal_of_the_store_is_reported_in_its_words_and_without_its_secrets() {
    let service = ScriptedService::start().await;
    let refusal = Fault::Status {
        code: 400,
        headers: Vec::new(),
        content_type: "application/xml".to_owned(),
        body: format!(
            "<?xml version=\"1.0\"?><Error><Code>EntityTooLarge</Code><Message>More than the &quot;size&quot; \
             of policy={PRESIGNED_SECRET}</Message></Error>"
        ),
        committed: false,
    };
    service.fault(Route::StorageUpload, refusal).await;
    let error = reported(&client(&service), File::bytes("a.png", PNG)).await.0.expect_err("it is refused");
    assert!(
        error
            .to_string()
            .contains("a.png: object storage answered 400 (EntityTooLarge): More than the \"size\""),
        "{error}"
    );
    assert!(!error.to_string().contains(PRESIGNED_SECRET), "{error}");
    assert_eq!(service.count(Route::StorageUpload), 1, "the same bytes would be refused again");
}

#[tokio::test]
async fn a_broken_connection_is_followed_by_the_same_bytes_to_the_same_target() {
    let (service, scratch) = (ScriptedService::start().await, Scratch::new("broken"));
    service.keep_first(0);
    for size in [1000, FORM + 1] {
        for fault in [
            Fault::CloseMidBody,
            Fault::ResetAfterRequest,
            Fault::failure(503, "later"),
            Fault::CloseAfterCommit,
        ] {
            let presigned = service.count(Route::CreatePresignedUpload);
            service.fault(Route::StorageUpload, fault.clone()).await;
            let (uploaded, events) = reported(&client(&service), scratch.sparse(size)).await;
            uploaded.unwrap_or_else(|error| panic!("{fault:?}: {error}"));
            assert_eq!(service.count(Route::CreatePresignedUpload), presigned + 1, "{fault:?}");
            let sent = progress(&events);
            assert!(
                sent.is_sorted() && sent.last() == Some(&size) && repeats(&events) == 1,
                "{fault:?}: {sent:?}"
            );
            assert_eq!(service.faults_left(), 0);
        }
    }
}

fn append(path: &Path) {
    let grown = OpenOptions::new()
        .append(true)
        .open(path)
        .and_then(|mut file| std::io::Write::write_all(&mut file, b"x"));
    grown.expect("the file can grow");
}

#[tokio::test]
async fn a_file_that_changes_meanwhile_is_an_error_and_is_not_stored() {
    let (service, scratch) = (ScriptedService::start().await, Scratch::new("changes"));
    service.keep_first(0);
    let path = scratch.sparse(LONG);
    type Moment = fn(&UploadEvent) -> bool;
    let moments: [Moment; 2] = [
        |event| matches!(event, UploadEvent::Started { .. }),
        |event| matches!(event, UploadEvent::Progress { .. }),
    ];
    for moment in moments {
        let mut has_changed = false;
        let mut upload = client(&service).folder("samples").upload(path.as_path()).events();
        while let Some(event) = upload.next().await {
            if moment(&event) && !has_changed {
                append(&path);
                has_changed = true;
            }
        }
        let error = upload.finish().await.expect_err("what was sent is unknown");
        let Error::File(error) = error else { panic!("{error:?}") };
        assert_eq!(error.kind, FileErrorKind::Changed, "{error}");
    }
    assert!(service.uploads().iter().all(|upload| !upload.stored));
}

#[tokio::test]
async fn the_content_of_an_image_decides_unless_a_mime_type_is_given() {
    let service = ScriptedService::start().await;
    let (uploaded, _) = reported(&client(&service), File::bytes("photo.jpg", PNG)).await;
    assert_eq!(uploaded.expect("it is stored").mime, "image/png");
    let explicit = File::bytes("photo.jpg", PNG).with_mime("image/jpeg");
    let (uploaded, _) = reported(&client(&service), explicit).await;
    assert_eq!(uploaded.expect("it is stored").mime, "image/jpeg");
}

#[tokio::test]
async fn an_organization_and_its_name_go_along() {
    let service = ScriptedService::start().await;
    let upload = client(&service).folder("covers").upload(File::bytes("a.png", PNG));
    upload.org_username("a-team".to_owned()).await.expect("it is stored");
    let presign = service.journal().into_iter().find(|entry| entry.route == Route::CreatePresignedUpload);
    let body: serde_json::Value =
        serde_json::from_slice(&presign.expect("it was asked for").body).expect("JSON");
    assert_eq!((body["org_username"].as_str(), body["folder"].as_str()), (Some("a-team"), Some("covers")));
}

#[tokio::test]
async fn a_folder_that_takes_no_uploads_is_refused_before_anything_is_sent() {
    let service = ScriptedService::start().await;
    for folder in ["attic", "statistics", ""] {
        let error = client(&service).folder(folder).upload(File::bytes("a.png", PNG)).await;
        assert!(matches!(error, Err(Error::InvalidArgument(_))), "{folder}: {error:?}");
    }
    assert_eq!(service.journal().len(), 0);
}

#[tokio::test]
async fn one_setting_of_the_http_client_applies_to_the_api_and_to_object_storage() {
    let service = ScriptedService::start().await;
    let builder = super::quick(service.base_url(), service.key());
    let configured =
        |http: reqwest::ClientBuilder| http.user_agent("my-program/1.0").default_headers(traced());
    let client = super::built(builder.configure_http(configured));
    client.folder("samples").upload(File::bytes("a.png", PNG)).await.expect("it is stored");
    let journal = service.journal();
    let headers: Vec<_> =
        journal.iter().map(|entry| (entry.header("user-agent"), entry.header("x-trace"))).collect();
    assert_eq!(headers, [(Some("my-program/1.0"), Some("7")); 2]);
}

fn traced() -> HeaderMap {
    HeaderMap::from_iter([(HeaderName::from_static("x-trace"), HeaderValue::from_static("7"))])
}
