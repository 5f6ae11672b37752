//! Nodes outside the process, from the client over the service to the model and back: guarantees for commands
//! and model servers, and tasks of killed nodes.

mod bench;
pub(crate) mod built_in;
mod commands;
mod killed;
mod logs;
mod real;
mod servers;
mod vision;
mod workers;
