//! Fetching of the files that a task's inputs name by URL, from the public internet alone: for the node inside
//! the service, and for nodes outside.

mod guard;

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, StatusCode, Url};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, timeout, timeout_at};

pub use self::guard::is_public;

/// The largest file that is fetched, in bytes: what may be uploaded may be fetched.
pub const MAX_FILE: u64 = 104_857_600;
/// How long a fetch may take in all.
const FETCH_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a server may take to begin its response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(20);
/// Minimum speed: this number of bytes has to arrive within `STALL_TIMEOUT`, or the rest of the file.
const MIN_PROGRESS: usize = 64 * 1024;
const STALL_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_REDIRECTS: usize = 5;
/// The pauses before further attempts.
const BACKOFF: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(1)];
/// How soon a failure must come for another attempt.
const MAX_RETRIED: Duration = Duration::from_secs(15);

/// Why there is no content.
#[derive(Debug, Clone, PartialEq, Eq)]
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

    /// Whether the same fetch may succeed later: the server could not be reached, was too slow, or has a failure.
    pub fn is_temporary(&self) -> bool {
        self.is_temporary
    }

    /// Why the content could not be stored, if that is what failed: the URL is not to blame.
    pub fn sink_failure(&self) -> Option<io::ErrorKind> {
        self.sink_failure
    }
}

/// A sentence that does not repeat the URL, which may carry a signature.
impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for FetchError {}

/// The attempts of one fetch: up to three, while its failures are temporary and come soon. A host that is slow takes no
/// longer for that.
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
    /// Waits before another attempt; false when there is none.
    pub async fn may_go_on(&mut self, failure: &FetchError) -> bool {
        let may = failure.is_temporary() && self.begun.elapsed() < MAX_RETRIED;
        let Some(pause) = self.backoff.next().filter(|_| may) else { return false };
        tokio::time::sleep(*pause).await;
        true
    }
}

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
        let mut attempts = Attempts::default();
        loop {
            let mut content = Vec::new();
            let Err(error) = self.fetch_to(url, &mut content).await else { return Ok(content) };
            if !attempts.may_go_on(&error).await {
                return Err(error.message);
            }
        }
    }

    /// Writes the content behind a URL to a file, or to memory, in one attempt: see [`Attempts`].
    ///
    /// # Errors
    /// As `fetch`.
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

    /// A client that can reach nothing but the public internet.
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

