//! State that survives a restart of a service on its data folder, which only a single-process service has.
//! `.ci/cluster` skips these tests.

use inferstore_document::kinds;
use inferstore_service::{Config, ModelChange, Money, Service};
use serde_json::{Value, json};

use super::runs::{client, created, ended, reqwest_get, uploaded};
use super::{MODEL, an_input, create_keys};
use crate::support::caller::Caller;
use crate::support::picture::red_and_blue;

/// Fixed, so that the key outlives the process.
const KEY: &str = "a-key-known-beforehand";

fn config(folder: &tempfile::TempDir) -> Config {
    let mut config = Config::folder(folder.path());
    config.first_account.api_key = Some(KEY.to_owned());
    config.workers = 0;
    config
}

async fn start(config: Config) -> (Service, Caller) {
    let service = Service::start(config).await.expect("the folder is free");
    let caller = Caller::of(&service, Some(KEY));
    (service, caller)
}

async fn data(caller: &Caller, path: &str) -> Value {
    caller.get(path).await.data().clone()
}

#[tokio::test]
async fn prices_are_exact_and_a_restart_keeps_what_the_operator_changed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (service, caller) = start(config(&folder)).await;
    assert_eq!(service.api_key(), Some(KEY));
    let free = data(&caller, "/api-key/model/super-resolution-alt").await;
    assert_eq!(free["price"].to_string(), "0.125");
    let price = |price: Money| ModelChange { price: Some(price), ..ModelChange::default() };
    let smallest = price(Money::from_smallest(1));
    service.change_model(MODEL, smallest).await.expect("the model is there");
    assert!(service.change_model("no-such-model", price(Money::ZERO)).await.is_err());
    assert!(service.change_model(MODEL, price(Money::from_smallest(-1))).await.is_err());
    let model = format!("/api-key/model/{MODEL}");
    let before = data(&caller, &model).await;
    let version = data(&caller, &format!("{model}/versioning")).await;
    service.shutdown().await;

    let (service, caller) = start(config(&folder)).await;
    assert_eq!(service.api_key(), None);
    assert_eq!(data(&caller, &model).await, before);
    // The hash covers both formats. Samples of the service itself are at its new address.
    assert_eq!(data(&caller, &format!("{model}/versioning")).await["commit_hash"], version["commit_hash"]);
    let cost = data(&caller, &format!("{model}/task/cost")).await;
    assert_eq!(cost["cost"].to_string(), "1e-9");
    let list = caller.post("/api-key/model/list", &json!({ "limit": 100 })).await;
    assert_eq!(list.data()["total"], kinds::count());
    service.shutdown().await;
}

#[tokio::test]
async fn a_published_version_of_a_built_in_model_survives_a_restart() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (service, caller) = start(config(&folder)).await;
    let path = "/api-key/model/video-edge-map/versioning";
    let built_in = data(&caller, path).await;
    let inputs = built_in["input_format"].to_string();
    let outputs =
        json!({ "output": { "type": "file", "mime_type": ["video/mp4"], "position": 0 } }).to_string();
    service.publish_version("inferstore", "video-edge-map", &inputs, &outputs).await.expect("published");
    let own = data(&caller, path).await;
    assert_ne!(own["commit_hash"], built_in["commit_hash"]);
    service.shutdown().await;

    let (service, caller) = start(config(&folder)).await;
    assert_eq!(data(&caller, path).await, own);
    service.shutdown().await;
}

#[tokio::test]
async fn a_create_that_is_sent_again_after_a_restart_gets_its_task() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (service, caller) = start(config(&folder)).await;
    let task = create_keys::created(&caller, "key", &an_input()).await;
    service.shutdown().await;
    let (service, caller) = start(config(&folder)).await;
    assert_eq!(create_keys::created(&caller, "key", &an_input()).await, task);
    service.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_from_before_a_move_is_reachable_at_its_url() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut config = config(&folder);
    config.workers = 1;
    let (service, caller) = start(config.clone()).await;
    let client = client(service.base_url(), Some(KEY));
    let url = uploaded(&client, "two.bmp", red_and_blue()).await;
    let id = created(&caller, "haze-removal", json!({"input_image": url})).await;
    let before = ended(&caller, &id).await;
    let picture =
        before["result"]["result"]["output_image"].as_str().expect("the output is a URL").to_owned();
    assert!(reqwest_get(&picture).await.1.starts_with(b"\x89PNG"));
    service.shutdown().await;

    let (service, caller) = start(config).await;
    let mut after = ended(&caller, &id).await;
    let moved = after["result"]["result"]["output_image"].take();
    let moved = moved.as_str().expect("the output is a URL");
    assert!(moved != picture && moved.starts_with(service.storage_url()), "{moved}");
    assert!(reqwest_get(moved).await.1.starts_with(b"\x89PNG"));
    assert_eq!(after["input_data"], before["input_data"], "the inputs stay as they were sent");
    service.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_goes_on_with_what_was_queued() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut config = config(&folder);
    let (service, caller) = start(config.clone()).await;
    config.storage = service.storage_url().trim_start_matches("http://").parse().expect("an address");
    let client = client(service.base_url(), Some(KEY));
    let url = uploaded(&client, "two.bmp", red_and_blue()).await;
    let id = created(&caller, "color-extraction", json!({"input": url})).await;
    service.shutdown().await;

    config.workers = 1;
    let (service, caller) = start(config).await;
    let task = ended(&caller, &id).await;
    assert_eq!(task["status"], "success", "{task}");
    let audit = service.audit().await.expect("the books can be read");
    assert_eq!(audit.faults, Vec::<String>::new());
    service.shutdown().await;
}
