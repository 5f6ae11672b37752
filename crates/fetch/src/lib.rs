//! Fetches files that a task's inputs name by URL, from the public internet only, for the inner and for outside nodes.

mod guard;

use std::error::Error as StdError;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, StatusCode, Url};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, timeout, timeout_at};

pub use self::guard::is_public;

/// Largest file that is fetched, in bytes: the limit of an upload.
pub const MAX_FILE: u64 = 104_857_600;
const FETCH_TIMEOUT: Duration = Duration::from_secs(60);
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(20);
/// Minimum speed: this number of bytes has to arrive within `STALL_TIMEOUT`, or the rest of the file.
const MIN_PROGRESS: usize = 64 * 1024;
const STALL_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_REDIRECTS: usize = 5;
const BACKOFF: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(1)];
/// Age of a fetch from which a failure is not retried.
const MAX_RETRIED: Duration = Duration::from_secs(15);

/// Reason why a fetch failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FetchError {
    message: String,
    is_temporary: bool,
    sink_failure: Option<io::ErrorKind>,
}

impl FetchError {
    fn permanent(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_temporary: false, sink_failure: None }
    }

    fn temporary(message: impl Into<String>) -> Self {
        Self { is_temporary: true, ..Self::permanent(message) }
    }

    /// Returns true if a retry may succeed: the server was unreachable, slow, or returned 5xx, 408 or 429.
    pub fn is_temporary(&self) -> bool {
        self.is_temporary
    }

    /// Returns the error of the sink if the content could not be stored; the URL is not the cause then.
    pub fn sink_failure(&self) -> Option<io::ErrorKind> {
        self.sink_failure
    }
}

/// Retry policy of one fetch: up to three attempts while failures are temporary, within `MAX_RETRIED`.
#[derive(Debug)]
pub struct Attempts {
    begun: Instant,
    backoff: std::slice::Iter<'static, Duration>,
}

impl Default for Attempts {
    fn default() -> Self {
        Self { begun: Instant::now(), backoff: BACKOFF.iter() }
    }
}

impl Attempts {
    /// Waits for the backoff and returns true if another attempt is due.
    pub async fn may_go_on(&mut self, failure: &FetchError) -> bool {
        let may = failure.is_temporary() && self.begun.elapsed() < MAX_RETRIED;
        let Some(pause) = self.backoff.next().filter(|_| may) else { return false };
        tokio::time::sleep(*pause).await;
        true
    }
}

/// Fetches files of the public internet. Costs nothing until the first fetch reads the system's certificates.
#[derive(Debug, Clone, Default)]
pub struct Fetcher {
    client: Arc<OnceLock<Client>>,
}

impl Fetcher {
    /// Returns the content behind a URL. An error is a sentence without the URL, which may carry a signature.
    pub async fn fetch(&self, url: &str) -> Result<Vec<u8>, String> {
        let mut attempts = Attempts::default();
        loop {
            let mut content = Vec::new();
            let Err(error) = self.fetch_to(url, &mut content).await else { return Ok(content) };
            if !attempts.may_go_on(&error).await {
                return Err(error.message);
            }
        }
    }

    /// Writes the content behind a URL to a sink, in one attempt; [`Attempts`] decides about retries.
    pub async fn fetch_to(
        &self,
        url: &str,
        sink: &mut (impl AsyncWrite + Unpin + Send),
    ) -> Result<(), FetchError> {
        let no_url = |cause| FetchError::permanent(format!("this is no URL: {cause}"));
        let url = Url::parse(url).map_err(no_url)?;
        if let Some(reason) = guard::refusal(&url) {
            return Err(FetchError::permanent(format!("this URL is not fetched: {reason}")));
        }
        copy(self.client()?, url, MAX_FILE, sink).await
    }

