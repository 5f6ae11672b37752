//! Publishing a model anew: its version changes, and tasks keep what they were created with.

use inferstore_service::{Config, Error, ModelChange, ModelSpec, Scope, Service};
use serde_json::{Value, json};

use super::{audited, start, start_with};
use crate::support::caller::Caller;

const URL: &str = "https://files.example/street.png";

/// A model that takes a width up to `max`.
fn sketch(max: u32, price: &str) -> Value {
    json!({
        "id": "sketch", "name": "sketch", "description": "Draws.", "visibility": "public", "price": price,
        "metadata": {
            "pretty_name": "Sketch", "task": "image-to-image", "license": "MIT", "library": [], "language": [],
        },
        "input_format": {
            "image": { "type": "file", "required": true, "position": 0 },
            "width": {
                "type": "int", "required": true, "position": 1, "samples": ["3"], "num_config": { "max": max },
            },
        },
        "output_format": { "output": { "type": "file", "position": 0 } },
    })
}

/// Publishes a model from its JSON.
async fn publish(service: &Service, username: &str, model: &Value) -> Result<(), Error> {
    service.publish_model(username, ModelSpec::from_json(&model.to_string())?).await.map(drop)
}

#[tokio::test]
async fn a_new_version_declares_anew_and_leaves_tasks_as_they_were() {
    let (service, caller) = start().await;
    service.add_account("atelier", Scope::Organization).await.expect("the account is new");
    publish(&service, "atelier", &sketch(3, "0.5")).await.expect("published");
    let change = async |max: u32, price: &str| {
        let model = sketch(max, price);
        let (inputs, outputs) = (model["input_format"].to_string(), model["output_format"].to_string());
        service.publish_version("atelier", "sketch", &inputs, &outputs).await.expect("published");
        let change = ModelChange { price: Some(price.parse().expect("an amount")), ..ModelChange::default() };
        service.change_model("sketch", change).await.expect("the model is there");
        caller.get("/api-key/model/sketch/versioning").await.data().clone()
    };
    let create = async |width: Value| {
        caller.post("/api-key/model/sketch/task", &json!({ "image": URL, "width": width })).await
    };
    let first = caller.get("/api-key/model/sketch/versioning").await.data().clone();
    let model = caller.get("/api-key/model/sketch").await.data().clone();
    assert_eq!((&model["is_official"], &model["username"]), (&json!(false), &json!("atelier")));
    let old = create(json!("3")).await.data()["data"].as_str().expect("a task").to_owned();
    create(json!("7")).await.refusal(422);

    let second = change(7, "0.25").await;
    assert_ne!(first["commit_hash"], second["commit_hash"]);
    assert_eq!(second["is_active"], true);
    create(json!("7")).await.data();
    create(json!("8")).await.refusal(422);
    assert_eq!(caller.get("/api-key/model/sketch/task/cost").await.data()["cost"].to_string(), "0.25");
    assert_eq!(caller.get("/api-key/model/sketch").await.data()["created_at"], model["created_at"]);
    let task = caller.get(&format!("/api-key/task/{old}/detail")).await.data().clone();
    assert_eq!(
        (&task["input_format"], &task["output_format"]),
        (&first["input_format"], &first["output_format"])
    );

    assert_eq!(change(3, "0.25").await, first, "a version may come back");
    caller.delete(&format!("/api-key/task/{old}/cancel")).await;
    audited(&service).await;
}

#[tokio::test]
async fn a_version_that_the_operator_published_for_a_built_in_model_survives_a_restart() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut config = Config::folder(folder.path());
    config.first_account.api_key = Some("a-key-that-is-known-beforehand".to_owned());
    let (service, caller) = start_with(config.clone()).await;
    let path = "/api-key/model/video-edge-map/versioning";
    let built_in = caller.get(path).await.data().clone();
    let inputs = built_in["input_format"].to_string();
    let outputs =
        json!({ "output": { "type": "file", "mime_type": ["video/mp4"], "position": 0 } }).to_string();
    service.publish_version("inferstore", "video-edge-map", &inputs, &outputs).await.expect("published");
    let own = caller.get(path).await.data().clone();
    assert_ne!(own["commit_hash"], built_in["commit_hash"]);
    service.shutdown().await;

    let service = Service::start(config).await.expect("the service starts again");
    let caller = Caller::of(&service, Some("a-key-that-is-known-beforehand"));
    assert_eq!(caller.get(path).await.data(), &own);
    service.shutdown().await;
}

#[tokio::test]
async fn what_describes_no_model_is_not_published() {
    let (service, caller) = start().await;
    service.add_account("atelier", Scope::Organization).await.expect("the account is new");
    service.add_account("rival", Scope::Personal).await.expect("the account is new");
    let good = sketch(3, "0.5");
    let with = |field: &str, value: Value| {
        let mut model = good.clone();
        model[field] = value;
        model
    };
    let parameter = |descriptor: Value| with("input_format", json!({ "it": descriptor }));
    let range = |range: Value| parameter(json!({ "type": "int", "position": 0, "num_config": range }));
    for wrong in [
        json!({}),
        with("id", json!("list")),
        with("id", json!("A b")),
        with("id", json!("")),
        with("price", json!("-1")),
        with("price", json!(0.5)),
        with("price", json!("1e3")),
        with("publisher", json!("operator")),
        with("unknown", json!(1)),
        with("created_at", json!("yesterday")),
        parameter(json!({ "type": "picture", "position": 0 })),
        parameter(json!({ "type": "options", "position": 0 })),
        parameter(json!({ "type": "int" })),
        range(json!({ "min": 2, "max": 1 })),
        range(json!({ "step": 0 })),
        range(json!({ "min": "1" })),
    ] {
        assert!(publish(&service, "atelier", &wrong).await.is_err(), "{wrong}");
    }
    caller.get("/api-key/model/sketch").await.refusal(404);

    assert!(publish(&service, "unknown", &good).await.is_err());
    publish(&service, "atelier", &good).await.expect("published");
    let refused = publish(&service, "rival", &with("price", json!("0"))).await;
    assert!(refused.is_err_and(|cause| cause.to_string().contains("taken")));
    assert_eq!(caller.get("/api-key/model/sketch").await.data()["price"].to_string(), "0.5");
    publish(&service, "inferstore", &with("id", json!("drawing"))).await.expect("published");
    assert_eq!(caller.get("/api-key/model/drawing").await.data()["is_official"], true);
}
