//! Sending requests: retries, deadlines, middleware, errors, redaction of foreign text, and what all
//! handles of a client share.

pub(crate) mod call;
pub(crate) mod causes;
pub(crate) mod deadline;
pub(crate) mod error;
pub(crate) mod events;
pub(crate) mod redact;
pub(crate) mod retry;

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;
use inferstore_api::{Transport, is_plain_loopback};
use reqwest::header::HeaderValue;
use reqwest::{Request, Response};
use tokio::sync::Semaphore;
use tokio::time::Instant;

pub(crate) use deadline::Deadline;
pub(crate) use error::shown;
pub use error::{
    CallContext, CostLimit, DeadlineReached, Error, ModelOffline, OutputMismatch, Result, TaskDisposition,
    TaskFailure, UnknownOutcome,
};
pub use events::{Events, Items};
pub(crate) use events::{Lazy, Sink, ignored};

use crate::memory::{Memory, lock};
use crate::transport::redact::Redactor;
use crate::transport::retry::Retries;

/// What all handles of a client share.
pub(crate) struct Core {
    /// The generated client, which carries the key.
    pub(crate) api: inferstore_api::Client,
    /// For object storage: it never sees the key, and follows no redirect.
    pub(crate) storage: HttpStack,
    pub(crate) base_url: String,
    pub(crate) redactor: Redactor,
    pub(crate) retries: Retries,
    /// Those of waits, which last as long as an outage and would use up the budget of every other call.
    pub(crate) wait_retries: Retries,
    pub(crate) timeouts: Timeouts,
    pub(crate) max_concurrent_uploads: usize,
    /// One permit for each concurrent request.
    pub(crate) requests: Semaphore,
    pub(crate) memory: Memory,
    /// The `Date` of the last response, which is read when it is needed, and when it came.
    pub(crate) clock: Mutex<Option<(HeaderValue, Instant)>>,
}

/// Timeouts of silence; none of them limits a whole transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// The longest gap between two reads of a response.
    pub(crate) read: Duration,
    /// The longest pause of an upload or a download.
    pub(crate) transfer: Duration,
}

impl Core {
    /// The time by the clock of the service, once a response has shown it.
    pub(crate) fn service_time(&self) -> Option<SystemTime> {
        let (date, at) = lock(&self.clock).clone()?;
        retry::http_date(&date)?.checked_add(at.elapsed())
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("base_url", &self.base_url).finish_non_exhaustive()
    }
}

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
