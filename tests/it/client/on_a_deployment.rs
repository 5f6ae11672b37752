//! The client against a deployment without failures, which needs no controls: one process, or three behind
//! haproxy if `.ci/cluster` asks for that.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use futures_util::future::join_all;
use inferstore::{Client, File, Inputs, Run, types};
use inferstore_service::Config;

use super::on_the_service::audited;
use super::{Quickly, built, inputs, quick};
use crate::support::deployment::Deployment;
use crate::support::picture::red_and_blue;
use inferstore_wire::{Break, Cable};

/// Model that takes `super::inputs`. Nothing runs it here, so its tasks stay queued.
const QUEUED: &str = "color-harmonization";

const RUNNING: &str = "color-extraction";

async fn start() -> (Deployment, Client) {
    let mut config = Config::ephemeral();
    config.excluded_models.insert(QUEUED.to_owned());
    let service = Deployment::start(config).await;
    let client = client_at(&service, service.base_url());
    (service, client)
}

fn client_at(service: &Deployment, base_url: &str) -> Client {
    built(quick(base_url, service.api_key().expect("a fresh service tells its key")))
}

fn picture() -> File {
    File::bytes("picture.bmp", red_and_blue())
}

fn run(client: &Client) -> Run {
    client.model(RUNNING).run(Inputs::new().file("input", picture())).quickly()
}

async fn tasks(client: &Client) -> Option<u64> {
    client.tasks().page(1, 0).await.expect("the history").total
}

#[tokio::test]
async fn every_operation_of_the_client_succeeds() {
    let (service, client) = start().await;
    client.balance().await.expect("getBalance");
    let models: Vec<_> =
        client.models(types::ModelListRequest::default()).try_collect().await.expect("listModels");
    assert!(models.len() > 10);
    let model = client.model(QUEUED);
    model.get().await.expect("getModel");
    model.cost().await.expect("getModelCost");
    assert_eq!(model.serving().await.expect("getModelServing").serving, Some(false));
    model.versioning().await.expect("getModelVersioning");
    let task = model.run(inputs()).quickly().start().await.expect("createTask");
    client.task(task.id()).cancel().await.expect("cancelTask");
    let outcome = run(&client).await.expect("createTask and getTask");
    let colors = outcome.output["output"].as_str().expect("the colors are a text");
    assert!(colors.contains("#ff0000") && colors.contains("#0000ff"), "{colors}");
    assert_eq!(tasks(&client).await, Some(2), "listTasks");

    let folder = client.folder("documents");
    let small = folder.upload(File::bytes("small.txt", "a note")).await.expect("a form");
    let content: Vec<u8> = (0..5_242_881_u32).map(|at| (at % 251) as u8).collect();
    let large = File::bytes("large.bin", content.clone()).with_mime("application/octet-stream");
    let large = folder.upload(large).await.expect("a put");
    let place = tempfile::tempdir().expect("a temporary folder");
    let place = place.path().join("large.bin");
    client.download(&large.download_url).to_file(&place).await.expect("it is read");
    assert!(std::fs::read(place).expect("it is there") == content);
    assert_eq!(folder.page(Default::default(), 1).await.expect("listFiles").total, Some(2));
    client.delete_file(small.download_url).await.expect("deleteFile");
    let statistics = client.storage_statistics().await.expect("getStorageStatistics");
    assert_eq!(statistics.total_files, Some(2), "the picture of the run, and the large file");
    audited(&service).await;
}

#[tokio::test]
async fn runs_side_by_side_are_each_charged_once() {
    const RUNS: usize = 20;
    let (service, client) = start().await;
    let before = client.balance().await.expect("it is reported").free_balance;
    let outcomes = join_all((0..RUNS).map(|_| run(&client).into_future())).await;
    let ended: BTreeSet<_> = outcomes.into_iter().map(|outcome| outcome.expect("it runs").task).collect();
    assert_eq!((ended.len(), tasks(&client).await), (RUNS, Some(RUNS as u64)));
    let after = client.balance().await.expect("it is reported").free_balance;
    assert_eq!((before, after), ("5".parse().ok(), "4".parse().ok()));
    audited(&service).await;
}

#[tokio::test]
async fn a_create_whose_connection_breaks_anywhere_becomes_one_task() {
    let (service, client) = start().await;
    let address: SocketAddr = {
        let url = service.base_url();
        let address = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/api/v1"));
        address.and_then(|address| address.parse().ok()).expect("it listens on an address")
    };
    for (number, place) in [
        Break::AtAccept,
        Break::InHead(0.5),
        Break::InBody(0.5),
        Break::AfterAnswer,
        Break::InAnswerHead(0.5),
        Break::InAnswerBody(0.5),
    ]
    .into_iter()
    .enumerate()
    {
        let cable = Cable::to(address, Some(place)).expect("a port is free");
        let client = client_at(&service, &format!("http://{}/api/v1", cable.address));
        let inputs =
            inputs().set("angle", "30").set("input_image", format!("https://files.example/{number}.png"));
        // Skip the declaration, so that the first connection carries the create.
        let run =
            client.model(QUEUED).run(inputs).quickly().options(|options| options.skip_validation = true);
        run.start().await.unwrap_or_else(|error| panic!("{place:?}: {error:?}"));
    }
    assert_eq!(tasks(&client).await, Some(6));
    audited(&service).await;
}
