//! Tasks that need the generator, forwarded to the whole program.

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Context, Result};
use inferstore_contract::tools::cargo;

// Without a doc comment, which would replace the help of the task.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Job {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _arguments: Vec<OsString>,
}

pub(crate) fn run() -> Result<(String, ExitCode)> {
    let mut whole = cargo();
    whole.args(["run", "--quiet", "--package", "xtask", "--"]).args(env::args_os().skip(1));
    let code = whole.status().context("cannot run cargo")?.code();
    Ok((
        String::new(),
        code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from),
    ))
}
