//! `inferstore serve`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use inferstore::{API_KEY_VARIABLE, BASE_URL_VARIABLE};
use inferstore_service::{Config, ControlsConfig, Money, Service};
use serde_json::json;

use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::settings::Session;

/// Run the service on this machine
///
/// The API and object storage listen on addresses of their own. The first start on a data folder draws
/// the key of the first account, unless --api-key or the environment gives one, and shows it once: only
/// its hash is kept. Ctrl-C and SIGTERM end the service in order.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    host: IpAddr,
    /// The port of the API; 0 takes a free one
    #[arg(long, value_name = "N", default_value_t = 8787)]
    port: u16,
    /// The port of object storage; 0 takes a free one
    #[arg(long, value_name = "N", default_value_t = 8788)]
    storage_port: u16,
    /// The address of object storage as others reach it; it becomes part of every download URL
    #[arg(long, value_name = "URL")]
    storage_url: Option<String>,
    /// A port for /health and /metrics; none unless told
    #[arg(long, value_name = "N")]
    operations_port: Option<u16>,
    /// A port for nodes outside this process to pull tasks from; none unless told
    #[arg(long, value_name = "N")]
    nodes_port: Option<u16>,
    /// A port for the controls for testers, with a token that is shown; none unless told
    #[arg(long, value_name = "N")]
    controls_port: Option<u16>,
    /// Keep the data in this folder
    #[arg(long, value_name = "DIR", default_value = "inferstore-data")]
    data_dir: PathBuf,
    /// Keep nothing: the data go when the service ends
    #[arg(long, conflicts_with = "data_dir")]
    ephemeral: bool,
    /// How many tasks run side by side; one for each core unless told
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// The balance of the first account, on the first start
    #[arg(long, value_name = "AMOUNT")]
    balance: Option<Money>,
    /// What happens to a task that the balance does not cover
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = InsufficientBalance::Refuse)]
    insufficient_balance: InsufficientBalance,
    /// Print one line of JSON when the service is ready, and nothing else
    #[arg(long)]
    ready_json: bool,
}

/// The two responses that the API describes for a task that the balance does not cover.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum InsufficientBalance {
    /// The call is refused
    Refuse,
    /// The task is created and fails at once
    FailTask,
}

impl From<InsufficientBalance> for inferstore_service::InsufficientBalance {
    fn from(choice: InsufficientBalance) -> Self {
        match choice {
            InsufficientBalance::Refuse => Self::Refuse,
            InsufficientBalance::FailTask => Self::FailTask,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  inferstore serve
  inferstore serve --ephemeral
  inferstore serve --port 0 --storage-port 0 --ephemeral --ready-json
  INFERSTORE_API_KEY=... inferstore serve --host 0.0.0.0 --storage-url https://files.example";

pub(crate) async fn execute(arguments: Arguments, session: Session) -> Result {
    let given_key = session.given_key();
    log_to(&session.output);
    // Before the service starts, so that a signal during the start is not lost.
    let ended = Ending::new()?;
    let is_ready_json = arguments.ready_json;
    let config = config(arguments, given_key.clone(), &session);
    let service = Service::start(config).await.map_err(|error| {
        Failure::new(crate::exit::FAILED, error.to_string())
            .with_hint("choose other ports with --port and --storage-port, or another --data-dir")
    })?;
    let key = service.api_key().map(str::to_owned).or(given_key);
    if is_ready_json {
        let folder = std::path::absolute(service.data_folder()).unwrap_or(service.data_folder().to_owned());
        let mut ready = json!({
            "event": "ready",
            "base_url": service.base_url(),
            "storage_url": service.storage_url(),
            "api_key": key,
            "data_dir": folder,
            "pid": std::process::id(),
        });
        for (name, value) in asked_for(&service) {
            ready[name] = json!(value);
        }
        session.output.data(ready.to_string())?;
    } else {
        session.output.data(format!("export {BASE_URL_VARIABLE}={}", service.base_url()))?;
        match &key {
            Some(key) => session.output.data(format!("export {API_KEY_VARIABLE}={key}"))?,
            None => session.output.note(
                "the key was shown on the first start; `inferstore admin key add demo` draws another while \
                 the service is stopped",
            ),
        }
        session.output.note(format!("object storage: {}", service.storage_url()));
        for (name, value) in asked_for(&service) {
            session.output.note(format!("{}: {value}", name.replace('_', " ")));
        }
        session.output.note(format!("data: {}; Ctrl-C ends the service", service.data_folder().display()));
    }
    ended.wait().await;
    session.output.note("ending: requests in progress are finished");
    service.shutdown().await;
    Ok(())
}

/// Where the listeners are that run only when they are asked for, and what opens them.
fn asked_for(service: &Service) -> Vec<(&'static str, String)> {
    let mut listeners = Vec::new();
    if let Some(url) = service.operations_url() {
        listeners.push(("operations_url", url.to_owned()));
    }
    if let Some(url) = service.nodes_url() {
        listeners.push(("nodes_url", url.to_owned()));
    }
    if let Ok(controls) = service.controls() {
        listeners.push(("controls_url", controls.url().to_owned()));
        listeners.push(("controls_token", controls.token().to_owned()));
    }
    listeners
}

fn config(arguments: Arguments, api_key: Option<String>, session: &Session) -> Config {
    let mut config = match arguments.ephemeral {
        true => Config::ephemeral(),
        false => Config::folder(session.surroundings.folder.join(&arguments.data_dir)),
    };
    config.api = SocketAddr::new(arguments.host, arguments.port);
    config.storage = SocketAddr::new(arguments.host, arguments.storage_port);
    config.operations = arguments.operations_port.map(|port| SocketAddr::new(arguments.host, port));
    config.nodes = arguments.nodes_port.map(|port| SocketAddr::new(arguments.host, port));
    config.controls = arguments.controls_port.map(|port| {
        let mut controls = ControlsConfig::default();
        controls.address = SocketAddr::new(arguments.host, port);
        controls
    });
    config.storage_url = arguments.storage_url;
    config.insufficient_balance = arguments.insufficient_balance.into();
    config.first_account.api_key = api_key;
    if let Some(balance) = arguments.balance {
        config.first_account.balance = balance;
    }
    if let Some(workers) = arguments.workers {
        config.workers = workers;
    }
    config
}

/// What the service says goes to standard error: warnings, and on demand everything.
fn log_to(output: &Output) {
    let level = if output.is_verbose { tracing::Level::DEBUG } else { tracing::Level::WARN };
    let subscriber = tracing_subscriber::fmt().with_max_level(level).with_ansi(false);
    // A second service in one process logs to where the first one does.
    let _ = subscriber.with_writer(std::io::stderr).try_init();
}

/// The signals that end a service.
struct Ending {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl Ending {
    #[cfg(unix)]
    fn new() -> Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let failed = |error| Failure::here("signals cannot be listened to", error);
        Ok(Self {
            terminate: signal(SignalKind::terminate()).map_err(failed)?,
            interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
        })
    }

    #[cfg(unix)]
    async fn wait(mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    #[cfg(not(unix))]
    fn new() -> Result<Self> {
        Ok(Self {})
    }

    #[cfg(not(unix))]
    async fn wait(self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}
