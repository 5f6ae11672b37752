//! The `inferstore` command.

use std::process::ExitCode;

use inferstore_cli::Surroundings;

fn main() -> ExitCode {
    ExitCode::from(inferstore_cli::run(std::env::args_os(), Surroundings::of_this_process()))
}
