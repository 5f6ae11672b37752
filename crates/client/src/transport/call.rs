//! The one function through which every call to the API goes: it sends, retries, opens the envelope,
//! and turns every failure into an [`Error`].

use std::error::Error as StdError;
use std::pin::pin;
use std::time::Duration;

use inferstore_api::types::{EnvelopeStatus, TaskId};
use inferstore_api::{Envelope, Error as RawError, Operation, ResponseValue, Safety};
use reqwest::header::HeaderMap;
use serde::Deserialize;
use tokio::time::Instant;
use tracing::{Instrument, Span, debug, debug_span, field};

use crate::memory::lock;
use crate::transport::Core;
use crate::transport::deadline::Deadline;
use crate::transport::error::{CallContext, Error, Result, is_too_large};
use crate::transport::redact::{MAX_INPUT, MAX_MESSAGE, Redactor};
use crate::transport::retry::{self, Attempts, Failure};

/// How much of a body an error keeps, in characters.
const MAX_EXCERPT: usize = 2_000;

/// How much of the body of a failure is read to find its message, in bytes.
const MAX_ERROR_BODY: usize = MAX_INPUT;

/// How long reading the body of a failure may take; the failure is known without it.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(5);

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
            let fault = match self.attempt(sent).await? {
                Ok((status, data)) => {
                    retries.succeeded();
                    span.record("attempts", attempts.count).record("status", status);
                    return Ok(data);
                }
                Err(fault) => fault,
            };
            span.record("attempts", attempts.count).record("status", fault.context.status);
            debug!(attempt = attempts.count, status = fault.context.status, failure = ?fault.failure, "the call failed");
            let may_retry = retry::may_retry(self.safety, self.retry_on_rejection, fault.failure);
            if !may_retry || !attempts.backoff(fault.context.retry_after).await {
                return Err(self.failed(fault, may_retry, &attempts));
            }
        }
    }

    /// One attempt: the status and the payload, or how it failed; an error if nothing can be sent at all.
    async fn attempt<T>(
        &self,
        sent: impl Future<Output = Result<ResponseValue<Envelope<T>>, RawError>>,
    ) -> Result<Result<(u16, T), Fault>> {
        let Some(_permit) = self.deadline.timeout(self.core.requests.acquire()).await else {
            let problem = "the deadline passed before a request was permitted";
            return Ok(Err(Fault::because(Failure::NotSent, problem)));
        };
        match self.deadline.timeout(sent).await {
            Some(Ok(response)) => {
                if let Some(date) = retry::date(response.headers()) {
                    *lock(&self.core.clock) = Some((date, Instant::now()));
                }
                Ok(open(response, &self.core.redactor))
            }
            // Boxed, because it is rare, and the future of every call would hold it.
            Some(Err(error)) => Box::pin(Fault::of(error, &self.core.redactor, self.deadline)).await.map(Err),
            None => Ok(Err(Fault::because(Failure::Lost, "the deadline passed"))),
        }
    }

    fn failed(self, fault: Fault, is_retry_safe: bool, attempts: &Attempts<'_>) -> Error {
        let context = Box::new(CallContext {
            operation: self.operation,
            attempts: attempts.count,
            elapsed: attempts.started.elapsed(),
            is_budget_exhausted: attempts.is_budget_exhausted,
            is_retry_safe,
            task: self.task,
            ..*fault.context
        });
        match fault.failure {
            Failure::Status(401) => Error::Unauthorized(context),
            Failure::Status(_) | Failure::Permanent => Error::Api(context),
            Failure::NotSent | Failure::Lost => Error::Transport(context),
            Failure::Undecodable | Failure::TooLarge => Error::Decode(context),
        }
    }
}

/// One failed attempt.
struct Fault {
    failure: Failure,
    /// What the attempt shows; the call adds the rest.
    context: Box<CallContext>,
}

impl Fault {
    fn new(failure: Failure, context: CallContext) -> Self {
        Self { failure, context: Box::new(context) }
    }

    fn because(failure: Failure, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::new(failure, CallContext { source: Some(source.into()), ..CallContext::default() })
    }

    /// The failure behind an error of the generated client; `Err` if it did not come from the network.
    async fn of(error: RawError, redactor: &Redactor, deadline: Deadline) -> Result<Self> {
        Ok(match error {
            RawError::UnexpectedResponse(response) => Self::status(response, redactor, deadline).await,
            RawError::InvalidResponsePayload(body, error) => Self::undecodable(&body, &error, redactor),
            RawError::CommunicationError(error) => Self::transport(error)?,
            RawError::ResponseBodyError(error) | RawError::InvalidUpgrade(error) => {
                let failure = if is_too_large(&error) { Failure::TooLarge } else { Failure::Lost };
                Self::because(failure, error.without_url())
            }
            RawError::InvalidRequest(problem) | RawError::Custom(problem) => {
                return Err(Error::InvalidArgument(problem));
            }
            // The document declares no typed failure, so the generator makes none of this kind.
            RawError::ErrorResponse(response) => {
                let status = response.status().as_u16();
                let context = CallContext { status: Some(status), ..CallContext::default() };
                Self::new(Failure::Status(status), context)
            }
        })
    }

    fn transport(error: reqwest::Error) -> Result<Self> {
        let error = error.without_url();
        if error.is_builder() {
            return Err(Error::InvalidArgument(format!("the request cannot be built: {error}")));
        }
        let failure = if error.is_connect() { Failure::NotSent } else { Failure::Lost };
        Ok(Self::because(failure, error))
    }

    async fn status(response: reqwest::Response, redactor: &Redactor, deadline: Deadline) -> Self {
        let status = response.status().as_u16();
        let request_id = request_id(response.headers(), redactor);
        let retry_after = retry::retry_after(response.headers());
        let body = read_error_body(response, deadline).await;
        let context = CallContext {
            status: Some(status),
            request_id,
            retry_after,
            message: message(&body, redactor),
            excerpt: excerpt(&body, redactor),
            ..CallContext::default()
        };
        Self::new(Failure::Status(status), context)
    }

    /// A 2xx that is no response of the operation: a failure in an envelope, or something else.
    fn undecodable(body: &[u8], error: &serde_json::Error, redactor: &Redactor) -> Self {
        let envelope = serde_json::from_slice(body);
        let is_failure =
            envelope.is_ok_and(|Status { status }: Status| status != EnvelopeStatus::Success.as_str());
        // The parser quotes values of the body.
        let problem = redactor.foreign(&error.to_string(), MAX_MESSAGE);
        let context = CallContext {
            // The generated client returns only a 2xx in this way.
            status: is_failure.then_some(200),
            message: message(body, redactor).filter(|_| is_failure),
            excerpt: excerpt(body, redactor),
            source: Some(problem.into()),
            ..CallContext::default()
        };
        Self::new(if is_failure { Failure::Permanent } else { Failure::Undecodable }, context)
    }
}

fn open<T>(response: ResponseValue<Envelope<T>>, redactor: &Redactor) -> Result<(u16, T), Fault> {
    let status = response.status().as_u16();
    if response.is_success() {
        return Ok((status, response.into_inner().data));
    }
    let request_id = request_id(response.headers(), redactor);
    let message = response.into_inner().message.map(|message| redactor.foreign(&message, MAX_MESSAGE));
    let context = CallContext { status: Some(status), request_id, message, ..CallContext::default() };
    Err(Fault::new(Failure::Permanent, context))
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
