//! Client of the node protocol: one method per request.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use inferstore_fetch::{Certificates, over_ring_trusting};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Proxy, RequestBuilder, StatusCode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use url::Url;

use crate::config::{NodeKey, is_this_machine};
use crate::{Config, Error};

/// Timeout of a response, on top of the time that a long poll waits.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of a log, which must not delay the end of a run for long.
const LOG_TIMEOUT: Duration = Duration::from_secs(2);
const FILE_TIMEOUT: Duration = Duration::from_mins(10);

const PREPARING: &str = "preparing to call the service";

/// Network settings of the calls to the service and for its files: trusted certificates, and a proxy.
#[derive(Default)]
pub(crate) struct Network {
    trusted: Certificates,
    proxy: Option<Proxy>,
}

impl Network {
    pub(crate) fn of(config: &Config) -> Result<Self, Error> {
        let trusted = config.cacert.as_deref().map(Certificates::read).transpose();
        let trusted = trusted.map_err(|why| Error::new(PREPARING, why))?.unwrap_or_default();
        let proxy = config.proxy.as_deref().map(Proxy::all).transpose();
        let proxy = proxy.map_err(|_| Error::new(PREPARING, "the proxy of the settings is no URL"))?;
        Ok(Self { trusted, proxy })
    }

    /// Returns a builder of clients for an address. Plain `http` to this machine uses no proxy, which would carry key and
    /// files unencrypted to another one.
    pub(crate) fn client(&self, address: &Url) -> ClientBuilder {
        let client = over_ring_trusting(Client::builder(), &self.trusted);
        match &self.proxy {
            _ if address.scheme() == "http" && is_this_machine(address) => client.no_proxy(),
            Some(proxy) => client.proxy(proxy.clone()),
            None => client,
        }
    }
}

