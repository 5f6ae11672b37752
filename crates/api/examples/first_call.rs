//! Reads the balance and creates a task of a typed input: `cargo run -p inferstore-api --example first_call`,
//! with `INFERSTORE_BASE_URL`, `INFERSTORE_API_KEY` and `FILE_URL` (the URL of a picture) in the environment.

#![expect(clippy::print_stdout, reason = "an example shows what it got")]

use inferstore_api::{ApiKey, Client, types};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let base_url = std::env::var("INFERSTORE_BASE_URL")?;
    let key = std::env::var("INFERSTORE_API_KEY")?;
    let input_image = std::env::var("FILE_URL")?;

    let client = Client::new(&base_url, ApiKey::new(key))?; // the base URL ends in /api/v1
    let balance = client.get_balance().await?.into_inner().data;
    println!("balance: {:?}", balance.balance); // an exact decimal, never a float

    let template = types::HarmonizationTemplate::VShape;
    let input = types::ColorHarmonizationInput { input_image, template, angle: 30 };
    let input = types::TaskInput::from_typed(&input)?;
    // Without an `Idempotency-Key`: a second call would create and bill a second task.
    let created = client.create_task(&"color-harmonization".parse()?, None, &input).await?.into_inner();
    let task = client.get_task(&created.data.data).await?.into_inner().data;
    println!("{:?}", task.status);
    Ok(())
}
