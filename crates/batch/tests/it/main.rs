//! Tests of batches and of waits for many tasks, as programs use them, in virtual time.

mod folder;
mod items;
mod outages;
mod processes;
mod reads;

use std::time::Duration;

use inferstore::types::TaskId;
use inferstore::{Client, Inputs};

const SECOND: Duration = Duration::from_secs(1);

#[expect(clippy::unwrap_used, reason = "a test may end when its set-up fails")]
async fn start(client: &Client) -> TaskId {
    client.model("m").run(Inputs::new()).start().await.unwrap().id().clone()
}

async fn start_many(client: &Client, count: usize) -> Vec<TaskId> {
    let mut tasks = Vec::new();
    for _ in 0..count {
        tasks.push(start(client).await);
    }
    tasks
}

fn count(requests: &[&str], operation: &str) -> usize {
    requests.iter().filter(|request| **request == operation).count()
}
