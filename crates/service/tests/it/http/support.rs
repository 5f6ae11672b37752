//! Bench: a service, and raw HTTP requests that no client library would send.

use std::time::Duration;

use inferstore_service::{Config, Service};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) use crate::caller::{TestResult, client};

const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) fn config() -> Config {
    let mut config = Config::ephemeral();
    config.workers = 0;
    config.operations = Some(([127, 0, 0, 1], 0).into());
    config
}

pub(crate) fn host(url: &str) -> &str {
    let rest = url.trim_start_matches("http://");
    rest.split_once('/').map_or(rest, |(host, _)| host)
}

pub(crate) fn api(service: &Service) -> &str {
    host(service.base_url())
}

/// Sends a request on a new connection; returns everything received until the connection is closed.
pub(crate) async fn exchange(host: &str, request: &[u8]) -> TestResult<String> {
    let mut stream = TcpStream::connect(host).await?;
    stream.write_all(request).await?;
    let mut response = Vec::new();
    tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut response)).await??;
    Ok(String::from_utf8_lossy(&response).into_owned())
}

pub(crate) async fn ask(stream: &mut TcpStream, request: &str) -> TestResult<String> {
    stream.write_all(request.as_bytes()).await?;
    let mut response = Vec::new();
    let whole = async {
        loop {
            if stream.read_buf(&mut response).await? == 0 {
                return Err("the connection was closed".into());
            }
            let text = String::from_utf8_lossy(&response);
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap_or(0)) {
                return Ok(text.into_owned());
            }
        }
    };
    tokio::time::timeout(TIMEOUT, whole).await?
}

pub(crate) async fn metrics(service: &Service) -> TestResult<String> {
    let url = format!("{}/metrics", service.operations_url().ok_or("no operations listener")?);
    Ok(client()?.get(url).send().await?.error_for_status()?.text().await?)
}
