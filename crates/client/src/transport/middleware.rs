//! Middleware: code of the user around every request, to the API and to object storage.

use std::sync::Arc;

use inferstore_api::{Transport, is_plain_loopback};
use reqwest::{Request, Response};

pub use futures_util::future::BoxFuture;

/// Sees every request before it leaves and every response before it is decoded: to add headers, to
/// measure, or to respond without a network. Each attempt of a retried call passes again.
///
/// ```
/// use inferstore::middleware::{BoxFuture, Middleware, Next};
/// use inferstore::reqwest::{self, Request, Response, header::HeaderValue};
///
/// struct TraceId;
///
/// impl Middleware for TraceId {
///     fn handle<'a>(&'a self, mut request: Request, next: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>> {
///         request.headers_mut().insert("x-trace-id", HeaderValue::from_static("4711"));
///         next.run(request)
///     }
/// }
/// # let _ = TraceId;
/// ```
///
/// A request to the API carries the API key in `x-api-key`; a request to object storage carries a
/// presigned URL. Neither belongs in a log.
pub trait Middleware: Send + Sync + 'static {
    /// Handles one request, usually by running `next`.
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>>;
}

/// The rest of the stack: further middleware, then the network.
pub struct Next<'a> {
    stack: &'a HttpStack,
    rest: &'a [Arc<dyn Middleware>],
}

impl<'a> Next<'a> {
    /// Passes the request on.
    pub fn run(self, request: Request) -> BoxFuture<'a, reqwest::Result<Response>> {
        match self.rest.split_first() {
            Some((first, rest)) => first.handle(request, Next { stack: self.stack, rest }),
            None if is_plain_loopback(request.url()) => Box::pin(self.stack.direct.execute(request)),
            None => Box::pin(self.stack.http.execute(request)),
        }
    }
}

/// HTTP clients below the middleware.
#[derive(Clone)]
pub(crate) struct HttpStack {
    pub(crate) http: reqwest::Client,
    /// Sends plain `http` to this machine, without the proxies of the environment.
    pub(crate) direct: reqwest::Client,
    pub(crate) middleware: Arc<[Arc<dyn Middleware>]>,
}

/// Sends a request through the middleware.
impl Transport for HttpStack {
    fn execute(&self, request: Request) -> BoxFuture<'_, reqwest::Result<Response>> {
        Next { stack: self, rest: &self.middleware }.run(request)
    }
}
