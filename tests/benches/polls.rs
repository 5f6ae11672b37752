//! Number of requests for creating 1,000 tasks and waiting for them, beside reading every task every two seconds:
//! `cargo bench --bench polls`. The service counts, in real time.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops when it cannot go on"
)]

#[path = "support/service.rs"]
#[expect(dead_code, reason = "raw requests are used elsewhere")]
mod service;

use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use inferstore::types::TaskStatus;
use inferstore::{ApiKey, Client, Inputs};
use inferstore_measure::{Better, Connection, Row, request};
use service::Service;

const TASKS: usize = 1_000;

/// Concurrency of tasks of one second each, so that the last one ends after half a minute.
const WORKERS: usize = 32;

const NAIVE: Duration = Duration::from_secs(2);

const CREATES: usize = 16;

fn main() {
    let service = Service::start(None, WORKERS);
    let client = Client::new(&service.base_url, service.key.as_str()).expect("a client");
    let raw = inferstore_api::Client::new(&service.base_url, ApiKey::new(&service.key)).expect("a client");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let counted = |work: &mut dyn FnMut()| {
        let (before, begun) = (requests(&service), Instant::now());
        work();
        println!("{TASKS} tasks took {:.0?}", begun.elapsed());
        (requests(&service) - before) / TASKS as f64
    };
    let ours = counted(&mut || runtime.block_on(by_pages(&client)));
    let theirs = counted(&mut || runtime.block_on(each_by_itself(&client, &raw)));
    let row = Row {
        group: "client".to_owned(),
        what: "requests a task, of 1,000 at once".to_owned(),
        against: "a read every 2 s".to_owned(),
        unit: String::new(),
        better: Better::Lower,
        ours: vec![ours],
        theirs: vec![theirs],
        minimum: None,
        note: Some(
            "requests of creates and waits, in real time, counted by the real service; all tasks together \
             take half a minute. Ours sends one create, and one read of the result"
                .to_owned(),
        ),
        command: "cargo bench --bench polls".to_owned(),
    };
    row.print();
}

async fn create(client: &Client) -> Vec<String> {
    let creates = stream::iter(0..TASKS).map(|_| async {
        let inputs = Inputs::new().set("seconds", 1);
        let task = client.model("idle").run(inputs).start().await.expect("it is created");
        task.id().to_string()
    });
    creates.buffer_unordered(CREATES).collect().await
}

async fn by_pages(client: &Client) {
    let tasks = create(client).await;
    let ended = inferstore_batch::wait_all(client, tasks).map(|(_, result)| result.expect("a success"));
    assert_eq!(ended.count().await, TASKS);
}

async fn each_by_itself(client: &Client, raw: &inferstore_api::Client) {
    let tasks = create(client).await;
    let waits = tasks.into_iter().map(|id| async move {
        let id = inferstore::types::TaskId::new(id);
        loop {
            tokio::time::sleep(NAIVE).await;
            // The service may reject some of so many concurrent reads; read again next time.
            let Ok(task) = raw.get_task(&id).await else { continue };
            if task.into_inner().data.status == Some(TaskStatus::Success) {
                return;
            }
        }
    });
    futures_util::future::join_all(waits).await;
}

fn requests(service: &Service) -> f64 {
    let ask = request("GET", &format!("{}/metrics", service.operations), &[], None);
    let answer = Connection::open(&service.operations).and_then(|mut metrics| metrics.call(&ask));
    let text = String::from_utf8(answer.expect("an answer").body).expect("it is text");
    let counts = text.lines().filter(|line| line.starts_with("inferstore_requests_total"));
    let counts = counts.filter_map(|line| line.rsplit(' ').next()).map(|count| count.parse::<f64>());
    counts.map(|count| count.expect("a number")).sum()
}
