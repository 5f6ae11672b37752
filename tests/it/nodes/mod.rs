//! Nodes outside the process, from the client over the service to the model and back: what a command and
//! a model server can rely on, and what becomes of tasks whose node is killed.

mod bench;
pub(crate) mod built_in;
mod commands;
mod killed;
mod real;
mod servers;
mod vision;
mod workers;
