//! Requests below the client: a generated operation, and any other request.

#![expect(clippy::print_stdout, reason = "an example prints its results")]

use inferstore::Client;
use inferstore::reqwest::Method;
use inferstore::types::ModelListRequest;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::from_env()?;
    // Sent once, with the settings and the middleware of this client.
    let query = ModelListRequest { search: Some("light".to_owned()), ..Default::default() };
    let page = client.raw().list_models(&query).await?.into_inner().data;
    for model in page.records.unwrap_or_default() {
        println!("{} costs {}", model.id, model.price.unwrap_or_default());
    }
    // Retried like every read, and returned as the service wrote it.
    println!("{}", client.request(Method::GET, "/api-key/balance", None).await?);
    Ok(())
}
