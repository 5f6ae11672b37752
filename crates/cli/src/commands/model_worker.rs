//! `inferstore model-worker`: the process in which `inferstore serve` runs its built-in models.

use std::ffi::OsString;

use clap::Args;

use crate::exit;
use crate::failure::{Failure, Result};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Largest number of pixels of a picture
    pixels: u64,
    /// Largest number of bytes of a run
    memory: u64,
}

/// The command that starts this program again as such a process.
pub(crate) fn command() -> Option<Vec<OsString>> {
    // The file of a running program may be replaced by an update; this leads to the program that runs.
    let own = std::path::Path::new("/proc/self/exe");
    let program = if own.exists() { own.to_owned() } else { std::env::current_exe().ok()? };
    Some(vec![program.into_os_string(), OsString::from("model-worker")])
}

pub(crate) fn execute(arguments: &Arguments) -> Result {
    inferstore_service::serve_models(arguments.pixels, arguments.memory)
        .map_err(|error| Failure::new(exit::FAILED, format!("the models cannot be run: {error}")))
}
