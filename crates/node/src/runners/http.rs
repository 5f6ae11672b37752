//! HTTP client of model servers: bounded responses, files as Base64.

use std::error::Error as StdError;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::CONTENT_TYPE;
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode};
use serde_json::Value;
use url::Url;

use crate::Error;
use crate::outputs::{Failed, Kind};

/// Largest response in bytes: the largest file as Base64, plus a margin.
const MAX_RESPONSE: usize = 160 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_ERROR_BODY: usize = 2_000;

/// Model server. The operator configures its address, so it may be on any network.
pub(super) struct Server {
    http: Client,
    root: String,
}

impl Server {
    pub(super) fn new(address: &Url) -> Result<Self, Error> {
        let http = inferstore_fetch::over_ring(Client::builder())
            // Model servers are on the same network: no proxy.
            .no_proxy()
            .redirect(Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .build()
            .map_err(|cause| Error::new("preparing to call a model server", cause))?;
        Ok(Self { http, root: address.as_str().trim_end_matches('/').to_owned() })
    }

    pub(super) async fn get(&self, path: &str) -> Result<(StatusCode, Vec<u8>), String> {
        let request = self.http.get(format!("{}{path}", self.root)).timeout(CONNECT_TIMEOUT);
        let response = request.send().await.map_err(|cause| reason(&cause))?;
        let status = response.status();
        Ok((status, body(response).await?))
    }

    pub(super) async fn post(
        &self,
        path: &str,
        body_of_request: &Value,
        traceparent: Option<&str>,
    ) -> Result<Value, Failed> {
        let mut request = self.http.post(format!("{}{path}", self.root));
        if let Some(traceparent) = traceparent {
            request = request.header("traceparent", traceparent);
        }
        let request = request.header(CONTENT_TYPE, "application/json").body(body_of_request.to_string());
        let unreachable = |why: String| Failed::model(format!("the model server did not respond: {why}"));
        let response = request.send().await.map_err(|cause| {
            let failed = unreachable(reason(&cause));
            // A server that is down has not seen the task.
            if cause.is_connect() { Failed { kind: Kind::Node, ..failed } } else { failed }
        })?;
        let status = response.status();
        let body = body(response).await.map_err(unreachable)?;
        if !status.is_success() {
            let message: String = String::from_utf8_lossy(&body).chars().take(MAX_ERROR_BODY).collect();
            return Err(Failed::model(format!("the model server responded with {status}: {message}")));
        }
        serde_json::from_slice(&body)
            .map_err(|cause| Failed::model(format!("the response of the model server is not JSON: {cause}")))
    }
}

async fn body(mut response: Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|cause| reason(&cause))? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_RESPONSE {
            return Err(format!("its response has more than {MAX_RESPONSE} bytes"));
        }
    }
    Ok(body)
}

/// Returns the root cause of an error: reqwest's own message is vague and repeats the address.
pub(crate) fn reason(cause: &reqwest::Error) -> String {
    if cause.is_timeout() {
        return "it took too long".to_owned();
    }
    let mut deepest: &dyn StdError = cause;
    while let Some(deeper) = deepest.source() {
        deepest = deeper;
    }
    deepest.to_string()
}

pub(super) fn to_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

pub(super) fn from_base64(name: &str, text: &str) -> Result<Vec<u8>, Failed> {
    STANDARD
        .decode(text.trim())
        .map_err(|cause| Failed::model(format!("the output {name} is not Base64: {cause}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_that_is_down_fails_no_task() -> Result<(), Box<dyn std::error::Error>> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        let address = Url::parse(&format!("http://{}", listener.local_addr()?))?;
        drop(listener);
        let failed = Server::new(&address)?.post("/predictions", &Value::Null, None).await.err();
        assert_eq!(failed.map(|failed| failed.kind), Some(Kind::Node));
        Ok(())
    }
}
