//! [`Client`]: constructors, sending of requests, redirects.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use inferstore_drift::{Document, Finding};
use progenitor_client::{ClientHooks, Error, OperationInfo};
use reqwest::header::{self, HeaderValue};
use reqwest::{Method, Request, Response, Url};
use serde::de::DeserializeOwned;

use crate::tls::{
    BuildError, check_support_for, http_client_builder_sharing_tls, without_proxy_to_this_machine,
};
use crate::{ApiKey, Client, MAX_RESPONSE_BODY, ResponseValue, body};

const API_KEY_HEADER: &str = "x-api-key";

/// Header in which progenitor sends the version of the document; the document does not declare the header.
const UNDECLARED_HEADER: &str = "api-version";

/// Media type that every request accepts.
const JSON: HeaderValue = HeaderValue::from_static("application/json");

const MAX_REDIRECTS: usize = 10;

/// Sends the requests of a [`Client`]. Implement it to add headers, to log, or to respond without a network.
///
/// ```
/// use std::pin::Pin;
/// use std::sync::Arc;
///
/// use inferstore_api::{ApiKey, Client, Transport};
///
/// /// Responds to every request with the same balance.
/// struct FixedBalance;
///
/// impl Transport for FixedBalance {
///     fn execute(
///         &self,
///         _: reqwest::Request,
///     ) -> Pin<Box<dyn Future<Output = reqwest::Result<reqwest::Response>> + Send + '_>> {
///         let response = http::Response::new(r#"{"status": "success", "data": {"balance": "12.50"}}"#);
///         Box::pin(async { Ok(response.into()) })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::new("http://test/api/v1", ApiKey::new("…"))?.with_transport(Arc::new(FixedBalance));
/// let balance = client.get_balance().await?.into_inner().data.balance;
/// assert_eq!(balance, Some("12.50".parse()?));
/// # Ok(())
/// # }
/// ```
///
/// A request arrives complete, with the API key in its `x-api-key` header. An implementation over an HTTP
/// client must not follow redirects to another origin, because the key would go along.
pub trait Transport: Send + Sync {
    /// Sends the request and returns the response, whose body may still be arriving.
    fn execute(
        &self,
        request: Request,
    ) -> Pin<Box<dyn Future<Output = reqwest::Result<Response>> + Send + '_>>;
}

impl Transport for reqwest::Client {
    fn execute(
        &self,
        request: Request,
    ) -> Pin<Box<dyn Future<Output = reqwest::Result<Response>> + Send + '_>> {
        Box::pin(self.execute(request))
    }
}

/// State of a [`Client`] besides its base URL and its HTTP client.
#[derive(Clone)]
pub(crate) struct Session {
    key: ApiKey,
    /// Replaces the HTTP client.
    transport: Option<Arc<dyn Transport>>,
    max_response_body: u64,
    on_unknown: Option<OnUnknown>,
}

