//! Building a client: settings, and the check of the base URL.

use std::error::Error as _;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use inferstore_api::{
    ApiKey, BuildError, Finding, http_client_builder, http_client_builder_sharing_tls, https_support,
    is_plain_loopback, without_proxy_to_this_machine,
};
use parking_lot::Mutex;
use reqwest::Url;
use reqwest::header::HeaderValue;
use reqwest::redirect::Policy;
use serde::Deserialize;

use crate::client::Client;
use crate::memory::{Memory, name_hasher};
use crate::transport::middleware::{HttpStack, Middleware};
use crate::transport::retry::{Retries, Retry, seconds};
use crate::transport::{Core, Error, Redactor, Result, Shared, Timeouts, cut, printable};

/// No read timeout: reqwest counts it from the start of the request, which would limit the duration of an
/// upload. Transfers have idle timeouts instead.
const NO_READ_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

type ConfigureHttp = Arc<dyn Fn(reqwest::ClientBuilder) -> reqwest::ClientBuilder + Send + Sync>;

type OnUnknown = Arc<dyn Fn(&'static str, &Finding) + Send + Sync>;

/// Builds a [`Client`].
///
/// ```
/// use std::time::Duration;
/// use inferstore::Client;
///
/// let client = Client::builder("https://host.example/api/v1", "key")
///     .settings(|settings| settings.read_timeout = Duration::from_secs(20))
///     .build()?;
/// # Ok::<(), inferstore::Error>(())
/// ```
#[derive(Clone)]
#[must_use = "a builder does nothing until `build`"]
pub struct ClientBuilder {
    settings: Settings,
    configure_http: Vec<ConfigureHttp>,
    middleware: Vec<Arc<dyn Middleware>>,
    transport: Option<Arc<dyn Middleware>>,
    on_unknown: Option<OnUnknown>,
}

/// Settings of a client, changed by [`ClientBuilder::settings`] or read from a configuration file. Only the base URL and
/// the key are required; durations are numbers of seconds, and an unknown name is an error.
///
/// ```
/// use inferstore::{ClientBuilder, Settings};
///
/// let text = r#"{"base_url": "https://host.example/api/v1", "api_key": "key", "read_timeout": 20, "retry": {"max_attempts": 3}}"#;
/// let settings: Settings = serde_json::from_str(text)?;
/// let client = ClientBuilder::from(settings).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Settings {
    /// Versioned root of the service, such as `https://host/api/v1`.
    pub base_url: String,
    /// API key.
    pub api_key: ApiKey,
    /// Timeout between two reads of an API response. A whole response may take ten times as long. Default: 60 s.
    #[serde(with = "seconds")]
    pub read_timeout: Duration,
    /// Idle timeout of an upload or a download. Their duration has no limit. Default: 30 s.
    #[serde(with = "seconds")]
    pub transfer_timeout: Duration,
    /// Retry policy. Default: [`Retry::default`].
    pub retry: Retry,
    /// Maximum number of concurrent uploads of one run. Default: 4.
    pub max_concurrent_uploads: usize,
    /// Time after which a sent create can no longer appear in the task history: a gateway or the service may
    /// delay it. If an earlier process may have started a run, [`Client::adopt_or_start`] creates its task
    /// only when this time has passed since the run was deserialized. Default: 60 s.
    #[serde(with = "seconds")]
    pub create_settle_time: Duration,
    /// Largest API response in bytes. Default: 16 MiB.
    pub max_response_size: u64,
    /// Allows plain `http` to other machines, which exposes the key to everyone in between. Default: `false`.
    pub allow_insecure_http: bool,
    /// Header `User-Agent` of every request. Default: `inferstore-rust/` and the version.
    pub user_agent: String,
}

impl Settings {
    /// Returns default settings for the service at this base URL.
    pub fn new(base_url: impl Into<String>, api_key: impl Into<ApiKey>) -> Self {
        Self { base_url: base_url.into(), api_key: api_key.into(), ..Self::default() }
    }

    fn check(&self) -> Result<()> {
        check_key(&self.api_key)?;
        if self.read_timeout.is_zero() || self.transfer_timeout.is_zero() {
            let problem = "read_timeout and transfer_timeout must be above zero: each request would time out";
            return Err(Error::Config(problem.to_owned()));
        }
        check_header("the user_agent", &self.user_agent)
    }
}

