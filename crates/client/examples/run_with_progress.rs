//! One model, one local file, progress in the terminal, the outputs in a folder.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example prints its results")]

use std::time::Duration;

use inferstore::{Client, Inputs, RunEvent, UploadEvent};

#[tokio::main(flavor = "current_thread")]
async fn main() -> inferstore::Result<()> {
    let picture = std::env::args().nth(1).unwrap_or_else(|| "photo.jpg".to_owned());
    let run = Client::from_env()?.model("haze-removal").run(Inputs::new().file("input_image", picture));
    let mut events = run.deadline(Duration::from_secs(120)).events();
    while let Some(event) = events.next().await {
        match event {
            RunEvent::Upload { field, event: UploadEvent::Progress { sent, size, .. }, .. } => {
                eprintln!("{field}: {} %", sent * 100 / size);
            }
            RunEvent::Created(task) => eprintln!("task {task}"),
            RunEvent::Status(status) => eprintln!("{status}"),

            RunEvent::ReadFailed(text) => eprintln!("{text}"),
            _ => {}
        }
    }
    let outcome = events.finish().await?;
    for path in outcome.save_all("outputs").await? {
        println!("{}", path.display());
    }
    Ok(())
}
