//! Service in a process of its own, for benchmarks, so that its resources can be measured separately. Takes a
//! data folder, or `ephemeral`, and the number of concurrent tasks. Prints a ready line with its addresses,
//! and shuts down gracefully when its standard input closes.

use std::io::Read;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use inferstore_service::model::{self, Inputs, Limits, Model, Output};
use inferstore_service::{Config, ModelSpec, Service};

/// Fixed, so that the key outlives the process.
const API_KEY: &str = "isk_benchmark_00000000";

const IDLE: &str = r#"{
    "id": "idle", "name": "idle", "description": "Does nothing for a while.", "price": "0.000001",
    "visibility": "public",
    "input_format": {"seconds": {"type": "float", "required": true, "position": 0, "samples": ["0"],
                     "num_config": {"min": 0, "max": 60}}},
    "output_format": {"output": {"type": "string", "position": 0}}
}"#;

/// Model that only waits, so that only the service is measured.
struct Idle;

impl Model for Idle {
    fn kind(&self) -> &'static str {
        "idle"
    }

    fn memory(&self, _: u64) -> Option<u64> {
        // The model takes no memory, so that every worker can run it at once.
        Some(0)
    }

    fn run(&self, inputs: &Inputs, _: &Limits) -> Result<Vec<(&'static str, Output)>, model::Error> {
        let seconds = inputs.number("seconds", 0.0..=60.0)?;
        if seconds > 0.0 {
            thread::sleep(Duration::from_secs_f64(seconds));
        }
        Ok(vec![("output", Output::Text("done".to_owned()))])
    }
}

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
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [data, workers] = &arguments[..] else {
        return Err("there are two arguments: data and workers".into());
    };
    let mut config = if data == "ephemeral" { Config::ephemeral() } else { Config::folder(data) };
    config.workers = workers.parse()?;
    config.operations = Some(config.api);
    config.nodes = Some(config.api);
    config.first_account.api_key = Some(API_KEY.to_owned());
    config.first_account.balance = "1000000".parse()?;
    config.limits.account_unfinished = u32::MAX;
    config.limits.max_requests *= 4;
    let owner = config.first_account.username.clone();
    let service = Service::start_with_models(config, vec![Arc::new(Idle)]).await?;
    let is_fresh = service.api_key().is_some();
    if is_fresh {
        service.publish_model(&owner, ModelSpec::from_json(IDLE)?).await?;
    }
    let node_key = service.add_node_key(&format!("benchmark {}", std::process::id())).await?;
    announce(&[
        "ready",
        service.base_url(),
        API_KEY,
        service.operations_url().unwrap_or_default(),
        service.nodes_url().unwrap_or_default(),
        &node_key,
    ]);
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    service.shutdown().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the line that the benchmark waits for")]
fn announce(words: &[&str]) {
    println!("{}", words.join(" "));
}

#[expect(clippy::print_stderr, reason = "a program tells its failure on standard error")]
fn report(message: &str) {
    eprintln!("{message}");
}
