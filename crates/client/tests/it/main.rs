//! Tests of the client with the test kit, as its users use it.

mod cookbook;
mod creates;
mod error_texts;
mod hints;
mod keys;
mod limits;
mod lost;
mod outages;
mod proxies;
mod refusals;
mod runs;
mod tracing;
mod unknown;
mod values;
mod waits;

use inferstore::{Client, Inputs, Run};
use inferstore_testing::ScriptedService;
use serde_json::{Value, json};

fn run(client: &Client) -> Run {
    client.model("m").run(Inputs::new().set("prompt", "a lake"))
}

/// Scripts the next page of the history.
fn lists(service: &ScriptedService, page: &Value) {
    service.responds("listTasks", 200, json!({ "status": "success", "message": "ok", "data": page }));
}

fn count(requests: &[&str], operation: &str) -> usize {
    requests.iter().filter(|request| **request == operation).count()
}
