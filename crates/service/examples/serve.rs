//! Runs a service on free ports of this machine until the standard input ends, and prints one line of JSON about the
//! service. Its data are deleted at the end.
//!
//! ```sh
//! cargo run -p inferstore-service --example serve
//! ```

use std::error::Error;
use std::io::Write;

use inferstore_service::{Config, Service};
use tokio::io::AsyncReadExt;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let service = Service::start(Config::ephemeral()).await?;
    let ready = serde_json::json!({
        "base_url": service.base_url(),
        "api_key": service.api_key(),
        "data_folder": service.data_folder(),
    });
    writeln!(std::io::stdout(), "{ready}")?;
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    service.shutdown().await;
    Ok(())
}
