//! Fetching the files that a task's inputs name by URL, from the public internet alone. Whoever runs
//! tasks uses this: the node inside the service, and nodes outside.

mod guard;

use std::error::Error as StdError;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Url};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;

/// The largest file that is fetched, in bytes: what may be uploaded may be fetched.
pub const LARGEST: u64 = 104_857_600;
/// How long a fetch may take in all.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a host may take to begin its response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(20);
/// Minimum throughput: so many bytes arrive in each window.
const WINDOW: Duration = Duration::from_secs(10);
const MIN_PER_WINDOW: u64 = 64 << 10;
const MOST_REDIRECTS: usize = 5;

/// Fetches files of the public internet. It costs nothing until the first fetch, which reads the
/// certificates of the system.
#[derive(Debug, Clone, Default)]
pub struct Fetcher {
    client: Arc<OnceLock<Client>>,
}

impl Fetcher {
    /// The content behind a URL.
    ///
    /// # Errors
    /// A sentence that says why there is none. It does not repeat the URL, which may carry a signature.
    pub async fn fetch(&self, url: &str) -> Result<Vec<u8>, String> {
        let mut content = Vec::new();
        self.fetch_to(url, &mut content).await?;
        Ok(content)
    }

    /// Writes the content behind a URL to a file or to memory.
    ///
    /// # Errors
    /// As `fetch`.
    pub async fn fetch_to(
        &self,
        url: &str,
        sink: &mut (impl AsyncWrite + Unpin + Send),
    ) -> Result<(), String> {
        let url = Url::parse(url).map_err(|cause| format!("this is no URL: {cause}"))?;
        if let Some(reason) = guard::refusal(&url) {
            return Err(format!("this URL is not fetched: {reason}"));
        }
        copy(self.client()?, url, LARGEST, sink).await
    }

    fn client(&self) -> Result<&Client, String> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = guarded().map_err(|cause| format!("TLS cannot be set up: {cause}"))?;
        Ok(self.client.get_or_init(|| client))
    }
}

/// A client that can reach nothing but the public internet.
fn guarded() -> Result<Client, reqwest::Error> {
    over_ring(Client::builder())
        .user_agent(concat!("inferstore/", env!("CARGO_PKG_VERSION")))
        // A proxy would resolve names by itself, beyond the guard.
        .no_proxy()
        .dns_resolver(Arc::new(guard::PublicResolver))
        .redirect(Policy::custom(|attempt| {
            if attempt.previous().len() > MOST_REDIRECTS {
                return attempt.error("too many redirects");
            }
            match guard::refusal(attempt.url()) {
                Some(reason) => attempt.error(reason),
                None => attempt.follow(),
            }
        }))
        .connect_timeout(Duration::from_secs(10))
        .timeout(PATIENCE)
        .build()
}

/// The content behind a URL that may lead anywhere, if it has at most so many bytes. For addresses that
/// somebody who is trusted has given.
///
/// # Errors
/// A sentence that says why there is none. It does not repeat the URL, which may carry a signature.
pub async fn read(client: &Client, url: Url, most: u64) -> Result<Vec<u8>, String> {
    let mut content = Vec::new();
    copy(client, url, most, &mut content).await?;
    Ok(content)
}

async fn copy(
    client: &Client,
    url: Url,
    most: u64,
    sink: &mut (impl AsyncWrite + Unpin + Send),
) -> Result<(), String> {
    let response = tokio::time::timeout(RESPONSE_TIMEOUT, client.get(url).send()).await;
    let response = response.map_err(|_| "this URL did not answer in time".to_owned())?;
    let mut response = response.map_err(|cause| unreachable_file(&cause))?;
    let status = response.status();
    if !status.is_success() {
        return Err(format!("this URL answered with {status}"));
    }
    let too_large = || format!("the file behind this URL is larger than {most} bytes");
    if response.content_length().is_some_and(|length| length > most) {
        return Err(too_large());
    }
    let mut size = 0;
    let mut window = (Instant::now() + WINDOW, 0);
    loop {
        let (end, in_window) = &mut window;
        let chunk = match tokio::time::timeout_at(*end, response.chunk()).await {
            Ok(chunk) => chunk.map_err(|cause| unreachable_file(&cause))?,
            Err(_) if *in_window < MIN_PER_WINDOW => {
                return Err("the file behind this URL arrives too slowly".to_owned());
            }
            Err(_) => {
                window = (Instant::now() + WINDOW, 0);
                continue;
            }
        };
        let Some(chunk) = chunk else { break };
        let length = chunk.len() as u64;
        *in_window += length;
        size += length;
        if size > most {
            return Err(too_large());
        }
        sink.write_all(&chunk).await.map_err(|cause| format!("the file cannot be stored: {cause}"))?;
    }
    sink.flush().await.map_err(|cause| format!("the file cannot be stored: {cause}"))
}

/// What went wrong, down to its first cause: reqwest's own message says little, and repeats the URL.
fn unreachable_file(cause: &reqwest::Error) -> String {
    if cause.is_timeout() {
        return "the file behind this URL did not arrive in time".to_owned();
    }
    let mut first: &dyn StdError = cause;
    while let Some(deeper) = first.source() {
        first = deeper;
    }
    match std::ptr::addr_eq(first, std::ptr::from_ref(cause)) {
        true => "the file behind this URL could not be fetched".to_owned(),
        false => format!("the file behind this URL could not be fetched: {first}"),
    }
}

/// TLS over ring, named outright: reqwest would otherwise ask for a provider that the whole process has
/// agreed on, and panic when there is none.
pub fn over_ring(builder: ClientBuilder) -> ClientBuilder {
    use rustls::{ClientConfig, RootCertStore};
    use rustls_platform_verifier::BuilderVerifierExt;

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let Ok(config) = config else { return builder };
    let trusting_none = config.clone().with_root_certificates(RootCertStore::empty());
    builder.tls_backend_preconfigured(match config.with_platform_verifier() {
        Ok(config) => config.with_no_client_auth(),
        // A system without certificates (a bare container) trusts no server; `http` still works.
        Err(_) => trusting_none.with_no_client_auth(),
    })
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_listener_on_this_machine_is_never_connected_to() -> Result<(), Box<dyn StdError>> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let fetcher = Fetcher::default();
        // `localhost` is a name, so the resolver decides; the others are addresses.
        for host in ["localhost", "127.0.0.1", "2130706433", "[::ffff:127.0.0.1]"] {
            let refused = fetcher.fetch(&format!("http://{host}:{port}/")).await;
            let message = refused.err().unwrap_or_default();
            assert!(message.contains("public internet"), "{host}: {message}");
        }
        let connected = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
        assert!(connected.is_err(), "something connected to a closed address");
        Ok(())
    }
}
