//! Process that runs built-in models of a service under test. Takes the limits that the service adds.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut limits = std::env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let (Some(pixels), Some(memory)) = (limits.next(), limits.next()) else { return ExitCode::FAILURE };
    match inferstore_service::serve_models(pixels, memory) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
