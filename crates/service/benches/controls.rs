//! How long a reset and the restoring of a snapshot take in a service with 10,000 tasks, and what the
//! controls cost a request that meets no fault. Prints the median and the worst of several rounds.

#![expect(clippy::expect_used, reason = "a measurement that cannot go on says so by panicking")]
#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]

use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use inferstore_fetch::over_ring;
use inferstore_service::{Amounts, Config, Controls, Script, Service};
use reqwest::Client;

const TASKS: usize = 10_000;
const ROUNDS: usize = 5;
const REQUESTS: usize = 2_000;

#[tokio::main]
async fn main() {
    for (name, config) in [("ephemeral", Config::ephemeral()), ("synced", folder())] {
        let data = config.data.clone();
        let service = Service::start(config.with_controls()).await.expect("the service starts");
        measure(name, &service).await;
        service.shutdown().await;
        if let inferstore_service::Data::Folder(folder) = data {
            std::fs::remove_dir_all(folder).expect("the folder can be removed");
        }
    }
    for (name, config) in
        [("without controls", Config::ephemeral()), ("with controls", Config::ephemeral().with_controls())]
    {
        let service = Service::start(config).await.expect("the service starts");
        println!("a request {name}: {:?}", request(&service).await);
        service.shutdown().await;
    }
}

fn folder() -> Config {
    Config::folder(tempfile::tempdir().expect("a temporary folder").keep())
}

async fn measure(name: &str, service: &Service) {
    let controls = service.controls().expect("they are on");
    let (mut kept, mut restored, mut reset) = (Vec::new(), Vec::new(), Vec::new());
    fill(service, &controls).await;
    for _ in 0..ROUNDS {
        kept.push(time(controls.snapshot("full")).await);
        reset.push(time(controls.reset()).await);
        restored.push(time(controls.restore("full")).await);
    }
    for (what, times) in [("snapshot", kept), ("reset", reset), ("restore", restored)] {
        println!("{what} of {TASKS} tasks, {name}: {}", shown(times));
    }
}

/// Creates the tasks over the API; they stay queued.
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
                let status = request.send().await.expect("the service answers").status();
                assert!(status.is_success(), "{status}");
            }
        })
        .await;
}

async fn request(service: &Service) -> Duration {
    let (client, key) = (client(), service.api_key().expect("the service is fresh"));
    let url = format!("{}/api-key/balance", service.base_url());
    let mut times = Vec::new();
    for _ in 0..REQUESTS {
        let begun = Instant::now();
        client.get(&url).header("x-api-key", key).send().await.expect("the service answers");
        times.push(begun.elapsed());
    }
    times.sort();
    times[REQUESTS / 2]
}

fn client() -> Client {
    over_ring(Client::builder()).no_proxy().build().expect("a client can be made")
}

async fn time<E: std::fmt::Debug>(work: impl Future<Output = Result<(), E>>) -> Duration {
    let begun = Instant::now();
    work.await.expect("it works");
    begun.elapsed()
}

fn shown(mut times: Vec<Duration>) -> String {
    times.sort();
    format!("median {:?}, worst {:?}", times[times.len() / 2], times[times.len() - 1])
}
