//! `inferstore-node <file>`: runs the models of the configuration file, with the key in `INFERSTORE_NODE_KEY`.

use std::env::VarError;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use inferstore_node::{Config, Error, NodeKey, prepare, serve};
use tokio::signal::unix::{SignalKind, signal};

/// Environment variable of the key, so that no file contains it.
const KEY: &str = "INFERSTORE_NODE_KEY";

const HELP: &str = concat!(
    "inferstore-node ",
    env!("CARGO_PKG_VERSION"),
    "

Usage: inferstore-node FILE

Runs the models that FILE names for a service, until SIGTERM or Ctrl-C. The key of the node is read from
INFERSTORE_NODE_KEY; `inferstore admin node add NAME` prints one. docs/nodes.md describes FILE. `inferstore node run`
does the same, and publishes models.

Options:
  -h, --help     Print this
  -V, --version  Print the version
"
);

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_target(false).init();
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(cause) => {
            tracing::error!("{cause}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file] = &arguments[..] else {
        return Err(Error::new(
            "reading the arguments",
            "there is one: the file that names the models; see --help",
        ));
    };
    let printed = match file.as_str() {
        "-h" | "--help" => Some(HELP),
        "-V" | "--version" => Some(concat!("inferstore-node ", env!("CARGO_PKG_VERSION"), "\n")),
        _ => None,
    };
    if let Some(text) = printed {
        let written = std::io::stdout().write_all(text.as_bytes());
        return written.map_err(|cause| Error::new("printing the help", cause));
    }
    let mut config = Config::read(Path::new(file))?;
    prepare(&mut config, Path::new("python3")).await?;
    let key = std::env::var(KEY).map_err(|cause| {
        // `VarError` quotes a value that is not UTF-8.
        let cause = match cause {
            VarError::NotPresent => "it is not set; `inferstore admin node add NAME` prints a key",
            VarError::NotUnicode(_) => "its value is not UTF-8",
        };
        Error::new(format!("reading {KEY}"), cause)
    })?;
    serve(config, NodeKey::new(key), ended()).await
}

async fn ended() {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        // Without signal handlers, the process ends on a signal by default.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