/// A client that follows redirects to URLs that are not refused.
fn client(refusal: fn(&Url) -> Option<String>) -> ClientBuilder {
    over_ring(Client::builder())
        .user_agent(concat!("inferstore/", env!("CARGO_PKG_VERSION")))
        // A proxy would resolve names by itself, beyond the guard.
        .no_proxy()
        // The URL may carry a signature, which is no business of the host that a redirect leads to.
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

/// The content behind a URL that may lead anywhere, if it is not larger than `max_bytes`. For addresses from a
/// trusted source.
///
/// # Errors
/// When there is none, or the file is larger.
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

/// What went wrong, down to its first cause: reqwest's own message says little, and repeats the URL.
fn failure(error: &reqwest::Error) -> FetchError {
    // One message for all of these: others would say which names exist inside a network, and which ports of
    // a host are open.
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
    // A redirect that is refused is refused again.
    FetchError { is_temporary: !error.is_redirect(), ..FetchError::permanent(message) }
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
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::JoinHandle;

    use super::*;

    type Outcome<T = ()> = Result<T, Box<dyn StdError>>;

    /// Responds to one request, and returns its head.
    async fn respond(listener: &TcpListener, response: &str) -> std::io::Result<(String, TcpStream)> {
        let (mut stream, _) = listener.accept().await?;
        let mut head = vec![0; 8_192];
        let length = stream.read(&mut head).await?;
        stream.write_all(response.as_bytes()).await?;
        head.truncate(length);
        Ok((String::from_utf8_lossy(&head).into_owned(), stream))
    }

    async fn listener() -> Outcome<(TcpListener, Url)> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = Url::parse(&format!("http://{}/file?signature=secret", listener.local_addr()?))?;
        Ok((listener, url))
    }

    fn serve(
        listener: TcpListener,
        response: &'static str,
    ) -> JoinHandle<std::io::Result<(String, TcpStream)>> {
        tokio::spawn(async move { respond(&listener, response).await })
    }

    #[tokio::test]
    async fn a_listener_on_this_machine_is_never_connected_to() -> Outcome {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let fetcher = Fetcher::default();
        // `localhost` is a name, so the resolver decides; the others are addresses.
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
    async fn a_message_says_neither_which_names_exist_inside_nor_which_ports_are_closed() -> Outcome {
        let (listener, closed) = listener().await?;
        drop(listener);
        let closed = read(&client(|_| None).build()?, closed, 10).await;
        let inside = Fetcher::default().fetch("http://localhost:1/").await;
        let closed = closed.map_err(|error| error.to_string());
        assert!(closed.is_err() && closed == inside, "{closed:?} {inside:?}");
        Ok(())
    }

    /// A fetcher that may reach this machine, and a URL of a listener there by name: addresses are refused.
    async fn local() -> Outcome<(Fetcher, TcpListener, String)> {
        let (listener, mut url) = listener().await?;
        url.set_host(Some("localhost"))?;
        let fetcher = Fetcher::default();
        let _ = fetcher.client.set(client(|_| None).build()?);
        Ok((fetcher, listener, url.into()))
    }

    const UNAVAILABLE: &str =
        "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

    #[tokio::test]
    async fn a_host_may_fail_for_a_moment() -> Outcome {
        let (fetcher, listener, url) = local().await?;
        let served = tokio::spawn(async move {
            let file = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nfile";
            // The second one ends in the middle.
            for response in [UNAVAILABLE, &file[..file.len() - 2], file] {
                respond(&listener, response).await?;
            }
            std::io::Result::Ok(())
        });
        assert_eq!(fetcher.fetch(&url).await?, b"file");
        served.await??;
        Ok(())
    }

    #[tokio::test]
    async fn a_host_that_goes_on_failing_is_asked_three_times_and_a_refusal_once() -> Outcome {
        let not_found = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        for (response, attempts) in [(UNAVAILABLE, 3), (not_found, 1)] {
            let (fetcher, listener, url) = local().await?;
            let mut served = 0;
            let serve = async {
                while respond(&listener, response).await.is_ok() {
                    served += 1;
                }
            };
            tokio::select! {
                fetched = fetcher.fetch(&url) => assert!(fetched.is_err()),
                () = serve => {}
            }
            assert_eq!(served, attempts, "{response}");
        }
        Ok(())
    }

    #[tokio::test]
    async fn a_redirect_does_not_carry_the_signature_of_a_url_to_another_host() -> Outcome {
        let (first, url) = listener().await?;
        let (second, other) = listener().await?;
        let redirect = format!("HTTP/1.1 302 Found\r\nlocation: {other}\r\ncontent-length: 0\r\n\r\n");
        let redirected = tokio::spawn(async move { respond(&first, &redirect).await });
        let served = serve(second, "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfile");
        let marked = Url::parse(&url.as_str().replace("secret", "first"))?;
        assert_eq!(read(&client(|_| None).build()?, marked, 10).await?, b"file");
        redirected.await??;
        let (head, _) = served.await??;
        assert!(!head.to_ascii_lowercase().contains("referer") && !head.contains("first"), "{head}");
        Ok(())
    }

    #[tokio::test]
    async fn a_part_of_a_file_is_not_taken_for_the_file() -> Outcome {
        let (listener, url) = listener().await?;
        let served = serve(listener, "HTTP/1.1 206 Partial Content\r\ncontent-length: 4\r\n\r\npart");
        let refused = read(&client(|_| None).build()?, url, 10).await;
        assert!(refused.is_err_and(|error| error.to_string().contains("part of the file")));
        served.await??;
        Ok(())
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_stored_is_no_fault_of_its_url() -> Outcome {
        let (listener, url) = listener().await?;
        let served = serve(listener, "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfile");
        let mut room = [0; 2];
        let mut sink = io::Cursor::new(&mut room[..]);
        let failed = copy(&client(|_| None).build()?, url, 10, &mut sink).await;
        assert_eq!(failed.err().and_then(|error| error.sink_failure()), Some(io::ErrorKind::WriteZero));
        served.await??;
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_sends_too_slowly_is_given_up() -> Outcome {
        for response in ["", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\na"] {
            let (listener, url) = listener().await?;
            let served = serve(listener, response);
            let begun = Instant::now();
            let client = client(|_| None).build()?;
            let read = tokio::spawn(async move { read(&client, url, 1_000).await });
            let (_, mut stream) = served.await??;
            let drip = tokio::spawn(async move {
                while !response.is_empty() && stream.write_all(b"a").await.is_ok() {
                    tokio::time::sleep(Duration::from_secs(4)).await;
                }
                // Stays open.
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
