//! `inferstore node`.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use inferstore::Client;
use inferstore_node::{Config, NodeKey, prepare, serve};
use inferstore_profiles::trust_file;
use inferstore_service::AdminClient;
use serde_json::{Value, json};

use super::admin::DATA_DIR;
use super::signals::Signals;
use crate::exit;
use crate::failure::{Failure, Result};
use crate::settings::Session;

const KEY_VARIABLE: &str = "INFERSTORE_NODE_KEY";
const SETTINGS: &str = "node.json";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the models of a folder until Ctrl-C
    ///
    /// Creates the Python environment that the node asks for, publishes the models that are its own, and serves. The
    /// key of the node is that in INFERSTORE_NODE_KEY; without it, the service with this data folder creates
    /// one, which is revoked at the end.
    Run(Arguments),
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The folder of the node, with its node.json; or that file
    path: PathBuf,
    /// The address at which the service listens for nodes [default: that in node.json]
    #[arg(long, value_name = "URL")]
    service: Option<String>,
    /// The data folder of the service
    #[arg(long, value_name = "DIR", default_value = DATA_DIR)]
    data_dir: PathBuf,
    /// The account that publishes the models of the node
    #[arg(long, value_name = "ACCOUNT", default_value = "demo")]
    account: String,
    /// The Python that creates the environment
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  inferstore serve --nodes-port 8789
  inferstore node run crates/node/examples/vision
  INFERSTORE_NODE_KEY=… inferstore node run crates/node/examples/vision --service https://nodes.example";

pub(crate) async fn execute(command: Command, session: Session) -> Result {
    let Command::Run(arguments) = command;
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_target(false).with_ansi(false);
    // Where a log is already kept, it is used.
    let _ = log.try_init();
    let file = if arguments.path.is_dir() { arguments.path.join(SETTINGS) } else { arguments.path.clone() };
    let service = arguments.service.as_deref().map(str::parse).transpose();
    let service = service.map_err(|error| Failure::usage(format!("--service is not a URL: {error}")))?;
    let mut config = Config::read_for(&file, service.as_ref()).map_err(|error| {
        let hint = "name a folder with a node.json: inferstore model init MODEL writes one";
        Failure::usage(error.to_string()).or_hint((!file.is_file()).then_some(hint))
    })?;
    if let Some(file) = session.cacert() {
        // An unusable file is an error before a model is published.
        trust_file(Client::builder("", ""), &file).map(drop)?;
        config.cacert = Some(file);
    }
    config.proxy = session.global.proxy.clone().or(config.proxy);
    let given = session.environment.variable(KEY_VARIABLE).map(str::to_owned);
    if given.is_none() {
        // Before the environment is created, which takes minutes: the service may refuse a model.
        publish_all(&config, &arguments, &session).await?;
    } else if !config.publish.is_empty() {
        session.note("publish the models of this node where the service is: inferstore admin model publish");
    }
    prepare(&mut config, &arguments.python).await.map_err(failed)?;

    // Before a key is created, which is revoked at the end.
    let mut signals = Signals::new()?;
    let name = key_name(&file);
    let is_own_key = given.is_none();
    let models: Vec<String> = config.models.keys().cloned().collect();
    let key = match given {
        Some(key) => key,
        None => {
            let mut admin = admin(&arguments.data_dir).await?;
            let body = json!({ "name": name, "models": models }).to_string();
            let created = admin.call("POST", &["nodes", "keys"], Some(body)).await;
            admin.close().await;
            let created = created.map_err(failed)?;
            created["node_key"].as_str().ok_or_else(|| failed("the response has no key"))?.to_owned()
        }
    };
    session.note(format!("starting {}; Ctrl-C ends the node", models.join(", ")));
    let served = serve(config, NodeKey::new(key), async move { signals.next().await }).await;
    if is_own_key && let Ok(mut admin) = admin(&arguments.data_dir).await {
        // A service that has ended meanwhile keeps the key, which `inferstore admin node revoke` ends.
        let _ = admin.call("DELETE", &["nodes", "keys", &name], None).await;
        admin.close().await;
    }
    served.map_err(failed)
}

/// The name of the key that is created: that of the folder of the node, and a number, so that it is no other key's.
fn key_name(file: &Path) -> String {
    let folder = std::path::absolute(file).ok().and_then(|file| Some(file.parent()?.file_name()?.to_owned()));
    let name = folder.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let is_plain = |letter: &char| letter.is_ascii_alphanumeric() || *letter == '-';
    let plain: String = name.chars().filter(is_plain).collect();
    let folder = if plain.is_empty() { "node" } else { &plain };
    format!("{folder}-{:08x}", fastrand::u32(..))
}

async fn admin(data: &Path) -> Result<AdminClient> {
    AdminClient::open(data).await.map_err(|error| {
        let hint = format!("--data-dir names its folder; or put a key of the service into {KEY_VARIABLE}");
        failed(error).with_hint(hint)
    })
}

async fn publish_all(config: &Config, arguments: &Arguments, session: &Session) -> Result {
    // All files are read before the first model is published, because a publication cannot be undone.
    let models = config.publish.iter().map(|file| Ok((file, read_model(file, config)?)));
    let models: Vec<_> = models.collect::<Result<_>>()?;
    let mut admin = admin(&arguments.data_dir).await?;
    let published = async {
        // A file may have changed since the last start.
        for (path, (id, text)) in &models {
            let body = format!(r#"{{"account":{},"model":{text}}}"#, json!(arguments.account));
            admin.call("PUT", &["models"], Some(body)).await.map_err(|error| {
                let path = path.display();
                failed(error).with_hint(format!(
                    "correct {path}, where an id also stands in the node.json beside it, or name another --account"
                ))
            })?;
            session.note(format!("{id} is published by {}", arguments.account));
        }
        Ok(())
    };
    let published = published.await;
    admin.close().await;
    published
}

/// Reads a file of a model that the node serves: the identifier of the model, and the text of the file.
fn read_model(path: &Path, config: &Config) -> Result<(String, String)> {
    let unusable = |error: &dyn Display| Failure::usage(format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| unusable(&error))?;
    // Some editors of Windows write a byte-order mark.
    let text = text.trim_start_matches('\u{feff}').to_owned();
    let spec: Value = serde_json::from_str(&text).map_err(|error| unusable(&error))?;
    let id = spec["id"].as_str().ok_or_else(|| unusable(&"a model has an id"))?.to_owned();
    if !config.models.contains_key(&id) {
        let served: Vec<&str> = config.models.keys().map(String::as_str).collect();
        let hint = "the id of a model is in model.json, in node.json, and in the last line of a model.py";
        let problem = format!("the node serves {}, not {id}", served.join(", "));
        return Err(unusable(&problem).with_hint(hint));
    }
    Ok((id, text))
}

fn failed(problem: impl Display) -> Failure {
    Failure::new(exit::FAILED, problem.to_string())
}
