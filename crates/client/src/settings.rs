//! How a client behaves, and the check of where it talks to.

use std::time::Duration;

use reqwest::Url;

use crate::transport::error::{Error, Result};
use crate::transport::retry::Retry;

/// How a client behaves. Proxies are taken from the environment as reqwest does, unless an HTTP client
/// of your own says otherwise. Name what differs and take the rest from the default:
///
/// ```
/// use std::time::Duration;
/// use inferstore::Settings;
///
/// let settings = Settings { read_timeout: Duration::from_secs(20), ..Settings::default() };
/// ```
#[derive(Clone, Debug)]
pub struct Settings {
    /// What the client calls itself.
    pub user_agent: String,
    /// How long making a connection may take.
    pub connect_timeout: Duration,
    /// How long the service may stay silent within an answer. A slow answer that keeps moving is fine.
    pub read_timeout: Duration,
    /// How long an upload or a download may stand still. There is no limit on its whole length.
    pub transfer_timeout: Duration,
    /// How calls are repeated.
    pub retry: Retry,
    /// How long the declared inputs of a model are remembered.
    pub schema_cache_ttl: Duration,
    /// How many files of one run are uploaded side by side.
    pub max_concurrent_uploads: usize,
    /// Sends the key over plain `http` to other machines. Everyone in between can read it then.
    pub allow_insecure_http: bool,
    /// An HTTP client of your own for the API, with its own timeouts, proxies and TLS. It must not
    /// follow redirects to other origins, because the key would go along:
    /// [`http_client_builder`](crate::http_client_builder) is a good start.
    pub http: Option<reqwest::Client>,
    /// An HTTP client of your own for object storage, where files go to and come from. It must follow no
    /// redirects, send no headers of its own, and have no timeout for a whole request. Without one, a
    /// client is made that has never seen the key.
    pub http_for_storage: Option<reqwest::Client>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            user_agent: concat!("inferstore-rust/", env!("CARGO_PKG_VERSION")).to_owned(),
            connect_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_secs(60),
            transfer_timeout: Duration::from_secs(30),
            retry: Retry::default(),
            schema_cache_ttl: Duration::from_secs(300),
            max_concurrent_uploads: 4,
            allow_insecure_http: false,
            http: None,
            http_for_storage: None,
        }
    }
}

/// The versioned root that the text names, without a trailing slash.
pub(crate) fn base_url(text: &str, allow_insecure_http: bool) -> Result<String> {
    let wrong =
        |problem: &str| Err(Error::InvalidArgument(format!("the base URL {}: {problem}", shown(text))));
    let Ok(url) = Url::parse(text.trim()) else {
        return wrong("it is not a URL; it looks like https://host/api/v1");
    };
    if !url.username().is_empty() || url.password().is_some() {
        return wrong("it holds a user name or a password; the API key goes into a header instead");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return wrong("it has a query or a fragment; it ends in the versioned root, such as /api/v1");
    }
    match url.scheme() {
        "https" => {}
        "http" if is_loopback(&url) || allow_insecure_http => {}
        "http" => {
            return wrong(
                "plain http would show the API key to everyone in between; use https, or allow_insecure_http if you must",
            );
        }
        _ => return wrong("only http and https are spoken"),
    }
    let root = url.as_str().trim_end_matches('/');
    let version = root.rsplit('/').next().and_then(|last| last.strip_prefix('v'));
    if !version.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())) {
        return wrong("it does not end in a versioned root, such as /api/v1");
    }
    Ok(root.to_owned())
}

/// Without what may be a password.
fn shown(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((_, host)) => format!("…@{host}"),
        None => text.trim().to_owned(),
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    address
        .map_or_else(|_| host == "localhost" || host.ends_with(".localhost"), |address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::base_url;

    #[test]
    fn a_versioned_root_is_taken_with_or_without_a_slash() {
        for text in
            ["https://host.example/api/v1", "https://host.example/api/v1/", " https://host.example/api/v1// "]
        {
            assert_eq!(base_url(text, false).ok().as_deref(), Some("https://host.example/api/v1"));
        }
        for text in [
            "http://127.0.0.1:1/api/v1",
            "http://[::1]/api/v2",
            "http://localhost/v1",
            "http://a.localhost/v10",
        ] {
            assert!(base_url(text, false).is_ok(), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_a_reason_and_without_a_password() {
        for (text, reason) in [
            ("", "not a URL"),
            ("host.example/api/v1", "not a URL"),
            ("ftp://host.example/api/v1", "http and https"),
            ("http://host.example/api/v1", "allow_insecure_http"),
            ("http://10.0.0.1/api/v1", "allow_insecure_http"),
            ("https://host.example", "versioned root"),
            ("https://host.example/api", "versioned root"),
            ("https://host.example/api/v1/models", "versioned root"),
            ("https://host.example/api/v1?x=1", "query"),
            ("https://me:hidden@host.example/api/v1", "user name"),
        ] {
            let error =
                base_url(text, false).map_or_else(|error| error.to_string(), |_| format!("{text} is taken"));
            assert!(error.contains(reason) && !error.contains("hidden"), "{error}");
        }
        assert!(base_url("http://host.example/api/v1", true).is_ok(), "whoever insists");
    }
}
