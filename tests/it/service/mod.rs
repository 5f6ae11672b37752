//! The service over HTTP, held to the document in every answer.

mod catalog;
mod edge;
mod inputs;
mod kinds;
mod money;
mod requests;
mod runs;
mod tasks;
mod versions;

use inferstore_service::{Config, Service};
use serde_json::{Value, json};

use crate::support::caller::Caller;

/// A model with a price of 0.05 that takes one file.
const MODEL: &str = "color-extraction";

/// A fresh service, and a caller with the key of its first account.
async fn start() -> (Service, Caller) {
    start_with(Config::ephemeral()).await
}

/// In these tests nothing runs tasks, so that they stay where they are.
async fn start_with(mut config: Config) -> (Service, Caller) {
    config.workers = 0;
    let service = Service::start(config).await.expect("the service starts");
    let caller = Caller::first(&service);
    (service, caller)
}

/// What `MODEL` takes.
fn an_input() -> Value {
    json!({ "input": "https://files.example/street.png" })
}

async fn audited(service: &Service) {
    let audit = service.audit().await.expect("the books can be read");
    assert_eq!(audit.faults, Vec::<String>::new());
}
