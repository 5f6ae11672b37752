//! How long the command takes to start, beside a process that does nothing; and what `balance` adds to
//! the HTTP call that it makes. Prints medians: a test on times of a busy machine would only blink.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a bench prints, and ends when it cannot go on"
)]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use inferstore::{ApiKey, Client};
use inferstore_service::{Config, Service};

const ROUNDS: usize = 50;

fn main() {
    let nothing = median(|| process(&mut Command::new("/bin/true")));
    let version = median(|| process(inferstore().arg("--version")));
    println!("--version: {version:.1?}, {:.1} times /bin/true ({nothing:.1?})", ratio(version, nothing));

    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be made");
    let service = runtime.block_on(Service::start(Config::ephemeral())).expect("the service starts");
    let (base_url, key) = (service.base_url().to_owned(), service.api_key().unwrap_or_default().to_owned());
    let call = median(|| {
        // A client of its own, because the command has no connection to begin with either.
        let began = Instant::now();
        let client = Client::new(&base_url, ApiKey::new(&key)).expect("a client can be made");
        runtime.block_on(client.account().balance()).expect("it is answered");
        began.elapsed()
    });
    let balance = median(|| {
        let mut command = inferstore();
        command.env("INFERSTORE_BASE_URL", &base_url).env("INFERSTORE_API_KEY", &key);
        process(command.arg("balance"))
    });
    let added = balance.saturating_sub(call).saturating_sub(nothing);
    println!(
        "balance: {balance:.1?}, of which the call {call:.1?}, the process {nothing:.1?}, the command {added:.1?}"
    );
    runtime.block_on(service.shutdown());
}

fn inferstore() -> Command {
    Command::new(env!("CARGO_BIN_EXE_inferstore"))
}

/// How long the process takes from its start to its end.
fn process(command: &mut Command) -> Duration {
    let began = Instant::now();
    let status = command.stdout(Stdio::null()).status().expect("it starts");
    assert!(status.success());
    began.elapsed()
}

fn median(measure: impl FnMut() -> Duration) -> Duration {
    let mut times: Vec<Duration> = std::iter::repeat_with(measure).take(ROUNDS).collect();
    times.sort();
    times[ROUNDS / 2]
}

fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64()
}
