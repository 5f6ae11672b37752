//! New versions of a published model: tasks keep the version of their create.

use inferstore_service::{Error, ModelChange, ModelSpec, Scope};
use serde_json::{Value, json};

use super::{audited, start};
use crate::support::{self, deployment::Deployment};

const URL: &str = "https://files.example/street.png";

fn sketch(max: u32, price: &str) -> Value {
    let inputs = json!({
        "image": { "type": "file", "required": true, "position": 0 },
        "width": {
            "type": "int", "required": true, "position": 1, "samples": ["3"], "num_config": { "max": max },
        },
    });
    support::sketch(price, &inputs, &json!({ "output": { "type": "file", "position": 0 } }))
}

async fn publish(service: &Deployment, username: &str, model: &Value) -> Result<(), Error> {
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
        let change = ModelChange { price: Some(price.parse().expect("an amount")), ..ModelChange::default() };
        service.change_model("sketch", change).await.expect("the model is there");
        let published = service.publish_version("atelier", "sketch", &inputs, &outputs).await;
        let hash = published.expect("published");
        let read = async || caller.get("/api-key/model/sketch/versioning").await.data().clone();
        service.until_all(|| async { read().await["commit_hash"] == hash }).await;
        read().await
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
