//! Service in a process of its own, for tests that kill or abuse it. Takes a data folder, an API port, a
//! storage port and settings as `name=number`. Logs its errors, prints a ready line, and shuts down gracefully
//! when its standard input closes.
//!
//! Does not run `face-mesh`, so that nodes can.
//!
//! | setting | what it sets |
//! |---|---|
//! | `operations`, `nodes` | the ports of these listeners; with nodes, there is a second account too, and its key and one for nodes follow in the line |
//! | `client_timeout` | for how many milliseconds a slow client is waited for |
//! | `connections`, `requests` | how many there may be |

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use inferstore_service::{Config, Credit, Money, Scope, Service};

/// Fixed, so that the key outlives the process.
const API_KEY: &str = "isk_durability_test";

type AnyResult<T = ()> = Result<T, Box<dyn std::error::Error>>;

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
async fn run() -> AnyResult {
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr);
    log.with_max_level(tracing_subscriber::filter::LevelFilter::ERROR).init();
    let mut arguments = std::env::args().skip(1);
    let mut next = |what: &str| arguments.next().ok_or(format!("an argument is missing: {what}"));
    let mut config = Config::folder(next("data folder")?);
    config.api.set_port(next("API port")?.parse()?);
    config.storage.set_port(next("storage port")?.parse()?);
    config.first_account.api_key = Some(API_KEY.to_owned());
    config.first_account.balance = "1000000".parse()?;
    // Tests check the costs of tasks; billing of storage would depend on a full disk.
    config.storage_price_per_gib_day = Some(Money::ZERO);
    config.excluded_models.insert("face-mesh".to_owned());
    for setting in arguments {
        let (name, value) = setting.split_once('=').ok_or("a setting is name=number")?;
        set(&mut config, name, value.parse()?)?;
    }
    let has_nodes = config.nodes.is_some();
    let service = Service::start(config).await?;
    let further_keys = if has_nodes { further_keys(&service).await? } else { String::new() };
    announce(&format!("ready {} {API_KEY} {further_keys}", service.base_url()));
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    service.shutdown().await;
    Ok(())
}

fn set(config: &mut Config, name: &str, value: u16) -> AnyResult {
    let listener = SocketAddr::from((Ipv4Addr::LOCALHOST, value));
    let limits = &mut config.limits;
    match name {
        "operations" => config.operations = Some(listener),
        "nodes" => config.nodes = Some(listener),
        "client_timeout" => {
            let client_timeout = Duration::from_millis(value.into());
            (limits.head_timeout, limits.body_time, limits.keep_alive) =
                (client_timeout, client_timeout, client_timeout);
            (limits.upload_idle, limits.response_timeout) = (client_timeout, client_timeout);
        }
        "connections" => limits.max_connections = value.into(),
        "requests" => limits.max_requests = value.into(),
        other => return Err(format!("there is no setting {other}").into()),
    }
    Ok(())
}

async fn further_keys(service: &Service) -> AnyResult<String> {
    service.add_account("second", Scope::Personal).await?;
    service.credit("second", Credit::Paid("10".parse()?)).await?;
    Ok(format!("{} {}", service.add_key("second").await?, service.add_node_key("second").await?))
}

#[expect(clippy::print_stdout, reason = "the line that the test waits for")]
fn announce(line: &str) {
    println!("{line}");
}

#[expect(clippy::print_stderr, reason = "a program tells its failure on standard error")]
fn report(message: &str) {
    eprintln!("{message}");
}
