//! Making a [`Client`], and what it does to every request before it leaves.

use std::time::Duration;

use progenitor_client::{ClientHooks, Error, OperationInfo};
use reqwest::header::{self, HeaderValue};
use reqwest::redirect::Policy;

use crate::{ApiKey, Client, Envelope, NoData, ResponseValue, body};

/// The header that carries the API key.
const API_KEY_HEADER: &str = "x-api-key";

/// progenitor sends the version of the document in this header, which the document does not declare.
const UNDECLARED_HEADER: &str = "api-version";

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an answer may stay silent; a slow one that keeps moving is fine.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Past this many redirects there is a loop.
const MAX_REDIRECTS: usize = 10;

impl Client {
    /// A client for the service at `base_url`, which ends in `/api/v1`.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use inferstore_api::{ApiKey, Client};
    ///
    /// let client = Client::new("http://127.0.0.1:8787/api/v1", ApiKey::new("…"))?;
    /// let balance = client.get_balance().await?.into_inner().data;
    /// println!("{:?}", balance.balance);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The client gives up after 10 seconds without a connection or 60 seconds of silence, and
    /// follows no redirect to another origin. For other settings start from
    /// [`http_client_builder`] and use [`new_with_client`](Self::new_with_client).
    ///
    /// # Errors
    ///
    /// When TLS cannot be set up.
    pub fn new(base_url: &str, key: ApiKey) -> reqwest::Result<Self> {
        let http = http_client_builder().build()?;
        Ok(Self::new_with_client(base_url.trim_end_matches('/'), http, key))
    }
}

impl Client {
    /// Sends any request, with the API key, to a path below the base URL. `body` is JSON and goes out as
    /// it is.
    ///
    /// For what has no method here: the answer is read as far as its envelope. Its body, whole and as it
    /// came, is heard by [`hear_body`](crate::hear_body).
    ///
    /// # Errors
    ///
    /// [`Error::InvalidRequest`] when the path does not begin with a slash, and those of every method.
    pub async fn send(
        &self,
        method: reqwest::Method,
        path: &str,
        body: Option<&str>,
    ) -> Result<ResponseValue<Envelope<NoData>>, Error<()>> {
        if !path.starts_with('/') {
            return Err(Error::InvalidRequest(format!("the path {path:?} does not begin with a slash")));
        }
        let mut request = self.client.request(method, format!("{}{path}", self.baseurl)).build()?;
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(body) = body {
            request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            *request.body_mut() = Some(body.to_owned().into());
        }
        let info = OperationInfo { operation_id: "send" };
        self.pre(&mut request, &info).await?;
        let response = self.exec(request, &info).await?;
        match response.status().is_success() {
            true => ResponseValue::from_response(response).await,
            false => Err(Error::UnexpectedResponse(response)),
        }
    }
}

/// What [`Client::new`] builds its HTTP client from: TLS as the features of this crate choose it,
/// timeouts for silence rather than for length, proxies from the environment, and no redirect to
/// another origin, because the API key would go along.
pub fn http_client_builder() -> reqwest::ClientBuilder {
    let builder = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(READ_TIMEOUT)
        .redirect(same_origin_redirects());
    #[cfg(feature = "rustls-ring")]
    let builder = builder.tls_backend_preconfigured(RUSTLS_OVER_RING.clone());
    builder
}

fn same_origin_redirects() -> Policy {
    Policy::custom(|attempt| {
        let from = attempt.previous().last().map(reqwest::Url::origin);
        if from != Some(attempt.url().origin()) {
            attempt.stop()
        } else if attempt.previous().len() > MAX_REDIRECTS {
            attempt.error("too many redirects")
        } else {
            attempt.follow()
        }
    })
}

/// Made once in a process: reading the certificates of the system is most of what it takes to make a
/// client.
#[cfg(feature = "rustls-ring")]
static RUSTLS_OVER_RING: std::sync::LazyLock<rustls::ClientConfig> =
    std::sync::LazyLock::new(rustls_over_ring);

/// Named outright, because reqwest would otherwise ask for a provider that the whole process has
/// agreed on, and panic when there is none.
#[cfg(feature = "rustls-ring")]
fn rustls_over_ring() -> rustls::ClientConfig {
    use rustls::RootCertStore;
    use rustls_platform_verifier::BuilderVerifierExt;

    let builder = || {
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap_or_else(|_| unreachable!("ring speaks TLS 1.2 and 1.3"))
    };
    match builder().with_platform_verifier() {
        Ok(builder) => builder.with_no_client_auth(),
        // A system without certificates (a bare container) trusts no server; `http` still works.
        Err(_) => builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth(),
    }
}

impl ClientHooks<ApiKey> for Client {
    async fn pre<E>(&self, request: &mut reqwest::Request, _: &OperationInfo) -> Result<(), Error<E>> {
        let key = self.inner.to_header().map_err(|_| {
            Error::InvalidRequest("the API key holds characters that a header cannot carry".to_owned())
        })?;
        request.headers_mut().insert(API_KEY_HEADER, key);
        request.headers_mut().remove(UNDECLARED_HEADER);
        Ok(())
    }

    async fn exec(&self, request: reqwest::Request, _: &OperationInfo) -> reqwest::Result<reqwest::Response> {
        body::heard(self.client.execute(request).await?).await
    }
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test that cannot go on says so by panicking")]
mod tests {
    use progenitor_client::{ClientHooks, OperationInfo};
    use reqwest::Method;

    use super::{API_KEY_HEADER, UNDECLARED_HEADER};
    use crate::{ApiKey, Client};

    #[tokio::test]
    async fn a_request_leaves_with_the_key_and_without_the_header_of_the_generator() {
        let client = Client::new("http://127.0.0.1:9", ApiKey::new("key")).expect("it can be made");
        let url = "http://127.0.0.1:9/".parse().expect("it is a URL");
        let mut request = reqwest::Request::new(Method::GET, url);
        request.headers_mut().insert(UNDECLARED_HEADER, "2.0.0".parse().expect("it is a value"));
        let info = OperationInfo { operation_id: "get_balance" };
        client.pre::<()>(&mut request, &info).await.expect("the key fits a header");
        assert!(!request.headers().contains_key(UNDECLARED_HEADER));
        assert_eq!(request.headers()[API_KEY_HEADER], "key");
    }
}
