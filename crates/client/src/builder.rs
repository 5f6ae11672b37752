//! Building a client: settings, and the check of the base URL.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use inferstore_api::{
    ApiKey, http_client_builder, http_client_builder_for, https_support, is_plain_loopback,
};
use reqwest::Url;
use reqwest::header::HeaderValue;
use reqwest::redirect::Policy;
use tokio::sync::Semaphore;

use crate::client::Client;
use crate::memory::Memory;
use crate::transport::error::{Error, Result};
use crate::transport::redact::{Redactor, cut, printable};
use crate::transport::retry::{Retries, Retry};
use crate::transport::{Core, HttpStack, Middleware, Timeouts};

/// reqwest counts a read timeout from the start of the request, which would limit the length of an
/// upload. Transfers have an idle timeout of their own.
const NO_READ_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Changes the HTTP clients before they are built.
type ConfigureHttp = Arc<dyn Fn(reqwest::ClientBuilder) -> reqwest::ClientBuilder + Send + Sync>;

/// Builds a [`Client`].
///
/// ```
/// use std::time::Duration;
/// use inferstore::Client;
///
/// let client = Client::builder("https://host.example/api/v1", "key")
///     .read_timeout(Duration::from_secs(20))
///     .build()?;
/// # Ok::<(), inferstore::Error>(())
/// ```
#[derive(Clone)]
#[must_use = "a builder does nothing until `build`"]
pub struct ClientBuilder {
    base_url: String,
    key: ApiKey,
    timeouts: Timeouts,
    retry: Retry,
    max_concurrent_uploads: usize,
    create_settle_time: Duration,
    max_concurrent_requests: usize,
    max_response_size: u64,
    allow_insecure_http: bool,
    configure_http: Vec<ConfigureHttp>,
    middleware: Vec<Arc<dyn Middleware>>,
    /// Responds in place of the network.
    network: Option<Arc<dyn Middleware>>,
}

impl ClientBuilder {
    pub(crate) fn new(base_url: String, key: ApiKey) -> Self {
        Self {
            base_url,
            key,
            timeouts: Timeouts { read: Duration::from_secs(60), transfer: Duration::from_secs(30) },
            retry: Retry::default(),
            max_concurrent_uploads: 4,
            create_settle_time: Duration::from_secs(60),
            max_concurrent_requests: Semaphore::MAX_PERMITS,
            max_response_size: inferstore_api::MAX_RESPONSE_BODY,
            allow_insecure_http: false,
            configure_http: Vec::new(),
            middleware: Vec::new(),
            network: None,
        }
    }

    /// Limits the gap between two reads of a response of the API. A whole response may take ten times as long.
    /// Default: 60 s.
    pub fn read_timeout(mut self, timeout: Duration) -> Self {
        self.timeouts.read = timeout;
        self
    }

    /// Limits the time in which an upload or a download makes no progress; its whole length has no
    /// limit. Default: 30 s.
    pub fn transfer_timeout(mut self, timeout: Duration) -> Self {
        self.timeouts.transfer = timeout;
        self
    }

    /// How failed requests are retried. Default: [`Retry::default`].
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// How many files of one run are uploaded at the same time. Default: 4.
    pub fn max_concurrent_uploads(mut self, count: usize) -> Self {
        self.max_concurrent_uploads = count;
        self
    }

    /// How long a create that was sent may still appear in the task history, because a gateway or the
    /// service holds it. [`Client::adopt_or_start`] creates nothing for a run that an earlier process may have
    /// started before this time has passed since it was read back. Default: 60 s.
    pub fn create_settle_time(mut self, time: Duration) -> Self {
        self.create_settle_time = time;
        self
    }

    /// How many requests to the API are sent at the same time; further ones wait. Default: no limit.
    pub fn max_concurrent_requests(mut self, count: impl Into<Option<usize>>) -> Self {
        self.max_concurrent_requests = count.into().unwrap_or(Semaphore::MAX_PERMITS);
        self
    }

