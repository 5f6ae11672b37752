//! Every operation of the client once, as the service receives it.

use std::collections::HashSet;

use inferstore::{File, types};
use inferstore_api::operations;
use inferstore_service::{Operation, Script};

use super::super::{Quickly, inputs};
use super::{MODEL, start, success};

#[tokio::test]
async fn every_operation_of_the_client_reaches_the_service_and_is_answered() {
    let (_service, controls, client) = start().await;
    client.balance().await.expect("getBalance");
    let models: Vec<_> =
        client.models(types::ModelListRequest::default()).try_collect().await.expect("listModels");
    assert!(models.len() > 10);
    let model = client.model(MODEL);
    model.get().await.expect("getModel");
    model.cost().await.expect("getModelCost");
    model.serving().await.expect("getModelServing");
    model.versioning().await.expect("getModelVersioning");

    controls.let_model(MODEL, Script::stay_queued()).await.expect("it stays queued");
    let first = model.run(inputs()).quickly().start().await.expect("createTask");
    client.task(first.id()).cancel().await.expect("cancelTask");
    controls.let_model(MODEL, success()).await.expect("it succeeds");
    let second = model.run(inputs().set("angle", 45)).quickly().start().await.expect("createTask");
    client.task(second.id()).wait().quickly().await.expect("getTask");
    let history = client.tasks().page(10, 0).await.expect("listTasks");
    assert_eq!(history.total, Some(2));

    let folder = client.folder("documents");
    let small = folder.upload(File::bytes("small.txt", "a note")).await.expect("createPresignedUpload");
    folder.upload(File::bytes("large.txt", vec![b'x'; 5_242_881])).await.expect("a put");
    let place = tempfile::tempdir().expect("a temporary folder");
    client.download(&small.download_url).to_file(place.path().join("small.txt")).await.expect("it is read");
    assert_eq!(folder.page(Default::default(), 1).await.expect("listFiles").total, Some(2));
    client.storage_statistics().await.expect("getStorageStatistics");
    client.delete_file(small.download_url).await.expect("deleteFile");
    client.task(second.id()).logs().await.expect("getTaskLogs");
    let keys = client.keys();
    let made = keys.create(types::NewKeyRequest::new("laptop")).await.expect("createKey");
    let listed = keys.list().await.expect("listKeys");
    assert_eq!((listed.total, listed.can_manage), (Some(2), Some(true)));
    let second = client.with_key(made.key.expose()).expect("the key is valid in a header");
    second.balance().await.expect("the new key is accepted");
    keys.revoke(made.id).await.expect("revokeKey");
    client.storage_price().await.expect("getStoragePrice");

    let journal = controls.journal();
    for entry in &journal {
        assert!(entry.status.is_some_and(|status| (200..300).contains(&status)), "{entry:?}");
    }
    let seen: HashSet<_> = journal.iter().filter_map(|entry| entry.operation).collect();
    // The client uses one of the two paths of a create, and never HEAD alone.
    let unused = [operations::CREATE_TASK_ALIAS.into(), Operation::HEAD_OBJECT];
    let missing: Vec<_> =
        Operation::all().filter(|one| !seen.contains(one) && !unused.contains(one)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
