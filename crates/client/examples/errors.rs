//! Every failure of a run as a message for people and an exit code for programs.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example prints its results")]

use std::process::ExitCode;
use std::time::Duration;

use inferstore::{Client, Error, ErrorKind, File, Inputs, TaskDisposition};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(outcome) => {
            println!("{}", outcome.output);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{}\nhint: {}", error.with_causes(), error.hint());
            if let Some(delay) = error.retry_after() {
                eprintln!("the service asks to wait {} s", delay.as_secs());
            }
            ExitCode::from(exit_code(&error))
        }
    }
}

async fn run() -> inferstore::Result<inferstore::Outcome> {
    let inputs = Inputs::new().file("input_image", File::path("photo.jpg"));
    Client::from_env()?.model("haze-removal").run(inputs).deadline(Duration::from_secs(300)).await
}

fn exit_code(error: &Error) -> u8 {
    match error.kind() {
        _ if error.is_retryable() => 6,
        ErrorKind::Config | ErrorKind::InvalidInput | ErrorKind::TooLarge | ErrorKind::LocalFile => 2,
        ErrorKind::Unauthorized => 3,
        ErrorKind::InsufficientBalance => 4,
        ErrorKind::NotFound => 5,
        ErrorKind::CostLimitExceeded => 7,
        ErrorKind::TaskFailed | ErrorKind::TaskCanceled => 8,
        // A task may be running and be billed: continue with `client.task(id).wait()`.
        ErrorKind::DeadlineReached if error.disposition() == Some(TaskDisposition::StillRunning) => 9,
        ErrorKind::OutcomeUnknown => 9,
        _ => 1,
    }
}
