//! Every failure of a run as a message for people and an exit code for programs.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example prints its results")]

use std::process::ExitCode;
use std::time::Duration;

use inferstore::{Client, Error, Inputs, TaskDisposition};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(outcome) => {
            println!("{}", outcome.output);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}\nhint: {}", error.hint());
            if let Some(delay) = error.retry_after() {
                eprintln!("the service asks to wait {} s", delay.as_secs());
            }
            ExitCode::from(exit_code(&error))
        }
    }
}

async fn run() -> inferstore::Result<inferstore::Outcome> {
    let inputs = Inputs::new().file("input_image", "photo.jpg");
    Client::from_env()?.model("haze-removal").run(inputs).deadline(Duration::from_secs(300)).await
}

/// The first line that fits decides.
fn exit_code(error: &Error) -> u8 {
    match error {
        error if error.is_retryable() => 6,
        Error::Config(_) | Error::InvalidArgument(_) | Error::Inputs(_) | Error::File(_) => 2,
        Error::Unauthorized(_) => 3,
        error if error.is_insufficient_balance() => 4,
        error if error.is_not_found() => 5,
        Error::CostLimitExceeded(_) => 7,
        Error::TaskFailed(_) | Error::TaskCanceled(_) => 8,
        // A task may be running, and its end may be billed: continue with `client.task(id).wait()`.
        Error::DeadlineReached(reached) if reached.disposition == TaskDisposition::StillRunning => 9,
        Error::OutcomeUnknown(_) => 9,
        _ => 1,
    }
}
