//! Uploads to the local object store: exact content in both tiers, with the settings of the caller. Broken
//! uploads are tested in the client.

use inferstore::{Client, Error, File};
use inferstore_service::{Operation, Scope};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;

use super::on_the_service::{MODEL, start, success};
use super::{Quickly, built, inputs, quick};
use inferstore_wire::{Server, response};

const FORM: usize = 5_242_880;

#[tokio::test]
async fn the_bytes_arrive_as_they_are_whichever_way_they_go() {
    let (_service, controls, client) = start().await;
    for size in [1, 65_536, 65_537, FORM, FORM + 1] {
        let bytes: Vec<u8> = (0..size).map(|offset| (offset % 251) as u8).collect();
        let reader = std::io::Cursor::new(bytes.clone());
        for file in [File::bytes("a.bin", bytes.clone()), File::reader("a.bin", reader)] {
            let uploaded = client.folder("documents").upload(file).await.expect("it is stored");
            let read = client.download(&uploaded.download_url).bytes().await.expect("it is read");
            assert!(read == bytes, "{size}");
        }
    }
    assert_eq!((controls.seen(Operation::POST_OBJECT), controls.seen(Operation::PUT_OBJECT)), (8, 2));
}

#[tokio::test]
async fn an_organization_gets_the_file_that_a_member_uploads_for_it() {
    let (service, _controls, client) = start().await;
    service.add_account("a-team", Scope::Organization).await.expect("the account is new");
    service.add_member("a-team", "demo").await.expect("it becomes a member");
    let upload = client.folder("covers").upload(File::bytes("a.txt", "a note"));
    upload.org_username("a-team".to_owned()).await.expect("it is stored");
    let key = service.add_key("a-team").await.expect("it has a key");
    let team = built(quick(service.base_url(), key));
    let files = async |client: &Client| {
        client.folder("covers").page(Default::default(), 1).await.expect("they are listed").total
    };
    assert_eq!((files(&team).await, files(&client).await), (Some(1), Some(0)));
}

#[tokio::test]
async fn an_upload_for_an_organization_is_deleted_by_its_paying_member() {
    let (service, controls, client) = start().await;
    service.add_account("a-team", Scope::Organization).await.expect("the account is new");
    service.add_member("a-team", "demo").await.expect("it becomes a member");
    controls.let_model(MODEL, success()).await.expect("it succeeds");
    let inputs = inputs().file("input_image", File::bytes("a.png", "pixels"));
    let run =
        client.model(MODEL).run(inputs).options(|options| options.org_username = Some("a-team".to_owned()));
    let outcome = run.quickly().options(|options| options.delete_inputs_after = true).await.expect("it runs");
    assert!(outcome.stored_inputs.is_empty(), "{:?}", outcome.stored_inputs);
    let key = service.add_key("a-team").await.expect("it has a key");
    let team = built(quick(service.base_url(), key));
    let left = team.folder("samples").page(Default::default(), 1).await.expect("they are listed");
    assert_eq!(left.total, Some(0));
}

#[tokio::test]
async fn a_content_that_is_stored_is_used_again_by_every_client_with_the_key() {
    let (service, controls, client) = start().await;
    controls.let_model(MODEL, success()).await.expect("it succeeds");
    let total =
        async || client.folder("samples").page(Default::default(), 1).await.expect("they are listed").total;
    let key = service.add_key("demo").await.expect("it has a key");
    let with_other_key = built(quick(service.base_url(), key));
    let same_key = client.with_key(service.api_key().expect("it is known")).expect("it is a key");
    for (client, content, uploads) in [
        (&client, "pixels", 1),
        (&client, "pixels", 1),
        (&same_key, "pixels", 1),
        (&client, "pixel", 2),
        (&with_other_key, "pixels", 3),
    ] {
        let inputs = inputs().file("input_image", File::bytes("a.png", content));
        let run = client.model(MODEL).run(inputs).quickly().options(|options| options.reuse_uploads = true);
        let outcome = run.await.expect("it runs");
        assert!(outcome.stored_inputs.is_empty(), "no run has it for itself");
        assert_eq!((controls.seen(Operation::POST_OBJECT), total().await), (uploads, Some(uploads as u64)));
    }
    let inputs = inputs().file("input_image", File::bytes("a.png", "pixels"));
    let run = client.model(MODEL).run(inputs).quickly().options(|options| {
        options.reuse_uploads = true;
        options.delete_inputs_after = true;
    });
    run.await.expect("it runs");
    assert_eq!(total().await, Some(3), "the file that others use stays");
}

#[tokio::test]
async fn a_folder_that_takes_no_uploads_is_refused_before_anything_is_sent() {
    let (_service, controls, client) = start().await;
    for folder in ["attic", "statistics", ""] {
        let error = client.folder(folder).upload(File::bytes("a.txt", "a note")).await;
        assert!(matches!(error, Err(Error::InvalidArgument(_))), "{folder}: {error:?}");
    }
    assert!(controls.journal().is_empty());
}

#[tokio::test]
async fn one_setting_of_the_http_client_applies_to_api_and_object_storage() {
    let storage = Server::answering(response("204 No Content", "text/plain", ""));
    let target = json!({
        "endpoint": storage.origin(), "fields": "{}", "download_url": "https://files.example/a.txt",
    });
    let api = Server::answering_json(json!({ "status": "success", "data": target }));
    let traced = HeaderMap::from_iter([(HeaderName::from_static("x-trace"), HeaderValue::from_static("7"))]);
    let builder = quick(api.base_url(), "key")
        .configure_http(move |http| http.user_agent("my-program/1.0").default_headers(traced.clone()));
    built(builder).folder("samples").upload(File::bytes("a.txt", "a note")).await.expect("it is stored");
    for server in [api, storage] {
        let requests = server.texts();
        let has = |header: &str| requests.len() == 1 && requests[0].contains(header);
        assert!(has("user-agent: my-program/1.0") && has("x-trace: 7"), "{requests:?}");
    }
}