pub(crate) struct Service {
    http: Client,
    root: String,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Registered {
    pub(crate) node: String,
    pub(crate) run_seconds: f64,
    pub(crate) storage_url: Url,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Lease {
    pub(crate) task: String,
    pub(crate) attempt: i64,
    pub(crate) model: String,
    /// Raw JSON as the caller submitted it, so that numbers keep all digits.
    pub(crate) input: BTreeMap<String, Box<RawValue>>,
    pub(crate) input_format: BTreeMap<String, Descriptor>,
    pub(crate) output_format: BTreeMap<String, Descriptor>,
    pub(crate) lease_seconds: f64,
    /// Current address of the service's files. An older service returns it only at registration.
    #[serde(default)]
    pub(crate) storage_url: Option<Url>,
    #[serde(default)]
    pub(crate) traceparent: Option<String>,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
pub(crate) struct Descriptor {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) mime_type: Vec<String>,
}

impl Descriptor {
    pub(crate) fn is_file(&self) -> bool {
        self.kind == "file"
    }
}

#[derive(Debug)]
pub(crate) enum Refusal {
    /// Invalid key (401).
    Key,
    /// Unknown node, or another node holds the lease (404, 409).
    Gone,
    /// Request that the service rejected (any other 4xx), or that is too large for a proxy.
    Refused(String),
    /// No response, one of a proxy, or 5xx: a retry may succeed.
    Later(String),
}

#[derive(Deserialize)]
struct Response<T> {
    data: Option<T>,
}

#[derive(Deserialize)]
struct Failure {
    message: String,
}

impl Service {
    pub(crate) fn new(config: &Config, key: &NodeKey, network: &Network) -> Result<Self, Error> {
        let mut key = HeaderValue::from_str(key.text()).map_err(|cause| Error::new(PREPARING, cause))?;
        key.set_sensitive(true);
        let http = network
            .client(&config.service)
            .user_agent(concat!("inferstore-node/", env!("CARGO_PKG_VERSION")))
            .default_headers(HeaderMap::from_iter([(
                reqwest::header::HeaderName::from_static("x-node-key"),
                key,
            )]))
            // The key goes to the service only, never to the target of a redirect.
            .redirect(Policy::none())
            .connect_timeout(Duration::from_secs(10));
        let http = http.build().map_err(|cause| Error::new(PREPARING, cause))?;
        Ok(Self { http, root: format!("{}/nodes/v1", config.service.as_str().trim_end_matches('/')) })
    }

    pub(crate) async fn register(&self, models: &[String]) -> Result<Registered, Refusal> {
        let registered = self.post("/register", &json!({ "models": models }), CALL_TIMEOUT).await?;
        registered.ok_or_else(|| Refusal::Later("the response has no identifier of the node".to_owned()))
    }

    pub(crate) async fn lease(
        &self,
        node: &str,
        models: &[String],
        wait: Duration,
    ) -> Result<Option<Lease>, Refusal> {
        let body = json!({ "wait_seconds": wait.as_secs_f64(), "models": models });
        self.post(&format!("/{node}/lease"), &body, wait + CALL_TIMEOUT).await
    }

    pub(crate) async fn deregister(&self, node: &str) -> Result<(), Refusal> {
        self.post::<Value>(&format!("/{node}/goodbye"), &json!({}), CALL_TIMEOUT).await.map(drop)
    }

    pub(crate) async fn heartbeat(
        &self,
        node: &str,
        lease: &Lease,
        run: Duration,
        timeout: Duration,
    ) -> Result<(), Refusal> {
        let heartbeat = of_lease(node, lease, &format!("heartbeat?run_seconds={}", run.as_secs_f64()));
        self.post::<Value>(&heartbeat, &json!({}), timeout).await.map(drop)
    }

    pub(crate) async fn put_file(
        &self,
        node: &str,
        lease: &Lease,
        file: &str,
        mime: &str,
        bytes: Bytes,
    ) -> Result<String, Refusal> {
        #[derive(Deserialize)]
        struct Stored {
            url: String,
        }
        let path = of_lease(node, lease, &format!("files/{file}"));
        let mime = HeaderValue::from_str(mime)
            .map_err(|_| Refusal::Refused(format!("{file} has the type {mime:?}, which is no MIME type")))?;
        let request = self.http.put(format!("{}{path}", self.root)).header(CONTENT_TYPE, mime);
        let stored: Option<Stored> = send(request.body(bytes).timeout(FILE_TIMEOUT)).await?;
        let stored =
            stored.ok_or_else(|| Refusal::Later("the response has no URL of the file".to_owned()))?;
        Ok(stored.url)
    }

    pub(crate) async fn put_log(&self, node: &str, lease: &Lease, log: &Value) -> Result<(), Refusal> {
        let request = self.http.put(format!("{}{}", self.root, of_lease(node, lease, "log")));
        let request = request.header(CONTENT_TYPE, "application/json").body(log.to_string());
        send::<Value>(request.timeout(LOG_TIMEOUT)).await.map(drop)
    }

    pub(crate) async fn finish(&self, node: &str, lease: &Lease, ending: &Value) -> Result<(), Refusal> {
        self.post::<Value>(&of_lease(node, lease, "finish"), ending, CALL_TIMEOUT).await.map(drop)
    }

    async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &Value,
        timeout: Duration,
    ) -> Result<Option<T>, Refusal> {
        let request = self.http.post(format!("{}{path}", self.root));
        let request = request.header(CONTENT_TYPE, "application/json").body(body.to_string());
        send(request.timeout(timeout)).await
    }
}

fn of_lease(node: &str, lease: &Lease, rest: &str) -> String {
    format!("/{node}/tasks/{}/{}/{rest}", lease.task, lease.attempt)
}

async fn send<T: DeserializeOwned>(request: RequestBuilder) -> Result<Option<T>, Refusal> {
    let failed = |cause: reqwest::Error| {
        let reason = crate::runners::reason(&cause);
        if cause.is_builder() {
            return Refusal::Refused(format!("the request cannot be sent: {reason}"));
        }
        let hint = match reason.contains("invalid peer certificate") {
            true => "; name the certificate of its authority by --cacert, or as \"cacert\" in node.json",
            false => "",
        };
        Refusal::Later(format!("{reason}{hint}"))
    };
    let response = request.send().await.map_err(failed)?;
    let status = response.status();
    let text = response.text().await.map_err(failed)?;
    let failure = serde_json::from_str::<Failure>(&text).ok();
    // A proxy returns 404, too, while the service restarts, and 401 or 403 if it wants a login of its own.
    let is_of_service = failure.is_some();
    let message = || match failure {
        Some(failure) => failure.message,
        None => format!("{status}, which is not the response of a listener for nodes"),
    };
    match status {
        status if status.is_success() => match serde_json::from_str::<Response<T>>(&text) {
            Ok(response) => Ok(response.data),
            Err(cause) => {
                Err(Refusal::Later(format!("the response of the service cannot be decoded: {cause}")))
            }
        },
        StatusCode::UNAUTHORIZED if is_of_service => Err(Refusal::Key),
        StatusCode::NOT_FOUND | StatusCode::CONFLICT if is_of_service => Err(Refusal::Gone),
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => Err(Refusal::Later(message())),
        // A proxy that takes no large body takes it later no more.
        StatusCode::PAYLOAD_TOO_LARGE => Err(Refusal::Refused(message())),
        status if status.is_client_error() && is_of_service => Err(Refusal::Refused(message())),
        _ => Err(Refusal::Later(message())),
    }
}

#[cfg(test)]
mod tests {
    use inferstore_wire::{Server, response};