    fn client(&self) -> Result<&Client, FetchError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let no_tls = |cause| FetchError::permanent(format!("TLS cannot be set up: {cause}"));
        let client = client(guard::refusal).dns_resolver(Arc::new(guard::PublicResolver)).build();
        let client = client.map_err(no_tls)?;
        Ok(self.client.get_or_init(|| client))
    }
}

fn client(refusal: fn(&Url) -> Option<String>) -> ClientBuilder {
    over_ring(Client::builder())
        .user_agent(concat!("inferstore/", env!("CARGO_PKG_VERSION")))
        // A proxy would resolve names itself, which bypasses the SSRF protection.
        .no_proxy()
        // The URL may carry a signature, which the target of a redirect must not see.
        .referer(false)
        .redirect(Policy::custom(move |attempt| {
            if attempt.previous().len() > MAX_REDIRECTS {
                return attempt.error("too many redirects");
            }
            match refusal(attempt.url()) {
                Some(reason) => attempt.error(reason),
                None => attempt.follow(),
            }
        }))
        .connect_timeout(Duration::from_secs(10))
        .timeout(FETCH_TIMEOUT)
}

/// Returns the content behind a URL of a trusted source, without SSRF protection; fails above `max_bytes`.
pub async fn read(client: &Client, url: Url, max_bytes: u64) -> Result<Vec<u8>, FetchError> {
    let mut content = Vec::new();
    copy(client, url, max_bytes, &mut content).await?;
    Ok(content)
}

async fn copy(
    client: &Client,
    url: Url,
    max_bytes: u64,
    sink: &mut (impl AsyncWrite + Unpin + Send),
) -> Result<(), FetchError> {
    let response = timeout(RESPONSE_TIMEOUT, client.get(url).send()).await.map_err(|_| too_slow())?;
    let mut response = response.map_err(|cause| failure(&cause))?;
    let status = response.status();
    if status == StatusCode::PARTIAL_CONTENT {
        let message = "this URL responded with a part of the file, which was not asked for";
        return Err(FetchError::permanent(message));
    }
    if !status.is_success() {
        let is_temporary = status.is_server_error()
            || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS);
        let error = FetchError::permanent(format!("this URL responded with {status}"));
        return Err(FetchError { is_temporary, ..error });
    }
    let too_large =
        || FetchError::permanent(format!("the file behind this URL is larger than {max_bytes} bytes"));
    if response.content_length().is_some_and(|length| length > max_bytes) {
        return Err(too_large());
    }
    let not_stored = |cause: io::Error| FetchError {
        sink_failure: Some(cause.kind()),
        ..FetchError::permanent(format!("the file behind this URL cannot be stored: {cause}"))
    };
    let mut size = 0;
    let mut progress = 0;
    let mut deadline = Instant::now() + STALL_TIMEOUT;
    while let Some(chunk) = timeout_at(deadline, response.chunk())
        .await
        .map_err(|_| too_slow())?
        .map_err(|cause| failure(&cause))?
    {
        size += chunk.len() as u64;
        if size > max_bytes {
            return Err(too_large());
        }
        sink.write_all(&chunk).await.map_err(not_stored)?;
        progress += chunk.len();
        if progress >= MIN_PROGRESS {
            progress = 0;
            deadline = Instant::now() + STALL_TIMEOUT;
        }
    }
    sink.flush().await.map_err(not_stored)
}

fn too_slow() -> FetchError {
    FetchError::temporary("the file behind this URL did not arrive in time")
}

/// Returns the root cause of an error: reqwest's own message is vague and repeats the URL.
fn failure(error: &reqwest::Error) -> FetchError {
    // One message for all of these: distinct ones would reveal which names and ports exist inside a network.
    if error.is_connect() {
        return FetchError::temporary("no host of the public internet could be reached at this URL");
    }
    if error.is_timeout() {
        return too_slow();
    }
    let mut first: &dyn StdError = error;
    while let Some(deeper) = first.source() {
        first = deeper;
    }
    let message = match std::ptr::addr_eq(first, std::ptr::from_ref(error)) {
        true => "the file behind this URL could not be fetched".to_owned(),
        false => format!("the file behind this URL could not be fetched: {first}"),
    };
    // A refused redirect is refused at every attempt.
    FetchError { is_temporary: !error.is_redirect(), ..FetchError::permanent(message) }
}

