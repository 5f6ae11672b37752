//! The `inferstore` command.

use std::process::ExitCode;

use inferstore_cli::Environment;

fn main() -> ExitCode {
    inferstore_cli::complete();
    ExitCode::from(inferstore_cli::run(std::env::args_os(), Environment::of_this_process()))
}
