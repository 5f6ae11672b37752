//! A program without async: a runtime on this thread, and `block_on` for each call.

#![expect(clippy::print_stdout, reason = "an example prints its results")]

use inferstore::{Client, Inputs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let model = Client::from_env()?.model("haze-removal");

    let outcome =
        runtime.block_on(async { model.run(Inputs::new().file("input_image", "photo.jpg")).await })?;
    for path in runtime.block_on(outcome.save_all("outputs"))? {
        println!("{}", path.display());
    }

    // Event by event.
    let mut events = model.run(Inputs::new().file("input_image", "photo.jpg")).events();
    while let Some(event) = runtime.block_on(events.next()) {
        println!("{event:?}");
    }
    println!("{}", runtime.block_on(events.finish())?.output);
    Ok(())
}
