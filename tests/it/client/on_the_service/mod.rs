//! The client against the real service, which misbehaves where its controls say so.

mod creates;
mod deadlines;
mod failures;
mod files;
mod operations;

use inferstore::middleware::{BoxFuture, Middleware, Next};
use inferstore::reqwest::{self, Request, Response};
use inferstore::{Client, ClientBuilder};
use inferstore_service::{Config, Controls, Script, Service};
use serde_json::json;

use super::{built, quick};

/// Takes what `super::inputs` gives.
pub(crate) const MODEL: &str = "color-harmonization";

/// A fresh service, its controls, and a client with the key of its first account.
pub(crate) async fn start() -> (Service, Controls, Client) {
    let service = Service::start(Config::ephemeral().with_controls()).await.expect("the service starts");
    let controls = service.controls().expect("they are on");
    let client = client_of(&service);
    (service, controls, client)
}

/// Another client with the key of the first account.
pub(crate) fn client_of(service: &Service) -> Client {
    built(builder_of(service))
}

pub(crate) fn builder_of(service: &Service) -> ClientBuilder {
    quick(service.base_url(), service.api_key().expect("a fresh service tells its key"))
}

/// A client that meets this service as one of an older version, which knows no idempotency keys.
pub(crate) fn without_keys(service: &Service) -> Client {
    built(builder_of(service).middleware(WithoutKeys))
}

/// Takes the idempotency key from each request, and its announcement from each response.
pub(crate) struct WithoutKeys;

impl Middleware for WithoutKeys {
    fn handle<'a>(
        &'a self,
        mut request: Request,
        next: Next<'a>,
    ) -> BoxFuture<'a, reqwest::Result<Response>> {
        Box::pin(async move {
            request.headers_mut().remove("idempotency-key");
            let mut response = next.run(request).await?;
            response.headers_mut().remove("idempotency-key-retention");
            Ok(response)
        })
    }
}

/// What the model would make of a picture that is somewhere.
pub(crate) fn success() -> Script {
    Script::succeed(json!({
        "output_image": "https://files.example/harmonized.png",
        "output_hue": "https://files.example/hue.png",
    }))
}

/// How many tasks the service itself counts.
pub(crate) async fn tasks(controls: &Controls) -> u64 {
    controls.tasks().await.expect("they can be counted").values().sum()
}

pub(crate) async fn audited(service: &Service) {
    let audit = service.audit().await.expect("the books can be read");
    assert!(audit.faults.is_empty(), "{:?}", audit.faults);
}
