//! The client against the real service, with failures injected by its controls.

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

pub(crate) const MODEL: &str = "color-harmonization";

pub(crate) async fn start() -> (Service, Controls, Client) {
    let mut config = Config::ephemeral().with_controls();
    config.owners_manage_keys = Some(true);
    let service = Service::start(config).await.expect("the service starts");
    let controls = service.controls().expect("they are on");
    let client = client_of(&service);
    (service, controls, client)
}

pub(crate) fn client_of(service: &Service) -> Client {
    built(builder_of(service))
}

pub(crate) fn builder_of(service: &Service) -> ClientBuilder {
    quick(service.base_url(), service.api_key().expect("a fresh service tells its key"))
}

/// Makes a client to which this service looks like an older version without idempotency keys.
pub(crate) fn without_keys(service: &Service) -> Client {
    built(builder_of(service).middleware(WithoutKeys))
}

/// Removes the idempotency key from each request, and its announcement from each response.
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

pub(crate) fn success() -> Script {
    Script::succeed(json!({
        "output_image": "https://files.example/harmonized.png",
        "output_hue": "https://files.example/hue.png",
    }))
}

pub(crate) async fn tasks(controls: &Controls) -> u64 {
    controls.tasks().await.expect("they can be counted").values().sum()
}

pub(crate) async fn audited(service: &Service) {
    let audit = service.audit().await.expect("the books can be read");
    assert!(audit.faults.is_empty(), "{:?}", audit.faults);
}
