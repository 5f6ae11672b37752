//! Middleware: custom code around every request, and the stack of HTTP clients below it.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use inferstore_api::{Transport, is_plain_loopback};
use reqwest::{Request, Response};

use crate::transport::error::OTHER_REQUEST;

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
///
/// A middleware may retry, hedge or redirect requests, so the client takes no error of a middleware as proof
/// that nothing was sent. Never send a create twice to a service that announces no idempotency keys
/// ([`Next::operation`] is `createTask`): both may run and be billed.
pub trait Middleware: Send + Sync + 'static {
    /// Handles one request, usually by running `next`.
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>>;
}

/// Rest of the stack: further middleware, then the network.
pub struct Next<'a> {
    stack: &'a HttpStack,
    rest: &'a [Arc<dyn Middleware>],
    attempt: Attempt,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    pub(crate) operation: &'static str,
    /// Counted from 1.
    pub(crate) number: u32,
}

tokio::task_local! {
    /// Attempt that the generated client is sending; the generated client passes no argument through.
    static CURRENT: Attempt;
}

impl<'a> Next<'a> {
    /// Returns the operation: its identifier in the OpenAPI document, such as `getTask`, or `upload`, `download`, or
    /// `the request` for [`Client::request`](crate::Client::request). Its values are few, so that it can label a metric.
    pub fn operation(&self) -> &'static str {
        self.attempt.operation
    }

    /// Returns the number of the attempt, counted from 1: each retry passes the middleware again.
    pub fn attempt(&self) -> u32 {
        self.attempt.number
    }

    /// Passes the request on.
    pub fn run(self, request: Request) -> BoxFuture<'a, reqwest::Result<Response>> {
        match self.rest.split_first() {
            Some((first, rest)) => first.handle(request, Next { rest, ..self }),
            None if is_plain_loopback(request.url()) => Box::pin(self.stack.direct.execute(request)),
            None => Box::pin(self.stack.http.execute(request)),
        }
    }
}

#[derive(Clone)]
pub(crate) struct HttpStack {
    pub(crate) http: reqwest::Client,
    /// Client for plain `http` to this machine, without the proxies of the environment.
    pub(crate) direct: reqwest::Client,
    pub(crate) middleware: Arc<[Arc<dyn Middleware>]>,
}

impl HttpStack {
    pub(crate) fn send(&self, request: Request, operation: &'static str, number: u32) -> SentRequest<'_> {
        let attempt = Attempt { operation, number };
        Next { stack: self, rest: &self.middleware, attempt }.run(request)
    }

    pub(crate) async fn within<T>(&self, attempt: Attempt, work: impl Future<Output = T>) -> T {
        if self.middleware.is_empty() { work.await } else { CURRENT.scope(attempt, work).await }
    }
}

type SentRequest<'a> = BoxFuture<'a, reqwest::Result<Response>>;

impl Transport for HttpStack {
    fn execute(&self, request: Request) -> SentRequest<'_> {
        let raw = Attempt { operation: OTHER_REQUEST, number: 1 };
        let Attempt { operation, number } = CURRENT.try_get().unwrap_or(raw);
        self.send(request, operation, number)
    }
}
