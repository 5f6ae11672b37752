//! A node: runs models for a service that is somewhere else. It pulls tasks by lease, gives each to a
//! command or to a model server over HTTP, and hands in what comes out.
//!
//! A node needs no address of its own: it only calls. `docs/node-protocol.md` describes its requests.

mod config;
mod environment;
mod error;
mod inputs;
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
