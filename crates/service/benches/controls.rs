//! Cost of the test controls: a reset, and the overhead of a request without a fault: `cargo bench --bench controls`.

#![expect(clippy::expect_used, reason = "a measurement that cannot go on says so by panicking")]

use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use inferstore_fetch::over_ring;
use inferstore_measure::{Better, Row};
use inferstore_service::{Amounts, Config, Controls, Script, Service};
use reqwest::Client;

const TASKS: usize = 10_000;
const ROUNDS: usize = 5;
const REQUESTS: usize = 1_000;

#[tokio::main]
async fn main() {
    let service = Service::start(Config::ephemeral().with_controls()).await.expect("the service starts");
    let controls = service.controls().expect("they are on");
    let mut reset = Vec::new();
    let mut fresh = Vec::new();
    for _ in 0..ROUNDS {
        fill(&service, &controls).await;
        reset.push(time(controls.reset()).await);
        fresh.push(time(Service::start(Config::ephemeral())).await);
    }
    row("reset of 10,000 tasks", "a new ephemeral service", "ms", reset, fresh, None).print();

    let plain = Service::start(Config::ephemeral()).await.expect("the service starts");
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        with.push(request(&service).await);
        without.push(request(&plain).await);
    }
    let note = "a service with controls checks every request for faults, and logs it";
    row("request with controls on", "the same with them off", "µs", with, without, Some(note)).print();
    service.shutdown().await;
    plain.shutdown().await;
}

async fn fill(service: &Service, controls: &Controls) {
    controls.let_model("color-extraction", Script::stay_queued()).await.expect("it is a script");
    let rich = Amounts { balance: "1000000".parse().ok(), ..Amounts::default() };
    controls.set_balance("demo", rich).await.expect("there is an account");
    let client = client();
    let url = format!("{}/api-key/model/color-extraction/task", service.base_url());
    let key = service.api_key().expect("the service is fresh");
    stream::iter(0..TASKS)
        .for_each_concurrent(16, |number| {
            let body = format!("{{\"input\": \"https://files.example/{number}.png\"}}");
            let request = client.post(&url).header("x-api-key", key);
            let request = request.header("content-type", "application/json").body(body);
            async move {
                let status = request.send().await.expect("the service responds").status();
                assert!(status.is_success(), "{status}");
            }
        })
        .await;
}

async fn request(service: &Service) -> f64 {
    let (client, key) = (client(), service.api_key().expect("the service is fresh"));
    let url = format!("{}/api-key/balance", service.base_url());
    let mut times = Vec::new();
    for _ in 0..REQUESTS {
        let begun = Instant::now();
        client.get(&url).header("x-api-key", key).send().await.expect("the service responds");
        times.push(begun.elapsed());
    }
    times.sort();
    1_000.0 * milliseconds(times[REQUESTS / 2])
}

fn client() -> Client {
    over_ring(Client::builder()).no_proxy().build().expect("a client can be made")
}

async fn time<T, E: std::fmt::Debug>(work: impl Future<Output = Result<T, E>>) -> f64 {
    let begun = Instant::now();
    drop(work.await.expect("it works"));
    milliseconds(begun.elapsed())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

fn row(what: &str, against: &str, unit: &str, ours: Vec<f64>, theirs: Vec<f64>, note: Option<&str>) -> Row {
    Row {
        group: "service".to_owned(),
        what: what.to_owned(),
        against: against.to_owned(),
        unit: unit.to_owned(),
        better: Better::Lower,
        ours,
        theirs,
        minimum: None,
        note: note.map(str::to_owned),
        command: "cargo bench --bench controls".to_owned(),
    }
}