    /// The largest response of the API in bytes. Default: 16 MiB.
    pub fn max_response_size(mut self, size: u64) -> Self {
        self.max_response_size = size;
        self
    }

    /// Sends the key over plain `http` to other machines, where everyone in between can read it.
    /// Default: `false`.
    pub fn allow_insecure_http(mut self, allow: bool) -> Self {
        self.allow_insecure_http = allow;
        self
    }

    /// Changes the HTTP clients, for the API and for object storage. Default: the `User-Agent` is
    /// `inferstore-rust/` and the version, a connection is made within 10 s, and the proxies are those of the
    /// environment, with none for plain `http` to this machine. Redirects, retries and the
    /// [`read_timeout`](Self::read_timeout) are those of this crate, whatever is set here.
    ///
    /// ```
    /// # let builder = inferstore::Client::builder("https://host.example/api/v1", "key");
    /// let builder = builder.configure_http(|http| http.user_agent("my-program/1.0"));
    /// ```
    ///
    /// The [cookbook](crate::cookbook::http_client) sets a proxy and a root certificate.
    pub fn configure_http(
        mut self,
        configure: impl Fn(reqwest::ClientBuilder) -> reqwest::ClientBuilder + Send + Sync + 'static,
    ) -> Self {
        self.configure_http.push(Arc::new(configure));
        self
    }

    /// Adds [middleware](Middleware) around every request. The first one added is the outermost.
    pub fn middleware(mut self, middleware: impl Middleware) -> Self {
        self.middleware.push(Arc::new(middleware));
        self
    }

    /// Responds to all requests in place of the network, below all middleware.
    pub(crate) fn network(self, network: impl Middleware) -> Self {
        Self { network: Some(Arc::new(network)), ..self }
    }

    /// Builds the client. Nothing is sent.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] when the base URL is not one such as `https://host/api/v1`, would send the key in plain
    /// text to another machine, or needs TLS that this build does not have; and when the key is empty or
    /// cannot be sent in a header.
    pub fn build(self) -> Result<Client> {
        let base_url = check_base_url(&self.base_url, self.allow_insecure_http)?;
        if self.key.expose().is_empty() {
            return Err(Error::Config("the API key is empty".to_owned()));
        }
        if HeaderValue::from_str(self.key.expose()).is_err() {
            return Err(Error::Config("the API key has characters that a header cannot carry".to_owned()));
        }
        if base_url.starts_with("https:") {
            https_support().map_err(|error| Error::Config(format!("{base_url} needs https: {error}")))?;
        }
        let http = self.http(http_client_builder_for(&base_url), self.timeouts.read)?;
        let storage = self.http(http_client_builder(), NO_READ_TIMEOUT)?;
        let direct = self.http(http_client_builder().no_proxy(), NO_READ_TIMEOUT)?;
        let redactor = Redactor::new(self.key.expose());
        let middleware: Arc<[Arc<dyn Middleware>]> =
            self.middleware.into_iter().chain(self.network).collect();
        let mut api = inferstore_api::Client::new_with_client(&base_url, http.clone(), self.key)
            .with_max_response_body(self.max_response_size);
        if !middleware.is_empty() {
            let middleware = Arc::clone(&middleware);
            api = api.with_transport(Arc::new(HttpStack { direct: http.clone(), http, middleware }));
        }
        let core = Core {
            api,
            storage: HttpStack { http: storage, direct, middleware },
            base_url,
            redactor,
            retries: Retries::new(self.retry.clone()),
            wait_retries: Retries::new(self.retry),
            timeouts: self.timeouts,
            max_concurrent_uploads: self.max_concurrent_uploads,
            requests: Semaphore::new(self.max_concurrent_requests.clamp(1, Semaphore::MAX_PERMITS)),
            memory: Memory::new(self.create_settle_time),
            clock: Mutex::default(),
        };
        Ok(Client { core: Arc::new(core) })
    }

