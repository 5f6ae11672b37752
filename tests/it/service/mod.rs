//! The service over HTTP, held to the document in every answer.

mod catalog;
mod create_keys;
mod edge;
mod examples;
mod inputs;
mod kinds;
mod limits;
mod money;
mod requests;
mod restarts;
mod runs;
mod tasks;
mod versions;

use inferstore_service::{Config, ModelSpec, Scope};
use serde_json::{Value, json};

use crate::support::caller::Caller;
use crate::support::deployment::Deployment;

/// A model with a price of 0.05 that takes one file.
const MODEL: &str = "color-extraction";

/// A fresh service, and a caller with the key of its first account.
async fn start() -> (Deployment, Caller) {
    start_with(Config::ephemeral()).await
}

/// In these tests nothing runs tasks, so that they stay where they are.
async fn start_with(mut config: Config) -> (Deployment, Caller) {
    config.workers = 0;
    let service = Deployment::start(config).await;
    let caller = service.caller();
    (service, caller)
}

/// Models beside the built-in ones and who publishes them, in the order of publication.
const FIXTURES: [(&str, &str); 6] = [
    ("atelier", include_str!("../../fixtures/models/pencil-sketch.json")),
    ("atelier", include_str!("../../fixtures/models/film-grain.json")),
    ("atelier", include_str!("../../fixtures/models/carte-postale.json")),
    ("atelier", include_str!("../../fixtures/models/watermark-draft.json")),
    ("inferstore", include_str!("../../fixtures/models/depth-preview.json")),
    ("atelier", include_str!("../../fixtures/models/noise-study.json")),
];

/// A fresh service with the models of an organization, `atelier`, and an unreleased one of the operator.
async fn start_with_fixtures() -> (Deployment, Caller) {
    let (service, caller) = start().await;
    service.add_account("atelier", Scope::Organization).await.expect("the account is new");
    for (publisher, model) in FIXTURES {
        let spec = ModelSpec::from_json(model).expect("a fixture is a model");
        service.publish_model(publisher, spec).await.expect("the model is new");
    }
    (service, caller)
}

/// What `MODEL` takes.
fn an_input() -> Value {
    json!({ "input": "https://files.example/street.png" })
}

async fn audited(service: &Deployment) {
    let audit = service.audit().await.expect("the books can be read");
    assert_eq!(audit.faults, Vec::<String>::new());
}
