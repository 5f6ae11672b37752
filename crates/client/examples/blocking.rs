//! A program without async, with the feature `blocking`.

#![expect(clippy::print_stdout, reason = "an example prints its results")]

use inferstore::blocking::{Blocking, BlockingIter};
use inferstore::{Client, Error, File, Inputs, Step};

fn main() -> Result<(), Error> {
    let model = Client::from_env()?.model("haze-removal");
    let inputs = Inputs::new().file("input_image", File::path("photo.jpg"));

    let outcome = model.run(inputs.clone()).blocking()?;
    for path in outcome.save_all("outputs").blocking()? {
        println!("{}", path.display());
    }

    // Event by event.
    for step in model.run(inputs).events().blocking_iter() {
        match step {
            Step::Event(event) => println!("{event:?}"),
            Step::End(outcome) => println!("{}", outcome?.output),
        }
    }
    Ok(())
}
