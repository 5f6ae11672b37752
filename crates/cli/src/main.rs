//! The `inferstore` command.

use std::process::ExitCode;

use inferstore_cli::Environment;

fn main() -> ExitCode {
    ExitCode::from(inferstore_cli::run(std::env::args_os(), Environment::of_this_process()))
}
