//! Starts an instance and reads its state, as a user of `oxide` would write it.

use oxide::{Client, ClientInstancesExt};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::new_authenticated()?;
    client.instance_start().project("photos").instance("haze-removal").send().await?;
    let instance = client.instance_view().project("photos").instance("haze-removal").send().await?;
    println!("{:?}", instance.run_state);
    Ok(())
}
