//! The one function through which every call to the API goes: it sends, retries, opens the envelope,
//! and turns every failure into an [`Error`].

use std::error::Error as StdError;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use inferstore_api::types::{EnvelopeStatus, TaskId};
use inferstore_api::{Envelope, Error as RawError, Operation, ResponseValue, Safety};
use reqwest::StatusCode;
use reqwest::header::{DATE, HeaderMap};
use serde::Deserialize;
use tokio::time::{Instant, Sleep, sleep_until};
use tracing::{Instrument, Span, debug, debug_span, field};

use crate::memory::lock;
use crate::transport::Core;
use crate::transport::deadline::Deadline;
use crate::transport::error::{CallContext, Error, OTHER_REQUEST, Result, is_too_large};
use crate::transport::redact::{MAX_INPUT, MAX_MESSAGE, Redactor};
use crate::transport::retry;

/// How much of a body an error keeps, in characters.
const MAX_EXCERPT: usize = 2_000;

/// How much of the body of a failure is read to find its message, in bytes.
const MAX_ERROR_BODY: usize = MAX_INPUT;

/// How long reading the body of a failure may take; the failure is known without it.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// One attempt may take this many read timeouts: a response that comes byte by byte never reaches one.
const ATTEMPT_SHARE: u32 = 10;

/// Headers in which services and proxies name a request.
const REQUEST_ID_HEADERS: [&str; 4] = ["x-request-id", "request-id", "x-correlation-id", "cf-ray"];

/// A call to one operation.
pub(crate) struct Call<'a> {
    core: &'a Core,
    operation: &'static str,
    safety: Safety,
    deadline: Deadline,
    task: Option<TaskId>,
    retry_on_rejection: bool,
}

impl Core {
    /// A call to this operation, without a deadline.
    pub(crate) fn call(&self, operation: Operation) -> Call<'_> {
        self.call_unlisted(operation.id, operation.safety)
    }

    /// A call to an operation that the document does not list.
    pub(crate) fn call_unlisted(&self, operation: &'static str, safety: Safety) -> Call<'_> {
        let deadline = Deadline::never();
        Call { core: self, operation, safety, deadline, task: None, retry_on_rejection: false }
    }
}

impl<'a> Call<'a> {
    /// Ends the call, retries included, at the deadline.
    pub(crate) fn until(self, deadline: Deadline) -> Self {
        Self { deadline, ..self }
    }

    /// Names the task in errors.
    pub(crate) fn about(self, task: &TaskId) -> Self {
        Self { task: Some(task.clone()), ..self }
    }

    /// Retries a create after 429 and 503.
    pub(crate) fn retry_on_rejection(self, retry_on_rejection: bool) -> Self {
        Self { retry_on_rejection, ..self }
    }

