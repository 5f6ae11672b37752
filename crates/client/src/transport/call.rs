//! Single path of every API call: sends, retries, unwraps the envelope, and converts failures to [`Error`].

use std::error::Error as StdError;
use std::pin::{Pin, pin};
use std::time::{Duration, SystemTime};

use inferstore_api::types::{EnvelopeStatus, TaskId};
use inferstore_api::{Envelope, Error as RawError, Operation, ResponseValue, Safety};
use reqwest::header::{HeaderMap, LOCATION};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;
use tracing::{Instrument, Span, debug, debug_span, field};

use crate::transport::error::{OTHER_REQUEST, is_certificate_refused, is_too_large};
use crate::transport::middleware::Attempt;
use crate::transport::redact::MAX_INPUT;
use crate::transport::{
    CallContext, Core, Deadline, Error, KEY_RETENTION, MAX_MESSAGE, Redactor, Result, retry,
};

const MAX_EXCERPT: usize = 2_000;

/// Largest body of a failure that is read for its message, in bytes.
const MAX_ERROR_BODY: usize = MAX_INPUT;

const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout of an attempt, as a multiple of the read timeout, which a dripping response never reaches.
const ATTEMPT_SHARE: u32 = 10;

const REQUEST_ID_HEADERS: [&str; 4] = ["x-request-id", "request-id", "x-correlation-id", "cf-ray"];

pub(crate) struct Call<'a> {
    core: &'a Core,
    operation: &'static str,
    safety: Safety,
    deadline: Deadline,
    task: Option<TaskId>,
    has_idempotency_key: bool,
    is_wanted: &'a IsWanted<'a>,
}

/// Returns true while the caller waits for the call. Checked before each attempt.
pub(crate) type IsWanted<'a> = dyn Fn() -> bool + Sync + 'a;

impl Core {
    pub(crate) fn call(&self, operation: Operation) -> Call<'_> {
        self.call_unlisted(operation.id, operation.safety)
    }

    pub(crate) fn call_unlisted(&self, operation: &'static str, safety: Safety) -> Call<'_> {
        Call {
            core: self,
            operation,
            safety,
            deadline: Deadline::never(),
            task: None,
            has_idempotency_key: false,
            is_wanted: &|| true,
        }
    }
}

impl<'a> Call<'a> {
    pub(crate) fn until(self, deadline: Deadline) -> Self {
        Self { deadline, ..self }
    }

    pub(crate) fn about(self, task: &TaskId) -> Self {
        Self { task: Some(task.clone()), ..self }
    }

    /// Retries the call like a read if the service supports idempotency keys, until the caller stops waiting.
    pub(crate) fn with_idempotency_key(self, is_wanted: &'a IsWanted<'a>) -> Self {
        Self { has_idempotency_key: true, is_wanted, ..self }
    }

