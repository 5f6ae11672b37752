//! The commands, one file for each noun.

pub(crate) mod admin;
pub(crate) mod alias;
pub(crate) mod api;
pub(crate) mod balance;
pub(crate) mod completions;
pub(crate) mod console;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod files;
pub(crate) mod help;
pub(crate) mod login;
pub(crate) mod mcp;
pub(crate) mod model_init;
pub(crate) mod model_worker;
pub(crate) mod models;
pub(crate) mod node;
pub(crate) mod open;
pub(crate) mod outcome;
pub(crate) mod outputs;
pub(crate) mod profile;
pub(crate) mod reference;
pub(crate) mod run;
pub(crate) mod serve;
mod signals;
pub(crate) mod status;
pub(crate) mod task;
pub(crate) mod version;
