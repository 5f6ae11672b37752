//! The service over HTTP; every response is validated against the document.

mod catalog;
mod create_keys;
mod edge;
mod examples;
mod inputs;
mod keys;
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

use crate::client::on_the_service::audited;
use crate::support::caller::{Answer, Caller};
use crate::support::deployment::Deployment;

const MODEL: &str = "color-extraction";

async fn start() -> (Deployment, Caller) {
    start_with(Config::ephemeral()).await
}

/// Without workers, so that tasks stay queued.
async fn start_with(mut config: Config) -> (Deployment, Caller) {
    config.workers = 0;
    let service = Deployment::start(config).await;
    let caller = service.caller();
    (service, caller)
}

const FIXTURES: [(&str, &str); 6] = [
    ("atelier", include_str!("../../fixtures/models/pencil-sketch.json")),
    ("atelier", include_str!("../../fixtures/models/film-grain.json")),
    ("atelier", include_str!("../../fixtures/models/carte-postale.json")),
    ("atelier", include_str!("../../fixtures/models/watermark-draft.json")),
    ("inferstore", include_str!("../../fixtures/models/depth-preview.json")),
    ("atelier", include_str!("../../fixtures/models/noise-study.json")),
];

async fn start_with_fixtures() -> (Deployment, Caller) {
    let (service, caller) = start().await;
    service.add_account("atelier", Scope::Organization).await.expect("the account is new");
    for (publisher, model) in FIXTURES {
        let spec = ModelSpec::from_json(model).expect("a fixture is a model");
        service.publish_model(publisher, spec).await.expect("the model is new");
    }
    (service, caller)
}

fn an_input() -> Value {
    json!({ "input": "https://files.example/street.png" })
}

#[derive(Default)]
struct Refusals(String);

impl Refusals {
    fn add(&mut self, request: impl std::fmt::Display, answer: &Answer) {
        let status = answer.status;
        assert!(status >= 400, "{request}: {answer:?}");
        self.0 += &format!("{request}\n    {status} {}\n", answer.refusal(status));
    }
}
