//! Node: runs models for a remote service. Claims tasks under a lease, passes each to a command or a model
//! server, and reports the result.
//!
//! A node only makes requests, so it needs no address of its own. `docs/node-protocol.md` describes the requests.

mod config;
mod environment;
mod error;
mod inputs;
mod log;
mod outputs;
mod run;
mod runners;
mod service;
mod work;
mod worker;

pub use config::{Config, ModelConfig, NodeKey, RunnerConfig, WorkerConfig};
pub use environment::prepare;
pub use error::Error;
pub use work::serve;
pub use worker::{RunError, WorkerCommand, WorkerError, WorkerProcess, WorkerResponse};