/// Certificates that are trusted beside those of the system.
#[derive(Debug, Clone, Default)]
pub struct Certificates(Vec<CertificateDer<'static>>);

impl Certificates {
    /// Reads the certificates of a PEM file. An error is a sentence that names the file.
    pub fn read(file: &Path) -> Result<Self, String> {
        let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let why = match read {
            Ok(certificates) if !certificates.is_empty() => return Ok(Self(certificates)),
            Ok(_) => "it has no certificate".to_owned(),
            Err(cause) => cause.to_string(),
        };
        Err(format!("the certificates in {} cannot be used: {why}", file.display()))
    }
}

/// Sets TLS over ring explicitly: reqwest would otherwise panic if the process has no default provider.
pub fn over_ring(builder: ClientBuilder) -> ClientBuilder {
    over_ring_trusting(builder, &Certificates::default())
}

/// As [`over_ring`], trusting these certificates too. reqwest's own `add_root_certificate` has no effect on it.
pub fn over_ring_trusting(builder: ClientBuilder, further: &Certificates) -> ClientBuilder {
    match tls_over_ring(further) {
        Ok(config) => builder.tls_backend_preconfigured(config),
        Err(_) => builder,
    }
}

/// Returns settings of TLS over ring that trust the certificates of the system and these. On a system without
/// certificates, such as a bare container, they trust no other server; connections without TLS still work.
pub fn tls_over_ring(further: &Certificates) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let config = config.with_safe_default_protocol_versions()?;
    let config = match Verifier::new_with_extra_roots(further.0.iter().cloned(), provider) {
        Ok(verifier) => config.dangerous().with_custom_certificate_verifier(Arc::new(verifier)),
        Err(_) => config.with_root_certificates(RootCertStore::empty()),
    };
    Ok(config.with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use inferstore_wire::{Reaction, Server};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    type TestResult<T = ()> = Result<T, Box<dyn StdError>>;

    const FILE: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 4\r\n\r\nfile";
    const UNAVAILABLE: &str =
        "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    const NOT_FOUND: &str = "HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

    fn url(server: &Server) -> TestResult<Url> {
        Ok(Url::parse(&format!("{}/file?signature=secret", server.origin()))?)
    }

    #[tokio::test]
    async fn a_server_on_this_machine_is_never_connected_to() -> TestResult {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let fetcher = Fetcher::default();
        // The resolver checks `localhost`, which is a name; the URL check refuses the addresses.
        for host in ["localhost", "127.0.0.1", "2130706433", "[::ffff:127.0.0.1]"] {
            let refused = fetcher.fetch(&format!("http://{host}:{port}/")).await;
            let message = refused.err().unwrap_or_default();
            assert!(message.contains("public internet"), "{host}: {message}");
        }
        let connected = timeout(Duration::from_millis(50), listener.accept()).await;
        assert!(connected.is_err(), "something connected to a closed address");
        Ok(())
    }

    #[tokio::test]
    async fn a_refused_fetch_reveals_neither_internal_names_nor_closed_ports() -> TestResult {
        let closed = TcpListener::bind(("127.0.0.1", 0)).await?.local_addr()?;
        let closed = read(&client(|_| None).build()?, Url::parse(&format!("http://{closed}/"))?, 10).await;
        let inside = Fetcher::default().fetch("http://localhost:1/").await;
        let closed = closed.map_err(|error| error.to_string());
        assert!(closed.is_err() && closed == inside, "{closed:?} {inside:?}");
        Ok(())
    }

    /// Fetches from a server on this machine, by name, because addresses are refused.
    async fn fetched(server: &Server) -> TestResult<Result<Vec<u8>, String>> {
        let mut url = url(server)?;
        url.set_host(Some("localhost"))?;
        let fetcher = Fetcher::default();
        let _ = fetcher.client.set(client(|_| None).build()?);
        Ok(fetcher.fetch(url.as_str()).await)
    }

    #[tokio::test]
    async fn a_host_may_fail_for_a_moment() -> TestResult {
        // The second response ends before its body does.
        let mut responses = [UNAVAILABLE, &FILE[..FILE.len() - 2], FILE].into_iter();
        let server = Server::start(move |_| Reaction::Raw(responses.next().unwrap_or(UNAVAILABLE).into()));
        assert_eq!(fetched(&server).await??, b"file");
        Ok(())
    }

    #[tokio::test]
    async fn a_host_that_goes_on_failing_is_asked_three_times_and_a_refusal_once() -> TestResult {
        for (response, attempts) in [(UNAVAILABLE, 3), (NOT_FOUND, 1)] {
            let server = Server::answering(response);
            assert!(fetched(&server).await?.is_err());
            assert_eq!(server.requests().len(), attempts, "{response}");
        }
        Ok(())
    }

    #[tokio::test]
    async fn a_redirect_does_not_carry_the_signature_of_a_url_to_another_host() -> TestResult {
        let second = Server::answering(FILE);
        let redirect =
            format!("HTTP/1.1 302 Found\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", url(&second)?);
        let first = Server::answering(redirect);
        let marked = Url::parse(&url(&first)?.as_str().replace("secret", "first"))?;
        assert_eq!(read(&client(|_| None).build()?, marked, 10).await?, b"file");
        let head = second.texts().concat();
        assert!(!head.to_ascii_lowercase().contains("referer") && !head.contains("first"), "{head}");
        Ok(())
    }

    #[tokio::test]
    async fn a_part_of_a_file_is_not_taken_for_the_file() -> TestResult {
        let server = Server::answering("HTTP/1.1 206 Partial Content\r\ncontent-length: 4\r\n\r\npart");
        let refused = read(&client(|_| None).build()?, url(&server)?, 10).await;
        assert!(refused.is_err_and(|error| error.to_string().contains("part of the file")));
        Ok(())
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_stored_is_no_fault_of_its_url() -> TestResult {
        let mut room = [0; 2];
        let mut sink = io::Cursor::new(&mut room[..]);
        let failed = copy(&client(|_| None).build()?, url(&Server::answering(FILE))?, 10, &mut sink).await;
        assert_eq!(failed.err().and_then(|error| error.sink_failure()), Some(io::ErrorKind::WriteZero));
        Ok(())
    }

    /// The socket is one of this runtime: its virtual clock stands still while bytes are on their way.
    #[tokio::test(start_paused = true)]
    async fn a_server_that_sends_too_slowly_is_given_up() -> TestResult {
        for response in ["", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\na"] {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
            let url = Url::parse(&format!("http://{}/", listener.local_addr()?))?;
            let begun = Instant::now();
            let client = client(|_| None).build()?;
            let read = tokio::spawn(async move { read(&client, url, 1_000).await });
            let (mut stream, _) = listener.accept().await?;
            let length = stream.read(&mut [0; 8_192]).await?;
            assert_ne!(length, 0, "the request has arrived");
            stream.write_all(response.as_bytes()).await?;
            let drip = tokio::spawn(async move {
                while !response.is_empty() && stream.write_all(b"a").await.is_ok() {
                    tokio::time::sleep(Duration::from_secs(4)).await;
                }
                // The connection stays open.
                tokio::time::sleep(Duration::from_secs(600)).await;
            });
            let message = read.await?.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(message.contains("did not arrive in time"), "{message}");
            assert!(begun.elapsed() < FETCH_TIMEOUT);
            drip.abort();
        }
        Ok(())
    }
}
