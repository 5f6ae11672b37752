//! A model kind of the catalog, and a model with types of your own: files by path, outputs as fields.

#![expect(clippy::print_stdout, reason = "an example prints its results")]

use std::path::PathBuf;

use inferstore::types::{ColorHarmonizationInput, HarmonizationTemplate};
use inferstore::{Client, File, Inputs};

/// Output of a model that is not in the catalog.
#[derive(serde::Deserialize)]
struct Sharpened {
    picture: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> inferstore::Result<()> {
    let client = Client::from_env()?;

    // The file type is yours: a path, a URL, a `File`, or an `Input` for any of them.
    let input = ColorHarmonizationInput {
        input_image: PathBuf::from("photo.jpg"),
        template: HarmonizationTemplate::VShape,
        angle: 30,
    };
    let outcome = client.model("color-harmonization").run_typed(input).await?;
    println!("{}", outcome.output.output_image);
    client.download(outcome.output.output_hue).to_dir("outputs", "hue").await?;

    let inputs = Inputs::new().file("image", File::path("photo.jpg")).set("strength", 0.5);
    let outcome = client.model("sharpen").run(inputs).await?.typed::<Sharpened>()?;
    println!("{}", outcome.output.picture);
    Ok(())
}