/// Receives the operation and each difference of a response from the document.
type OnUnknown = Arc<dyn Fn(&'static str, &Finding) + Send + Sync>;

/// Extension of a response whose body is compared with the document.
#[derive(Clone)]
pub(crate) struct Observer {
    operation: &'static str,
    on_unknown: OnUnknown,
}

impl Observer {
    pub(crate) fn see(&self, body: &[u8]) {
        // Decoding reports a body that is no JSON.
        let Ok(body) = serde_json::from_slice(body) else { return };
        for finding in Document::embedded().compare(self.operation, &body) {
            (self.on_unknown)(self.operation, &finding);
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("max_response_body", &self.max_response_body).finish_non_exhaustive()
    }
}

impl Client {
    /// Creates a client for the service at `base_url`, which ends in `/api/v1`.
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
    /// Timeouts: 10 seconds to connect, 60 seconds between two reads of a response. Redirects: those of a
    /// `GET` are followed within the origin, others are returned as an unexpected response. For other
    /// settings start from [`http_client_builder_for`](crate::http_client_builder_for) and use
    /// [`new_with_client`](Self::new_with_client).
    ///
    /// # Errors
    ///
    /// That of [`https_support`](crate::https_support) when the base URL is `https`, and [`BuildError::Http`].
    pub fn new(base_url: &str, key: ApiKey) -> Result<Self, BuildError> {
        check_support_for(base_url)?;
        let http = without_proxy_to_this_machine(http_client_builder_sharing_tls(), base_url);
        let http = http.build().map_err(BuildError::Http)?;
        Ok(Self::new_with_client(base_url, http, key))
    }

    /// Creates a client that sends with the given HTTP client. The HTTP client must not follow redirects to
    /// another origin, because they would receive the API key.
    pub fn new_with_client(base_url: &str, http: reqwest::Client, key: ApiKey) -> Self {
        let session =
            Session { key, transport: None, max_response_body: MAX_RESPONSE_BODY, on_unknown: None };
        Self { baseurl: base_url.trim_end_matches('/').to_owned(), client: http, inner: session }
    }

    /// Returns a client with another API key that shares the connections.
    #[must_use]
    pub fn with_key(&self, key: ApiKey) -> Self {
        let mut client = self.clone();
        client.inner.key = key;
        client
    }

    /// Sends with the given [`Transport`] instead of the HTTP client; the HTTP client still builds the
    /// requests.
    #[must_use]
    pub fn with_transport(mut self, transport: Arc<dyn Transport>) -> Self {
        self.inner.transport = Some(transport);
        self
    }

    /// Sets the largest response body that the client reads, in bytes, instead of [`MAX_RESPONSE_BODY`].
    /// Beyond it, a call fails with [`BodyTooLarge`](crate::BodyTooLarge) among the sources of its error.
    #[must_use]
    pub fn with_max_response_body(mut self, limit: u64) -> Self {
        self.inner.max_response_body = limit;
        self
    }

    /// Reports each difference between a successful response and the document: the identifier of the operation, such as
    /// `getTask`, and a [`Finding`], which holds no value of the response. The call waits for `on_unknown`.
    #[must_use]
    pub fn with_on_unknown(
        mut self,
        on_unknown: impl Fn(&'static str, &Finding) + Send + Sync + 'static,
    ) -> Self {
        self.inner.on_unknown = Some(Arc::new(on_unknown));
        self
    }

    /// Sends any request, with the API key, to a path below the base URL, with `body` as its JSON.
    ///
    /// Use this for requests without a method. `T` is the type of the response, such as
    /// [`Envelope`](crate::Envelope) or `serde_json::Value`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidRequest`] if the path does not begin with a slash or leaves the base URL, and those of
    /// every method.
    pub async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&str>,
    ) -> Result<ResponseValue<T>, Error<()>> {
        if !path.starts_with('/') {
            return Err(Error::InvalidRequest(format!("the path {path:?} does not begin with a slash")));
        }
        let mut request = self.client.request(method, format!("{}{path}", self.baseurl)).build()?;
        // The URL parser resolves `..` in every spelling: the API key must stay below the base URL.
        let root = Url::parse(&format!("{}/", self.baseurl)).ok();
        if !root.is_some_and(|root| request.url().path().starts_with(root.path())) {
            return Err(Error::InvalidRequest(format!("the path {path:?} leaves the base URL")));
        }
        request.headers_mut().insert(header::ACCEPT, JSON);
        if let Some(body) = body {
            request.headers_mut().insert(header::CONTENT_TYPE, JSON);
            *request.body_mut() = Some(body.to_owned().into());
        }
        let info = OperationInfo { operation_id: "send" };
        self.pre(&mut request, &info).await?;
        let response = self.exec(request, &info).await?;
        if response.status().is_success() {
            body::read(response).await
        } else {
            Err(Error::UnexpectedResponse(response))
        }
    }

    /// Returns the observer of the response, if the request is an operation of the document.
    fn observer(&self, request: &Request) -> Option<Observer> {
        let on_unknown = self.inner.on_unknown.clone()?;
        let root = Url::parse(&self.baseurl).ok()?;
        let path = request.url().path().strip_prefix(root.path().trim_end_matches('/'))?;
        let operation = Document::embedded().operation(request.method().as_str(), path)?;
        Some(Observer { operation, on_unknown })
    }

    async fn execute(&self, request: Request) -> reqwest::Result<Response> {
        match &self.inner.transport {
            Some(transport) => transport.execute(request).await,
            None => self.client.execute(request).await,
        }
    }

    /// Follows the redirects of a `GET` within its origin. Returns a redirect to another origin unchanged.
    async fn follow(&self, mut response: Response, mut url: Url) -> reqwest::Result<Response> {
        for _ in 0..MAX_REDIRECTS {
            let Some(target) = redirect_target(&response, &url) else { break };
            url = target.clone();
            let mut request = self.client.get(target).header(header::ACCEPT, JSON).build()?;
            if let Ok(key) = self.inner.key.to_header() {
                request.headers_mut().insert(API_KEY_HEADER, key);
            }
            response = self.execute(request).await?;
        }
        Ok(response)
    }
}

/// Returns the target of a redirect within the origin.
fn redirect_target(response: &Response, from: &Url) -> Option<Url> {
    let is_redirect = response.status().is_redirection();
    let location = response.headers().get(header::LOCATION).filter(|_| is_redirect)?;
    let target = from.join(location.to_str().ok()?).ok()?;
    Some(target).filter(|target| target.origin() == from.origin())
}

impl ClientHooks<Session> for Client {
    async fn pre<E>(&self, request: &mut Request, _: &OperationInfo) -> Result<(), Error<E>> {
        let key = self.inner.key.to_header().map_err(|_| {
            Error::InvalidRequest("the API key holds characters that a header cannot carry".to_owned())
        })?;
        request.headers_mut().insert(API_KEY_HEADER, key);
        request.headers_mut().remove(UNDECLARED_HEADER);
        Ok(())
    }

    async fn exec(&self, request: Request, _: &OperationInfo) -> reqwest::Result<Response> {
        let is_get = request.method() == Method::GET;
        // The response of a transport has no URL.
        let url = self.inner.transport.is_some().then(|| request.url().clone());
        let observer = self.observer(&request);
        let mut response = self.execute(request).await?;
        if is_get && response.status().is_redirection() {
            let url = url.unwrap_or_else(|| response.url().clone());
            // Boxed: redirects are rare, and the future of every call would contain this one.
            response = Box::pin(self.follow(response, url)).await?;
        }
        let mut response = body::limited(response, self.inner.max_response_body);
        if let Some(observer) = observer {
            response.extensions_mut().insert(observer);
        }
        Ok(response)
    }
}
