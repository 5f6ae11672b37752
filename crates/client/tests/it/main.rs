//! What users of the client rely on, tested with its own test kit.

mod cookbook;
mod creates;
mod hints;
mod limits;
mod lost;
mod outages;
mod profiles;
mod proxies;
mod refusals;
mod runs;
mod testing;
mod tracing;
mod waits;

use inferstore::testing::ScriptedService;
use inferstore::{Client, Inputs, Run};
use serde_json::{Value, json};

/// A run of the model `m`.
fn run(client: &Client) -> Run {
    client.model("m").run(Inputs::new().set("prompt", "a lake"))
}

/// The next page of the history.
fn lists(service: &ScriptedService, page: &Value) {
    service.responds("listTasks", 200, json!({ "status": "success", "message": "ok", "data": page }));
}

/// How many of the requests are of this operation.
fn count(requests: &[&str], operation: &str) -> usize {
    requests.iter().filter(|request| **request == operation).count()
}