/// Base URL and key are empty; [`ClientBuilder::build`] reports that.
impl Default for Settings {
    fn default() -> Self {
        Self {
            base_url: String::new(),
            api_key: ApiKey::new(""),
            read_timeout: Duration::from_secs(60),
            transfer_timeout: Duration::from_secs(30),
            retry: Retry::default(),
            max_concurrent_uploads: 4,
            create_settle_time: Duration::from_secs(60),
            max_response_size: inferstore_api::MAX_RESPONSE_BODY,
            allow_insecure_http: false,
            user_agent: concat!("inferstore-rust/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

impl From<Settings> for ClientBuilder {
    fn from(settings: Settings) -> Self {
        Self {
            settings,
            configure_http: Vec::new(),
            middleware: Vec::new(),
            transport: None,
            on_unknown: None,
        }
    }
}

impl ClientBuilder {
    /// Changes settings.
    ///
    /// ```
    /// # let builder = inferstore::Client::builder("https://host.example/api/v1", "key");
    /// let builder = builder.settings(|settings| settings.retry.max_attempts = 3);
    /// ```
    pub fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Changes the HTTP clients, for the API and for object storage. Default: a connect timeout of 10 s, and
    /// the proxies of the environment, with none for plain `http` to this machine. Redirects, retries and the
    /// [`read_timeout`](Settings::read_timeout) are always those of this crate. Every other setting takes
    /// effect, TLS included, or is an error of [`build`](Self::build). Each client then reads the certificates
    /// of the system again, which takes some milliseconds.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let builder = inferstore::Client::builder("https://host.example/api/v1", "key");
    /// let builder = builder.configure_http(|http| http.connect_timeout(Duration::from_secs(3)));
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

    /// Sets a transport that responds instead of the network, below all middleware, such as `inferstore-testing`.
    pub fn transport(mut self, transport: impl Middleware) -> Self {
        self.transport = Some(Arc::new(transport));
        self
    }

    /// Reports each difference between a successful response and the document that the types of this crate are made
    /// from: a new field, a new word of a vocabulary, a null, another type, or a required field that is absent. The
    /// client reads most of these responses all the same, so that nothing else shows that the service has changed.
    ///
    /// `report` gets the identifier of the operation, such as `getTask`, and a [`Finding`]: the position in the document as
    /// a JSON pointer, and the difference. Neither holds a value of a response, so both can label a metric. It is
    /// called for every response in which the difference is found, retries included, and the call waits for it. Without
    /// `on_unknown` nothing is compared; with it, each response is parsed once more.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use std::sync::{Arc, Mutex};
    ///
    /// let counts: Arc<Mutex<BTreeMap<String, u64>>> = Arc::default();
    /// let counters = Arc::clone(&counts);
    /// let client = inferstore::Client::builder("https://host.example/api/v1", "key")
    ///     .on_unknown(move |operation, finding| {
    ///         // "getTask #/components/schemas/TaskDetail/properties/hue: the document has no such field; …"
    ///         let Ok(mut counters) = counters.lock() else { return };
    ///         *counters.entry(format!("{operation} {finding}")).or_default() += 1;
    ///     })
    ///     .build()?;
    /// # Ok::<(), inferstore::Error>(())
    /// ```
    ///
    /// `inferstore doctor --api` compares the responses of an installation in the same way, once.
    pub fn on_unknown(mut self, report: impl Fn(&'static str, &Finding) + Send + Sync + 'static) -> Self {
        self.on_unknown = Some(Arc::new(report));
        self
    }

    /// Builds the client without sending a request.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if the base URL is not of the form `https://host/api/v1`, would send the key unencrypted to
    /// another machine, or needs TLS without a TLS feature; if the key is empty; if the key or the user agent is not
    /// valid in a header; if a timeout is zero; or if reqwest rejects the settings of
    /// [`configure_http`](Self::configure_http).
    pub fn build(self) -> Result<Client> {
        let base_url = check_base_url(&self.settings.base_url, self.settings.allow_insecure_http)?;
        self.settings.check()?;
        if base_url.starts_with("https:") {
            match https_support() {
                // The caller may have added certificates.
                Err(BuildError::RootCertificates(_)) if !self.configure_http.is_empty() => {}
                Err(error) => return Err(Error::Config(format!("{base_url} needs https: {error}"))),
                Ok(()) => {}
            }
        }
        // reqwest ignores TLS settings of the caller beside shared TLS.
        let is_shared = self.configure_http.is_empty();
        let base = || if is_shared { http_client_builder_sharing_tls() } else { http_client_builder() };
        let http = without_proxy_to_this_machine(base(), &base_url);
        let http = self.http(http, self.settings.read_timeout)?;
        let storage = self.http(base(), NO_READ_TIMEOUT)?;
        let direct = self.http(base().no_proxy(), NO_READ_TIMEOUT)?;
        let Settings { api_key, retry, read_timeout, transfer_timeout, .. } = self.settings;
        let redactor = Redactor::new(api_key.expose());
        let name_hasher = name_hasher(api_key.expose());
        let middleware: Arc<[Arc<dyn Middleware>]> =
            self.middleware.into_iter().chain(self.transport).collect();
        let mut api = inferstore_api::Client::new_with_client(&base_url, http.clone(), api_key)
            .with_max_response_body(self.settings.max_response_size);
        if let Some(report) = self.on_unknown {
            api = api.with_on_unknown(move |operation, finding| report(operation, finding));
        }
        if !middleware.is_empty() {
            let middleware = Arc::clone(&middleware);
            api = api.with_transport(Arc::new(HttpStack { direct: http.clone(), http, middleware }));
        }
        let shared = Shared {
            storage: HttpStack { http: storage, direct, middleware },
            base_url,
            retries: Retries::new(retry.clone()),
            wait_retries: Retries::new(retry),
            timeouts: Timeouts { read: read_timeout, transfer: transfer_timeout },
            max_concurrent_uploads: self.settings.max_concurrent_uploads,
            memory: Memory::new(self.settings.create_settle_time),
            announced: Mutex::default(),
        };
        let core = Core { api, redactor, name_hasher, shared: Arc::new(shared) };
        Ok(Client { core: Arc::new(core) })
    }

    fn http(&self, http: reqwest::ClientBuilder, read_timeout: Duration) -> Result<reqwest::Client> {
        let http = http.user_agent(&self.settings.user_agent);
        let http = self.configure_http.iter().fold(http, |http, configure| configure(http));
        // Set last: the API key must not follow a redirect, and only this crate knows which requests to retry.
        let http = http.read_timeout(read_timeout).redirect(Policy::none()).retry(reqwest::retry::never());
        http.build().map_err(|error| {
            let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
            Error::Config(format!("the HTTP client cannot be built: {error}{cause}"))
        })
    }
}

/// Redaction: shows neither the key nor the settings of the HTTP client.
impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").field("settings", &self.settings).finish_non_exhaustive()
    }
}

pub(crate) fn check_key(key: &ApiKey) -> Result<()> {
    if key.expose().is_empty() {
        return Err(Error::Config("the API key is empty".to_owned()));
    }
    check_header("the API key", key.expose())
}

fn check_header(what: &str, value: &str) -> Result<()> {
    let invalid = |_| Error::Config(format!("{what} has characters that a header cannot carry"));
    HeaderValue::from_str(value).map(drop).map_err(invalid)
}

fn check_base_url(text: &str, allow_insecure_http: bool) -> Result<String> {
    let invalid = |problem: &str| {
        let shown = cut(&printable(&redact_url(text.trim())), 200);
        Err(Error::Config(format!("the base URL {shown}: {problem}")))
    };
    if text.trim().is_empty() {
        return Err(Error::Config("no base URL is set; an example is https://host/api/v1".to_owned()));
    }
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

/// Returns the URL without parts that may be a password or a token.
pub fn redact_url(url: &str) -> String {
    // A password may contain `?` or `#`.
    let (user, host) = url.rsplit_once('@').map_or(("", url), |(_, host)| ("…@", host));
    format!("{user}{}", host.split(['?', '#']).next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::panic, reason = "a test stops at the first surprise")]

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
    fn settings_without_any_possible_success_are_refused_at_the_build() {
        for (change, reason) in [
            ((|settings| settings.base_url = " ".to_owned()) as fn(&mut Settings), "no base URL is set"),
            (|settings| settings.read_timeout = Duration::ZERO, "read_timeout"),
            (|settings| settings.transfer_timeout = Duration::ZERO, "transfer_timeout"),
            (|settings| settings.user_agent = "line\nbreak".to_owned(), "user_agent"),
        ] {
            let mut settings = Settings::new("https://host.example/api/v1", "key");
            change(&mut settings);
            let refused = ClientBuilder::from(settings).build().err().map(|error| error.to_string());
            assert!(refused.as_ref().is_some_and(|text| text.contains(reason)), "{reason}: {refused:?}");
        }
    }

    #[test]
    fn settings_are_read_from_a_file_and_a_mistake_in_it_is_an_error() {
        let read = |text: &str| serde_json::from_str::<Settings>(text).map(ClientBuilder::from);
        let text = r#"{"base_url": "https://host.example/api/v1", "api_key": "KEY", "read_timeout": 0.5,
            "retry": {"max_attempts": 2, "max_backoff": 1.5}}"#;
        let Ok(builder) = read(text) else { panic!("they are settings") };
        let Settings { read_timeout, transfer_timeout, retry, .. } = &builder.settings;
        assert_eq!([*read_timeout, *transfer_timeout], [Duration::from_millis(500), Duration::from_secs(30)]);
        assert_eq!((retry.max_attempts, retry.max_backoff), (2, Duration::from_millis(1_500)));
        assert_eq!(retry.budget, Retry::default().budget);
        assert!(!format!("{builder:?}").contains("KEY"), "{builder:?}");
        assert!(builder.build().is_ok());
        for (text, problem) in [
            (r#"{"base_ur": "https://host.example/api/v1"}"#, "unknown field `base_ur`"),
            (r#"{"read_timeout": -1}"#, "-1 seconds"),
            (r#"{"retry": {"attempts": 1}}"#, "unknown field `attempts`"),
        ] {
            let found = read(text).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(found.contains(problem), "{found}");
        }
        assert!(matches!(read("{}").map(ClientBuilder::build), Ok(Err(Error::Config(_)))));
    }

    #[test]
    fn a_key_that_no_header_can_carry_is_an_error_of_the_settings() {
        for key in ["", "the\nkey", "the\u{0}key"] {
            let built = Client::new("https://host.example/api/v1", key);
            assert!(matches!(built, Err(Error::Config(problem)) if !problem.contains("the\n")), "{key:?}");
        }
    }
}
