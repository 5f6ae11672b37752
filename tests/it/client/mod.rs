//! The client against a service that behaves, and against one that does not: the real one where its
//! controls can say so (`on_the_service`), a scripted one for what a real service never does.

mod creates;
mod deadlines;
mod failures;
mod faults;
mod futures;
mod guards;
mod lists;
pub(crate) mod on_the_service;
mod runs;
mod secrets;
mod upload_memory;
mod uploads;
mod waiting;

use std::time::Duration;

use inferstore::{ApiKey, Client, Inputs, PollInterval, Retry, RunOptions, Settings, WaitOptions};

use crate::support::scripted::ScriptedService;

/// An input that the scripted service has a model for.
const IMAGE: &str = "https://files.example/street.png";

/// Settings that differ from the defaults only in how long they wait.
pub(crate) fn quick() -> Settings {
    let retry = Retry {
        initial_backoff: Duration::from_millis(1),
        max_backoff: Duration::from_millis(20),
        max_retry_after: Duration::from_millis(50),
        ..Retry::default()
    };
    Settings { retry, ..Settings::default() }
}

fn client(service: &ScriptedService) -> Client {
    client_with(service, quick())
}

fn client_with(service: &ScriptedService, settings: Settings) -> Client {
    Client::with_settings(&service.base_url(), ApiKey::new(service.key()), settings)
        .expect("a client can be made")
}

pub(crate) fn inputs() -> Inputs {
    Inputs::new().set("input_image", IMAGE).set("template", "v_shape").set("angle", 30)
}

/// Reads a task as often as a test has patience for.
pub(crate) fn wait() -> WaitOptions {
    let pace = PollInterval::Between { first: Duration::from_millis(10), longest: Duration::from_millis(20) };
    WaitOptions { pace, deadline: Some(Duration::from_secs(30)), ..WaitOptions::default() }
}

pub(crate) fn options() -> RunOptions {
    RunOptions { wait: wait(), ..RunOptions::default() }
}