    /// Sends the call, and retries it as far as its safety, the budget and the deadline allow.
    pub(crate) async fn send<T, Sent>(self, send: impl Fn(&'a inferstore_api::Client) -> Sent) -> Result<T>
    where
        Sent: Future<Output = Result<ResponseValue<Envelope<T>>, RawError>>,
    {
        let span = debug_span!(
            "inferstore",
            operation = self.operation,
            attempts = field::Empty,
            status = field::Empty
        );
        // Boxed, so that the futures of callers stay small.
        Box::pin(self.attempts(send, &span)).instrument(span.clone()).await
    }

    async fn attempts<T, Sent>(
        self,
        send: impl Fn(&'a inferstore_api::Client) -> Sent,
        span: &Span,
    ) -> Result<T>
    where
        Sent: Future<Output = Result<ResponseValue<Envelope<T>>, RawError>>,
    {
        let core = self.core;
        let retries = if self.deadline.is_of_wait { &core.wait_retries } else { &core.retries };
        let mut attempts = retries.start(self.operation, self.deadline);
        loop {
            // Pinned here: each function that takes it by value would move and keep a copy of its kilobytes.
            let sent = pin!(send(&core.api));
            let mut error = match self.attempt(sent).await {
                Ok((status, data)) => {
                    retries.succeeded();
                    span.record("attempts", attempts.count).record("status", status);
                    return Ok(data);
                }
                Err(error) => error,
            };
            // A path that no operation has may lead to a page, which will not become JSON.
            let is_page = self.operation == OTHER_REQUEST && matches!(error, Error::Decode(_));
            let may_retry = !is_page && retry::may_retry(self.safety, self.retry_on_rejection, &error);
            // An argument that cannot be sent has none.
            let Some(context) = error.context_mut() else { return Err(error) };
            span.record("attempts", attempts.count).record("status", context.status);
            let cause = context.source.as_deref().map(field::display);
            debug!(attempt = attempts.count, status = context.status, cause, "the call failed");
            if !may_retry || !attempts.backoff(context.retry_after).await {
                context.operation = self.operation;
                context.attempts = attempts.count;
                context.elapsed = attempts.started.elapsed();
                context.is_budget_exhausted = attempts.is_budget_exhausted;
                context.is_retry_safe = may_retry;
                context.task = self.task;
                return Err(error);
            }
        }
    }

    /// One attempt: the status and the payload, or how it failed.
    async fn attempt<T>(
        &self,
        sent: Pin<&mut impl Future<Output = Result<ResponseValue<Envelope<T>>, RawError>>>,
    ) -> Result<(u16, T)> {
        let permit = match self.core.requests.try_acquire() {
            Ok(permit) => Some(permit),
            // The semaphore is never closed.
            Err(_) => self.deadline.timeout(self.core.requests.acquire()).await.and_then(Result::ok),
        };
        let Some(_permit) = permit.filter(|_| !self.deadline.is_over()) else {
            let context = because("the deadline passed before a request was permitted");
            return Err(Error::Transport(Box::new(CallContext { is_unsent: true, ..context })));
        };
        let longest = self.core.timeouts.read.saturating_mul(ATTEMPT_SHARE);
        let until = self.deadline.or_earlier(Deadline::after(Some(longest))).at;
        // A middleware may have no read timeout.
        let is_untimed = self.deadline.at.is_none() && self.core.storage.middleware.is_empty();
        let untimed = if is_untimed { ATTEMPT_SHARE - 1 } else { 0 };
        match limited(sent, until, untimed).await {
            Some(Ok(response)) => {
                if let Some(date) = response.headers().get(DATE) {
                    *lock(&self.core.clock) = Some((date.clone(), Instant::now()));
                }
                open(response, &self.core.redactor)
            }
            // Boxed, because it is rare, and the future of every call would hold it.
            Some(Err(error)) => Err(Box::pin(failure(error, &self.core.redactor, self.deadline)).await),
            None if self.deadline.is_over() => {
                Err(Error::Transport(Box::new(because("the deadline passed"))))
            }
            None => {
                let problem = format!("it was not complete after {:.1} s", longest.as_secs_f64());
                Err(Error::Transport(Box::new(because(problem))))
            }
        }
    }
}

/// Runs an attempt until this time at most, or returns `None`. The first `untimed` waits set no timer, which would cost
/// 1 % of a call: each of them ends with the read timeout.
fn limited<T>(
    mut attempt: Pin<&mut impl Future<Output = T>>,
    until: Option<Instant>,
    mut untimed: u32,
) -> impl Future<Output = Option<T>> {
    let mut timer: Option<Pin<Box<Sleep>>> = None;
    poll_fn(move |context| {
        if let Poll::Ready(done) = attempt.as_mut().poll(context) {
            return Poll::Ready(Some(done));
        }
        if untimed > 0 {
            untimed -= 1;
            return Poll::Pending;
        }
        let Some(until) = until else { return Poll::Pending };
        timer.get_or_insert_with(|| Box::pin(sleep_until(until))).as_mut().poll(context).map(|()| None)
    })
}

/// What an attempt shows of its failure; the call adds the rest.
fn because(source: impl Into<Box<dyn StdError + Send + Sync>>) -> CallContext {
    CallContext { source: Some(source.into()), ..CallContext::default() }
}

/// The failure behind an error of the generated client.
async fn failure(error: RawError, redactor: &Redactor, deadline: Deadline) -> Error {
    match error {
        RawError::UnexpectedResponse(response) => rejected(response, redactor, deadline).await,
        RawError::InvalidResponsePayload(body, error) => undecodable(&body, &error, redactor),
        RawError::CommunicationError(error) if error.is_builder() => {
            Error::InvalidArgument(format!("the request cannot be built: {}", error.without_url()))
        }
        RawError::CommunicationError(error) => {
            let is_unsent = error.is_connect();
            Error::Transport(Box::new(CallContext { is_unsent, ..because(error.without_url()) }))
        }
        RawError::ResponseBodyError(error) | RawError::InvalidUpgrade(error) => {
            let kind = if is_too_large(&error) { Error::Decode } else { Error::Transport };
            kind(Box::new(because(error.without_url())))
        }
        RawError::InvalidRequest(problem) | RawError::Custom(problem) => Error::InvalidArgument(problem),
        // The document declares no typed failure, so the generator makes none of this kind.
        RawError::ErrorResponse(_) => Error::Api(Box::default()),
    }
}

async fn rejected(response: reqwest::Response, redactor: &Redactor, deadline: Deadline) -> Error {
    let status = response.status();
    let request_id = request_id(response.headers(), redactor);
    let retry_after = retry::retry_after(response.headers());
    let body = read_error_body(response, deadline).await;
    let context = Box::new(CallContext {
        status: Some(status.as_u16()),
        request_id,
        retry_after,
        message: message(&body, redactor),
        excerpt: excerpt(&body, redactor),
        ..CallContext::default()
    });
    if status == StatusCode::UNAUTHORIZED { Error::Unauthorized(context) } else { Error::Api(context) }
}

/// A 2xx that is no response of the operation: a failure in an envelope, or something else.
fn undecodable(body: &[u8], error: &serde_json::Error, redactor: &Redactor) -> Error {
    let envelope = serde_json::from_slice(body);
    let is_failure =
        envelope.is_ok_and(|Status { status }: Status| status != EnvelopeStatus::Success.as_str());
    // The parser quotes values of the body.
    let problem = redactor.foreign(&error.to_string(), MAX_MESSAGE);
    let context = CallContext { excerpt: excerpt(body, redactor), ..because(problem) };
    if !is_failure {
        return Error::Decode(Box::new(context));
    }
    let message = message(body, redactor);
    // The generated client returns only a 2xx in this way.
    Error::Api(Box::new(CallContext { status: Some(200), message, ..context }))
}

fn open<T>(response: ResponseValue<Envelope<T>>, redactor: &Redactor) -> Result<(u16, T)> {
    let status = response.status().as_u16();
    if response.is_success() {
        return Ok((status, response.into_inner().data));
    }
    let request_id = request_id(response.headers(), redactor);
    let message = response.into_inner().message.map(|message| redactor.foreign(&message, MAX_MESSAGE));
    let context = CallContext { status: Some(status), request_id, message, ..CallContext::default() };
    Err(Error::Api(Box::new(context)))
}

fn request_id(headers: &HeaderMap, redactor: &Redactor) -> Option<String> {
    let id = REQUEST_ID_HEADERS.iter().find_map(|name| headers.get(*name)?.to_str().ok())?;
    Some(redactor.foreign(id, 200))
}

/// The beginning of a body, however slowly it comes and however it ends.
pub(crate) async fn read_error_body(mut response: reqwest::Response, deadline: Deadline) -> Vec<u8> {
    let deadline = Deadline::after(Some(ERROR_BODY_TIMEOUT)).or_earlier(deadline);
    let mut body = Vec::new();
    while body.len() < MAX_ERROR_BODY
        && let Some(Ok(Some(chunk))) = deadline.timeout(response.chunk()).await
    {
        body.extend_from_slice(&chunk[..chunk.len().min(MAX_ERROR_BODY - body.len())]);
    }
    body
}

// What is read of a body that may be large, without keeping the rest.

#[derive(Deserialize)]
struct Status {
    status: String,
}

#[derive(Deserialize)]
struct Message {
    message: String,
}

fn message(body: &[u8], redactor: &Redactor) -> Option<String> {
    let Message { message } = serde_json::from_slice(body).ok()?;
    Some(redactor.foreign(&message, MAX_MESSAGE))
}

fn excerpt(body: &[u8], redactor: &Redactor) -> Option<String> {
    let beginning = &body[..body.len().min(MAX_ERROR_BODY)];
    let text = redactor.foreign(&String::from_utf8_lossy(beginning), MAX_EXCERPT);
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_attempt_whose_response_comes_in_many_pieces_ends_at_its_limit() {
        let limit = Duration::from_secs(600);
        for untimed in [0, ATTEMPT_SHARE - 1] {
            let started = Instant::now();
            let drips = pin!(async {
                loop {
                    tokio::time::sleep(Duration::from_secs(59)).await;
                }
            });
            assert_eq!(limited::<Infallible>(drips, Some(started + limit), untimed).await, None);
            assert_eq!(started.elapsed(), limit);
        }
    }
}
