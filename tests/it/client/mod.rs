//! The client against the local service with its controls (`on_the_service`), and, for virtual time and for
//! responses that this service never gives, against `support::scripted` and `support::recorder`.

mod blocking;
mod concurrency;
mod creates;
mod deadlines;
mod failures;
mod futures;
mod guards;
mod lists;
mod many;
mod on_a_deployment;
pub(crate) mod on_the_service;
mod outages;
mod prepared;
mod redaction;
mod redirects;
mod runs;
mod secrets;
mod upload_memory;
mod uploads;
mod waiting;

use std::time::Duration;

use inferstore::{ApiKey, Client, ClientBuilder, Inputs, PollInterval, Retry, Run, Wait};
use inferstore_batch::WaitAll;

const IMAGE: &str = "https://files.example/street.png";

pub(crate) fn quick_retry() -> Retry {
    let mut retry = Retry::default();
    retry.initial_backoff = Duration::from_millis(1);
    retry.max_backoff = Duration::from_millis(20);
    retry
}

pub(crate) fn quick(base_url: impl Into<String>, key: impl Into<ApiKey>) -> ClientBuilder {
    Client::builder(base_url, key)
        .settings(|settings| settings.retry = quick_retry())
        .settings(|settings| settings.create_settle_time = Duration::from_millis(100))
}

pub(crate) fn built(builder: ClientBuilder) -> Client {
    builder.build().expect("a client can be made")
}

pub(crate) fn inputs() -> Inputs {
    Inputs::new().set("input_image", IMAGE).set("template", "v_shape").set("angle", 30)
}

pub(crate) const TEST_DEADLINE: Duration = Duration::from_secs(30);

pub(crate) trait Quickly {
    fn quickly(self) -> Self;
}

fn poll() -> PollInterval {
    PollInterval::Between { first: Duration::from_millis(10), longest: Duration::from_millis(20) }
}

impl<T> Quickly for Run<T> {
    fn quickly(self) -> Self {
        self.poll(poll()).deadline(TEST_DEADLINE)
    }
}

impl Quickly for Wait {
    fn quickly(self) -> Self {
        self.poll(poll()).deadline(TEST_DEADLINE)
    }
}

impl Quickly for WaitAll {
    fn quickly(self) -> Self {
        self.poll(poll()).deadline(TEST_DEADLINE)
    }
}
