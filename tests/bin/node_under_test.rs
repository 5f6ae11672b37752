//! Node in a process of its own, for tests that kill it. Takes its settings file and its key, and serves
//! until it is killed or its standard input closes.

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use inferstore_node::{Config, Error, NodeKey, serve};

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(cause) => {
            report(&cause);
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [settings, key] = &arguments[..] else {
        return Err(Error::new("reading the arguments", "there are two: settings and key"));
    };
    serve(Config::read(Path::new(settings))?, NodeKey::new(key), closed()).await
}

async fn closed() {
    let _ = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await;
}

#[expect(clippy::print_stderr, reason = "a program tells its failure on standard error")]
fn report(cause: &Error) {
    eprintln!("{cause}");
}
