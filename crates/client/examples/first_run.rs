//! Example of the README: a picture in, pictures out. `cargo run -p inferstore --example first_run`, with
//! `INFERSTORE_BASE_URL` and `INFERSTORE_API_KEY` as `inferstore serve` prints them.

#![expect(clippy::print_stdout, reason = "an example prints its results")]

use inferstore::{Client, File, Inputs};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), inferstore::Error> {
    let client = Client::from_env()?; // INFERSTORE_BASE_URL and INFERSTORE_API_KEY
    let inputs = Inputs::new()
        .file("input_image", File::path("photo.jpg"))
        .set("template", "v_shape")
        .set("angle", 30);
    let outcome = client.model("color-harmonization").run(inputs).await?;
    println!("it cost {}", outcome.cost.clone().unwrap_or_default()); // an exact decimal, never a float
    for path in outcome.save_all("outputs").await? {
        println!("{}", path.display()); // outputs/output_hue.png, then outputs/output_image.jpg
    }
    Ok(())
}
