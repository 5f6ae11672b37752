//! Uploads to and downloads from the real object store, with injected failures.

use std::time::Duration;

use inferstore::File;
use inferstore_api::operations;
use inferstore_service::{Fault, Operation, Side};

use super::start;

#[tokio::test]
async fn an_upload_survives_what_happens_at_the_object_store_and_is_stored_once() {
    let (_service, controls, client) = start().await;
    for (number, fault) in [
        Fault::status(503),
        Fault::status(500).after_commit(),
        Fault::hang_up(),
        Fault::lose_response(),
        Fault::delay(Duration::from_millis(50)),
    ]
    .into_iter()
    .enumerate()
    {
        for (operation, size) in [(Operation::POST_OBJECT, 1_000), (Operation::PUT_OBJECT, 6_000_000)] {
            controls.add_fault(fault.clone().on(operation).once()).expect("it is a fault");
            let content = vec![b'a' + number as u8; size];
            let name = format!("{number}-{size}.txt");
            let stored = client.folder("documents").upload(File::bytes(name, content.clone())).await;
            let stored = stored.unwrap_or_else(|error| panic!("{fault:?} {operation:?}: {error}"));
            let read = client.download(&stored.download_url).bytes().await.expect("read");
            assert!(read == content, "{fault:?} {operation:?}");
        }
        let stored = client.storage_statistics().await.expect("they are reported").total_files;
        assert_eq!(stored, Some(2 * (number as i64 + 1)), "{fault:?}");
        assert!(controls.faults().iter().all(|fault| fault.met == 1), "every fault happened");
        controls.clear_faults();
    }
}

#[tokio::test]
async fn a_download_that_is_cut_leaves_no_file_and_can_be_started_again() {
    let (_service, controls, client) = start().await;
    let content: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
    let file = File::bytes("numbers.bin", content.clone()).with_mime("application/octet-stream");
    let url = client.folder("documents").upload(file).await.expect("it is stored").download_url;
    controls.add_fault(Fault::cut_body(400_000).on(Operation::GET_OBJECT).once()).expect("it is a fault");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = folder.path().join("numbers.bin");
    client.download(&url).to_file(&place).await.expect_err("it is cut");
    assert!(!place.exists());
    client.download(&url).to_file(&place).await.expect("it is whole");
    assert!(std::fs::read(place).expect("it is there") == content);
    assert_eq!(controls.seen(Operation::GET_OBJECT), 2);
}

#[tokio::test]
async fn a_target_that_expired_meanwhile_is_asked_for_anew() {
    let (_service, controls, client) = start().await;
    let expired = Fault::status(403).message("Request has expired").at(Side::Objects).once();
    controls.add_fault(expired).expect("it is a fault");
    client
        .folder("documents")
        .upload(File::bytes("note.txt", "a note"))
        .await
        .expect("the second one is taken");
    assert_eq!(controls.seen(operations::CREATE_PRESIGNED_UPLOAD), 2);
}
