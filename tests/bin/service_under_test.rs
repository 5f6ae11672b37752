//! A service in a process of its own, for tests that kill it. Takes a data folder, an API port and a
//! storage port; logs its errors, says on one line that it is ready, and ends in order when its standard input closes.

use std::io::Read;
use std::process::ExitCode;

use inferstore_service::{Config, Service};

/// Known beforehand, so that the key outlives the process.
const API_KEY: &str = "isk_durability_test";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(cause) => {
            report(&format!("{cause}"));
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr);
    log.with_max_level(tracing_subscriber::filter::LevelFilter::ERROR).init();
    let mut arguments = std::env::args().skip(1);
    let mut next = |what: &str| arguments.next().ok_or(format!("an argument is missing: {what}"));
    let mut config = Config::folder(next("data folder")?);
    config.api.set_port(next("API port")?.parse()?);
    config.storage.set_port(next("storage port")?.parse()?);
    config.first_account.api_key = Some(API_KEY.to_owned());
    let service = Service::start(config).await?;
    announce(service.base_url());
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    service.shutdown().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the line that the test waits for")]
fn announce(base_url: &str) {
    println!("ready {base_url} {API_KEY}");
}

#[expect(clippy::print_stderr, reason = "a program tells its failure on standard error")]
fn report(message: &str) {
    eprintln!("{message}");
}
