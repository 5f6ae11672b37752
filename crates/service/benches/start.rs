//! How long a service takes to start: on a fresh ephemeral folder, on a fresh folder that is synced to the
//! disk, and again on that one. Prints the median of 20 each.

#![expect(clippy::expect_used, reason = "a measurement that cannot go on says so by panicking")]
#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]

use std::time::{Duration, Instant};

use inferstore_service::{Config, Service};

const ROUNDS: usize = 20;

#[tokio::main]
async fn main() {
    let mut fresh = Vec::new();
    let (mut synced, mut again) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        fresh.push(start(Config::ephemeral()).await);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let config = Config::folder(folder.path());
        synced.push(start(config.clone()).await);
        again.push(start(config).await);
    }
    println!("start on a fresh ephemeral folder: {:?}", median(fresh));
    println!("start on a fresh synced folder:    {:?}", median(synced));
    println!("start on it again:                 {:?}", median(again));
}

/// From the call to the moment when the service answers.
async fn start(config: Config) -> Duration {
    let begun = Instant::now();
    let service = Service::start(config).await.expect("the service starts");
    let elapsed = begun.elapsed();
    service.shutdown().await;
    elapsed
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