    pub(crate) async fn send<T, Sent>(self, send: impl Fn(&'a inferstore_api::Client) -> Sent) -> Result<T>
    where
        Sent: Future<Output = Result<ResponseValue<Envelope<T>>, RawError>>,
    {
        let span = debug_span!(
            "inferstore",
            otel.name = self.operation,
            otel.kind = "client",
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
        let sent_at = SystemTime::now();
        // True if a failed attempt may have had its effect.
        let mut is_in_doubt = false;
        let mut last = 0;
        loop {
            debug_assert!(attempts.count > last, "an attempt has the number of an earlier one");
            last = attempts.count;
            // Pinned here: each function that takes the future by value would copy its kilobytes.
            let sent = pin!(send(&core.api));
            let mut error = match self.attempt(sent, attempts.count, is_in_doubt).await {
                Ok((status, data)) => {
                    retries.succeeded();
                    span.record("attempts", attempts.count).record("status", status);
                    return Ok(data);
                }
                Err(error) => error,
            };
            // A path without an operation may lead to a page, which never becomes JSON.
            let is_page = self.operation == OTHER_REQUEST && matches!(error, Error::Decode(_));
            // The steady clock stands still while the machine is suspended.
            let age = attempts.started.elapsed().max(sent_at.elapsed().unwrap_or_default());
            let is_keyed = self.has_idempotency_key && core.remembers_key(age);
            let safety = if is_keyed { Safety::Repeatable } else { self.safety };
            let may_retry = !is_page && retry::may_retry(safety, &error);
            // With an idempotency key, every ambiguous failure is retried.
            let is_ambiguous = error.may_have_had_effect() && !error.is_certificate_refused();
            let may_retry = may_retry || is_keyed && is_ambiguous;
            is_in_doubt |= error.may_have_had_effect();
            debug_assert!(
                !may_retry || safety == Safety::Repeatable || !error.may_have_had_effect(),
                "a call that may have had an effect is sent again, although it is not idempotent",
            );
            let may_retry = may_retry && (is_in_doubt || (self.is_wanted)());
            // An invalid argument was not sent and has no context.
            let Some(context) = error.context_mut() else { return Err(error) };
            span.record("attempts", attempts.count).record("status", context.status);
            let cause = context.source.as_deref().map(field::display);
            debug!(attempt = attempts.count, status = context.status, cause, "the call failed");
            let until = self.deadline.at.or_else(|| attempts.started.checked_add(core.memory.settle_time));
            let left = until.filter(|_| is_keyed && is_in_doubt);
            let left = left.map(|until| until.saturating_duration_since(Instant::now()));
            if !may_retry || !attempts.backoff(context.retry_after, left).await {
                context.operation = self.operation;
                context.attempts = attempts.count;
                context.elapsed = attempts.started.elapsed();
                context.is_budget_exhausted = attempts.is_budget_exhausted;
                context.is_retry_safe = may_retry;
                context.is_in_doubt = is_in_doubt;
                context.task = self.task;
                return Err(error);
            }
        }
    }

    async fn attempt<T>(
        &self,
        sent: Pin<&mut impl Future<Output = Result<ResponseValue<Envelope<T>>, RawError>>>,
        number: u32,
        is_in_doubt: bool,
    ) -> Result<(u16, T)> {
        let unsent = |problem: &str| {
            Err(Error::Transport(Box::new(CallContext { is_unsent: true, ..because(problem) })))
        };
        if self.deadline.is_over() {
            return unsent("the deadline passed before a request was sent");
        }
        // The task of a create that may have been sent must be known, so that it can be canceled.
        if !is_in_doubt && !(self.is_wanted)() {
            return unsent("the caller has stopped waiting");
        }
        let longest = self.core.timeouts.read.saturating_mul(ATTEMPT_SHARE);
        let limit = self.deadline.or_earlier(Deadline::after(Some(longest)));
        let stack = &self.core.storage;
        let sent = stack.within(Attempt { operation: self.operation, number }, sent);
        match limit.timeout(sent).await {
            Some(Ok(response)) => {
                self.core.note_response(response.status(), response.headers());
                open(response, &self.core.redactor)
            }
            // Boxed: failures are rare, and the future of every call would contain this one.
            Some(Err(error)) => Err(Box::pin(self.failure(error)).await),
            None => {
                let mut problem = format!("it was not complete after {:.1} s", longest.as_secs_f64());
                if self.deadline.is_over() {
                    problem = "the deadline passed".to_owned();
                }
                Err(Error::Transport(Box::new(because(problem))))
            }
        }
    }

    /// Returns the base URL that a redirect leads to.
    fn moved_to(&self, response: &reqwest::Response) -> Option<String> {
        let header = response.headers().get(LOCATION).filter(|_| response.status().is_redirection());
        let location = header?.to_str().ok()?;
        let [from, to] = [response.url().clone(), response.url().join(location).ok()?].map(|mut url| {
            url.set_query(None);
            url.set_fragment(None);
            String::from(url)
        });
        let call = from.strip_prefix(&self.core.base_url)?;
        Some(self.core.redactor.foreign(to.strip_suffix(call).unwrap_or(&to), 200))
    }

    async fn failure(&self, error: RawError) -> Error {
        let redactor = &self.core.redactor;
        match error {
            RawError::UnexpectedResponse(response) => {
                let status = response.status();
                self.core.note_response(status, response.headers());
                let request_id = request_id(response.headers(), redactor);
                let retry_after = retry::retry_after(response.headers());
                let is_of_service = response.headers().contains_key(KEY_RETENTION);
                let moved_to = self.moved_to(&response);
                let body = read_error_body(response, self.deadline).await;
                let context = context_of(status.as_u16(), &body, redactor);
                Error::Api(Box::new(CallContext {
                    request_id,
                    retry_after,
                    is_of_service,
                    moved_to,
                    ..context
                }))
            }
            RawError::InvalidResponsePayload(body, error) => undecodable(&body, &error, redactor),
            RawError::CommunicationError(error) if error.is_builder() => {
                Error::InvalidArgument(format!("the request cannot be built: {}", error.without_url()))
            }
            RawError::CommunicationError(error) => {
                // A middleware may have sent the request before this error, so it proves nothing.
                let is_unsent = error.is_connect() && self.core.storage.middleware.is_empty();
                let is_certificate_refused = is_certificate_refused(&error);
                let context = because(error.without_url());
                Error::Transport(Box::new(CallContext { is_unsent, is_certificate_refused, ..context }))
            }
            RawError::ResponseBodyError(error) | RawError::InvalidUpgrade(error) => {
                let kind = if is_too_large(&error) { Error::Decode } else { Error::Transport };
                kind(Box::new(because(error.without_url())))
            }
            RawError::InvalidRequest(problem) | RawError::Custom(problem) => Error::InvalidArgument(problem),
            // The document declares no typed failure, so the generator makes no such error.
            RawError::ErrorResponse(_) => Error::Api(Box::default()),
        }
    }
}

/// Makes the context of a failed attempt; the call adds the rest.
fn because(source: impl Into<Box<dyn StdError + Send + Sync>>) -> CallContext {
    CallContext { source: Some(source.into()), ..CallContext::default() }
}

/// Makes the error of an undecodable 2xx: a failure in an envelope, or a foreign response.
fn undecodable(body: &[u8], error: &serde_json::Error, redactor: &Redactor) -> Error {
    // The generated client returns only a 2xx in this way.
    let context = context_of(200, body, redactor);
    let Failure { status, .. } = serde_json::from_slice(body).unwrap_or_default();
    if status.as_str().is_some_and(|status| status != EnvelopeStatus::Success.as_str()) {
        return Error::Api(Box::new(context));
    }
    // The parser quotes values of the body.
    let problem = redactor.foreign(&error.to_string(), MAX_MESSAGE);
    Error::Decode(Box::new(CallContext { excerpt: context.excerpt, ..because(problem) }))
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

/// Reads the beginning of a body, bounded in size and time, even if it is incomplete.
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

/// Members of a failure; serde skips the rest of its body, which may be large.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Failure {
    status: Value,
    message: Value,
}

fn context_of(status: u16, body: &[u8], redactor: &Redactor) -> CallContext {
    let Failure { message, .. } = serde_json::from_slice(body).unwrap_or_default();
    let message = message.as_str().map(|message| redactor.foreign(message, MAX_MESSAGE));
    let beginning = &body[..body.len().min(MAX_ERROR_BODY)];
    let excerpt = redactor.foreign(&String::from_utf8_lossy(beginning), MAX_EXCERPT);
    let excerpt = Some(excerpt).filter(|excerpt| !excerpt.is_empty());
    CallContext { status: Some(status), message, excerpt, ..CallContext::default() }
}
