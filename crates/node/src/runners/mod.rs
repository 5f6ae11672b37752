//! Runners of models: commands, workers, and model servers over HTTP.

mod cog;
mod command;
mod http;
mod open_inference;
mod worker;

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

pub(crate) use self::http::reason;
use crate::Error;
use crate::config::{RunnerConfig, WorkerConfig};
use crate::inputs::Inputs;
use crate::log::RunLog;
use crate::outputs::{Failed, Output};
use crate::service::{Descriptor, Lease};

pub(crate) type Outputs = BTreeMap<String, Output>;

pub(crate) enum Runner {
    Command(command::Command),
    Cog(cog::Cog),
    OpenInference(open_inference::OpenInference),
    Worker(Box<worker::Worker>),
}

impl Runner {
    pub(crate) fn worker(config: &WorkerConfig) -> Result<Self, Error> {
        Ok(Self::Worker(Box::new(worker::Worker::new(config)?)))
    }

    pub(crate) fn new(model: &str, config: &RunnerConfig) -> Result<Option<Self>, Error> {
        Ok(Some(match config {
            RunnerConfig::Worker { .. } => return Ok(None),
            RunnerConfig::Command { command, folder, memory_mib } => {
                Self::Command(command::Command::new(command, folder.as_deref(), *memory_mib)?)
            }
            RunnerConfig::Cog { server } => Self::Cog(cog::Cog::new(server)?),
            RunnerConfig::OpenInference { server, model: other, version } => {
                let model = other.as_deref().unwrap_or(model);
                Self::OpenInference(open_inference::OpenInference::new(server, model, version.as_deref())?)
            }
        }))
    }

    pub(crate) async fn is_ready(&self) -> Result<(), String> {
        match self {
            Self::Command(command) => command.is_ready().await,
            Self::Cog(cog) => cog.is_ready().await,
            Self::OpenInference(server) => server.is_ready().await,
            Self::Worker(worker) => worker.is_ready().await,
        }
    }

    pub(crate) async fn run(&self, lease: &Lease, inputs: Inputs, log: &RunLog) -> Result<Outputs, Failed> {
        match self {
            Self::Command(command) => command.run(lease, inputs, log).await,
            Self::Cog(cog) => cog.run(lease, inputs).await,
            Self::OpenInference(server) => server.run(lease, inputs).await,
            Self::Worker(worker) => worker.run(lease, inputs, log).await,
        }
    }
}

/// Converts an input to its declared JSON type: callers may spell numbers as strings.
fn as_typed(value: &RawValue, declared: Option<&Descriptor>) -> Value {
    let read: Value = serde_json::from_str(value.get()).unwrap_or_default();
    let number: Option<Value> = match (declared.map(|declared| declared.kind.as_str()), &read) {
        (Some("int"), Value::String(text)) => text.parse::<i64>().ok().map(Value::from),
        (Some("float"), Value::String(text)) => text.parse::<f64>().ok().map(Value::from),
        _ => None,
    };
    number.unwrap_or(read)
}

/// Converts an output to its declared JSON type: a value becomes a string where one is declared. Nothing is no string.
fn as_declared(value: &Value, declared: &Descriptor) -> Value {
    match (declared.kind.as_str(), value) {
        ("int" | "float", _) | (_, Value::String(_) | Value::Null) => value.clone(),
        (_, other) => Value::String(other.to_string()),
    }
}
