//! `inferstore-node <file>`: runs the models that the file names. The key of the node is read from
//! `INFERSTORE_NODE_KEY`.

use std::path::Path;
use std::process::ExitCode;

use inferstore_node::{Config, Error, NodeKey, prepare, serve};
use tokio::signal::unix::{SignalKind, signal};

/// Where the key is read from, so that it stands in no file that is passed around.
const KEY: &str = "INFERSTORE_NODE_KEY";

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
        return Err(Error::new("reading the arguments", "there is one: the file that names the models"));
    };
    let mut config = Config::read(Path::new(file))?;
    prepare(&mut config, Path::new("python3")).await?;
    let key = std::env::var(KEY).map_err(|cause| Error::new(format!("reading {KEY}"), cause))?;
    serve(config, NodeKey::new(key), ended()).await
}

/// Returns when the process is asked to end.
async fn ended() {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        // Without signals the process ends as any other does.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