    fn http(&self, http: reqwest::ClientBuilder, read_timeout: Duration) -> Result<reqwest::Client> {
        let http = http.user_agent(concat!("inferstore-rust/", env!("CARGO_PKG_VERSION")));
        let http = self.configure_http.iter().fold(http, |http, configure| configure(http));
        // Set last, because the API key must not follow a redirect, and only this crate knows what may be
        // sent twice.
        let http = http.read_timeout(read_timeout).redirect(Policy::none()).retry(reqwest::retry::never());
        http.build().map_err(|error| Error::Config(format!("the HTTP client cannot be built: {error}")))
    }
}

/// Shows neither the key nor the settings of a proxy.
impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").field("retry", &self.retry).finish_non_exhaustive()
    }
}

/// The versioned root, without a trailing slash.
fn check_base_url(text: &str, allow_insecure_http: bool) -> Result<String> {
    let invalid = |problem: &str| Err(Error::Config(format!("the base URL {}: {problem}", shown(text))));
    let Ok(url) = Url::parse(text.trim()) else {
        return invalid("it is not a URL; an example is https://host/api/v1");
    };
    if !url.username().is_empty() || url.password().is_some() {
        return invalid("it has a user name or a password; the API key is sent in a header instead");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return invalid("it has a query or a fragment; it ends in the versioned root, such as /api/v1");
    }
    match url.scheme() {
        "https" => {}
        "http" if is_plain_loopback(&url) || allow_insecure_http => {}
        "http" => {
            return invalid(
                "plain http would show the API key to everyone in between; use https, or allow_insecure_http",
            );
        }
        _ => return invalid("the scheme must be http or https"),
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// The URL without what may be a password or a token.
fn shown(text: &str) -> String {
    let text = text.trim();
    // A password may hold what begins a query elsewhere.
    let (user, host) = text.rsplit_once('@').map_or(("", text), |(_, host)| ("…@", host));
    let host = host.split(['?', '#']).next().unwrap_or_default();
    cut(&printable(&format!("{user}{host}")), 200)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_is_taken_with_or_without_a_slash_and_below_any_path() {
        for text in
            ["https://host.example/api/v1", "https://host.example/api/v1/", " https://host.example/api/v1// "]
        {
            assert_eq!(check_base_url(text, false).ok().as_deref(), Some("https://host.example/api/v1"));
        }
        for text in [
            "http://127.0.0.1:1/api/v1",
            "http://[::1]/api/v2",
            "http://[::ffff:127.0.0.1]/api/v1",
            "http://localhost/v1",
            "http://a.localhost/v10",
            "https://gateway.example/inferstore",
            "https://host.example/v1beta1",
        ] {
            assert!(check_base_url(text, false).is_ok(), "{text}");
        }
    }

    #[test]
    fn any_other_base_url_is_an_error_with_a_reason_and_without_a_secret() {
        for (text, reason) in [
            ("host/api/v1", "not a URL"),
            ("ftp://host/api/v1", "scheme"),
            ("http://host.example/api/v1", "plain http"),
            ("https://me:SECRET@host/api/v1", "password"),
            ("https://host/api/v1?token=SECRET", "query"),
            ("https://host/api/v1#SECRET", "fragment"),
            ("SECRET@host", "not a URL"),
            ("https://me:SECRET?SECRET@host/api/v1", "not a URL"),
            ("https://me:SECRET#SECRET@host/api/v1", "not a URL"),
        ] {
            let problem =
                check_base_url(text, false).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(problem.contains(reason) && !problem.contains("SECRET"), "{text}: {problem}");
        }
        assert!(check_base_url("http://host.example/api/v1", true).is_ok());
    }

    #[test]
    fn a_key_that_no_header_can_carry_is_an_error_of_the_settings() {
        for key in ["", "the\nkey", "the\u{0}key"] {
            let built = Client::new("https://host.example/api/v1", key);
            assert!(matches!(built, Err(Error::Config(problem)) if !problem.contains("the\n")), "{key:?}");
        }
    }
}
