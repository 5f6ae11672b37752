//! A proxy, a root certificate, timeouts, a user agent.

#![expect(clippy::print_stdout, reason = "an example prints its results")]

use std::time::Duration;

use inferstore::Client;
use inferstore::reqwest::{Certificate, Proxy};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let proxy = Proxy::all("http://proxy.example:3128")?;
    let root = Certificate::from_pem(&std::fs::read("root.pem")?)?;
    let client = Client::builder(std::env::var("INFERSTORE_BASE_URL")?, std::env::var("INFERSTORE_API_KEY")?)
        .configure_http(move |http| http.proxy(proxy.clone()).tls_certs_merge([root.clone()]))
        .configure_http(|http| http.user_agent("my-program/1.0").connect_timeout(Duration::from_secs(3)))
        .build()?;
    println!("{:?}", client.balance().await?);
    Ok(())
}