    use super::*;

    const CHILD_SERVICE: &str = "INFERSTORE_TEST_SERVICE";

    #[tokio::test]
    async fn a_refusal_counts_when_it_comes_from_the_service_and_no_proxy()
    -> Result<(), Box<dyn std::error::Error>> {
        let of_proxy = "<html>no such page</html>";
        let of_service = r#"{"status":"fail","message":"the lease is over"}"#;
        for (status, body, expected) in [
            ("404 Not Found", of_proxy, "Later"),
            ("404 Not Found", of_service, "Gone"),
            ("401 Unauthorized", of_proxy, "Later"),
            ("401 Unauthorized", of_service, "Key"),
            ("403 Forbidden", of_proxy, "Later"),
            ("422 Unprocessable Content", of_service, "Refused"),
            ("413 Content Too Large", of_proxy, "Refused"),
        ] {
            let url = Server::answering(response(status, "text/html", body)).origin();
            let settings = json!({ "service": url, "models": { "a": { "command": ["true"] } } });
            let config = Config::from_json(&settings.to_string())?;
            let service = Service::new(&config, &NodeKey::new("key"), &Network::default())?;
            let refused = service.deregister("node").await;
            let kind = format!("{:?}", refused.err().ok_or("it is accepted")?);
            assert!(kind.starts_with(expected), "{status}: {kind}");
        }
        Ok(())
    }

    #[tokio::test]
    async fn the_service_and_its_files_are_called_through_the_proxy_of_the_settings()
    -> Result<(), Box<dyn std::error::Error>> {
        let registered = r#"{"data":{"node":"n","run_seconds":1,"storage_url":"http://files.invalid/"}}"#;
        let proxy = Server::answering(response("200 OK", "application/json", registered)).origin();
        let settings = json!({
            "service": "http://service.invalid", "allow_plain_http": true, "proxy": proxy,
            "models": { "a": { "command": ["true"] } }
        });
        let mut config = Config::from_json(&settings.to_string())?;
        let network = Network::of(&config)?;
        let service = Service::new(&config, &NodeKey::new("key"), &network)?;
        let storage = service.register(&[]).await.map_err(|refusal| format!("{refusal:?}"))?.storage_url;
        assert_eq!(network.client(&storage).build()?.get(storage).send().await?.text().await?, registered);
        config.proxy = Some("http://[".to_owned());
        assert!(Network::of(&config).is_err_and(|error| error.to_string().contains("no URL")));
        Ok(())
    }

    #[tokio::test]
    async fn the_key_of_a_node_on_the_machine_of_its_service_goes_through_no_proxy()
    -> Result<(), Box<dyn std::error::Error>> {
        if let Ok(service) = std::env::var(CHILD_SERVICE) {
            let settings = json!({ "service": service, "models": { "a": { "command": ["true"] } } });
            let config = Config::from_json(&settings.to_string())?;
            let service = Service::new(&config, &NodeKey::new("key"), &Network::default())?;
            let _ = service.register(&["a".to_owned()]).await;
            return Ok(());
        }
        let (service, proxy) = (
            tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?,
            tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?,
        );
        let proxy_url = format!("http://{}", proxy.local_addr()?);
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        let mut child = tokio::process::Command::new(std::env::current_exe()?)
            .args(["--exact", &name])
            .env(CHILD_SERVICE, format!("http://{}", service.local_addr()?))
            .env("HTTP_PROXY", &proxy_url)
            .env("http_proxy", &proxy_url)
            .env_remove("NO_PROXY")
            .env_remove("no_proxy")
            .stdout(std::process::Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        tokio::select! {
            accepted = service.accept() => drop(accepted?),
            accepted = proxy.accept() => return Err(format!("the proxy was called: {accepted:?}").into()),
            ended = child.wait() => return Err(format!("nothing was called: {ended:?}").into()),
        }
        assert!(child.wait().await?.success());
        Ok(())
    }
}
