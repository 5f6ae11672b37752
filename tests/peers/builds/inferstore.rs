//! Runs a model, as a user of `inferstore` would write it.

use inferstore::{Client, File, Inputs};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let inputs = Inputs::new().file("input_image", File::path("photo.jpg"));
    let outcome = Client::from_env()?.model("haze-removal").run(inputs).await?;
    println!("{:?}", outcome.output);
    Ok(())
}
