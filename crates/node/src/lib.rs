//! A node: runs models for a service that is somewhere else. It pulls tasks by lease, gives each to a
//! command or to a model server over HTTP, and hands in what comes out.
//!
//! A node needs no address of its own: it only calls. What it says is described in `docs/nodes.md`.

mod config;
mod error;
mod inputs;
mod outputs;
mod run;
mod runners;
mod service;
mod work;

pub use config::{Config, ModelConfig, NodeKey, RunnerConfig};
pub use error::Error;
pub use work::serve;
