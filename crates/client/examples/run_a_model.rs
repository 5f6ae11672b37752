//! Runs a model on a picture and prints what came of it:
//! `cargo run -p inferstore --example run_a_model -- photo.jpg`, with `INFERSTORE_BASE_URL` and
//! `INFERSTORE_API_KEY` in the environment.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example shows what it got")]

use std::process::ExitCode;
use std::time::Duration;

use futures_util::TryStreamExt;
use inferstore::{Client, Error, Inputs, RunEvent, RunOptions, WaitOptions};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let picture = std::env::args().nth(1).unwrap_or_else(|| "photo.jpg".to_owned());
    match run(&picture).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}\nhint: {}", error.headline(), error.hint());
            if let Some(task) = error.task_id() {
                eprintln!("the task is {task}");
            }
            ExitCode::FAILURE
        }
    }
}

async fn run(picture: &str) -> Result<(), Error> {
    let client = Client::from_env()?;
    let inputs = Inputs::new().file("input_image", picture).set("template", "v_shape").set("angle", 30);
    let wait = WaitOptions { deadline: Some(Duration::from_secs(300)), ..WaitOptions::default() };
    let mut events =
        client.model("color-harmonization").follow(inputs, RunOptions { wait, ..RunOptions::default() })?;
    while let Some(event) = events.try_next().await? {
        match event {
            RunEvent::Created(task) => println!("created {task}"),
            RunEvent::Status(status) => println!("{status}"),
            RunEvent::Done(outcome) => {
                println!("cost {:?}", outcome.cost);
                outcome.urls().for_each(|(name, url)| println!("{name}: {url}"));
            }
            _ => {}
        }
    }
    Ok(())
}
