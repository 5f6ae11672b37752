//! The one funnel through which every call to the API goes: send, decide on a repeat, open the
//! envelope, turn every failure into an [`Error`].

use std::error::Error as StdError;
use std::time::Duration;

use inferstore_api::types::{EnvelopeStatus, TaskId};
use inferstore_api::{Error as RawError, ResponseValue};
use reqwest::header::HeaderMap;
use tokio::time::{Instant, sleep};
use tracing::{Instrument, Span, debug, debug_span, field};

use crate::client::Inner;
use crate::transport::deadline::Deadline;
use crate::transport::envelope::Envelope;
use crate::transport::error::{CallContext, Error, Result};
use crate::transport::redact::redact;
use crate::transport::retry::{self, Failure, Safety};

/// How much of a body an error keeps.
const EXCERPT: usize = 2 * 1024;

/// How much of a failed answer is read to find its message.
const READ_OF_A_FAILURE: usize = 64 * 1024;

/// How long that may take; the failure is known without it.
const TIME_FOR_A_FAILURE: Duration = Duration::from_secs(5);

/// Headers in which services and proxies name a request.
const REQUEST_ID_HEADERS: [&str; 4] = ["x-request-id", "request-id", "x-correlation-id", "cf-ray"];

/// A call, as the file of its noun describes it.
pub(crate) struct Call {
    pub(crate) operation: &'static str,
    pub(crate) safety: Safety,
    /// When the whole call must be over, repeats included.
    pub(crate) deadline: Deadline,
    /// The task that it is about.
    pub(crate) task: Option<TaskId>,
    /// Whether the clock of the service is set by its answer.
    sets_clock: bool,
}

impl Call {
    /// A call that may be repeated.
    pub(crate) fn repeatable(operation: &'static str) -> Self {
        Self::new(operation, Safety::Repeatable)
    }

    /// A call that is sent once.
    pub(crate) fn once(operation: &'static str) -> Self {
        Self::new(operation, Safety::OnceSent)
    }

    pub(crate) fn new(operation: &'static str, safety: Safety) -> Self {
        Self { operation, safety, deadline: Deadline::never(), task: None, sets_clock: false }
    }

    pub(crate) fn until(self, deadline: Deadline) -> Self {
        Self { deadline, ..self }
    }

    pub(crate) fn about(self, task: &TaskId) -> Self {
        Self { task: Some(task.clone()), ..self }
    }

    pub(crate) fn setting_the_clock(self) -> Self {
        Self { sets_clock: true, ..self }
    }

    /// Sends the call, as often as its safety, the budget and the deadline allow.
    pub(crate) async fn send<E, Sent>(self, client: &Inner, send: impl Fn() -> Sent) -> Result<E::Data>
    where
        E: Envelope,
        Sent: Future<Output = Result<ResponseValue<E>, RawError>>,
    {
        let span = debug_span!(
            "inferstore",
            operation = self.operation,
            attempts = field::Empty,
            status = field::Empty
        );
        // Boxed, so that whatever waits for a call stays small.
        Box::pin(self.attempts(client, send, &span)).instrument(span.clone()).await
    }

    async fn attempts<E, Sent>(self, client: &Inner, send: impl Fn() -> Sent, span: &Span) -> Result<E::Data>
    where
        E: Envelope,
        Sent: Future<Output = Result<ResponseValue<E>, RawError>>,
    {
        let started = Instant::now();
        let mut attempts = 0;
        loop {
            attempts += 1;
            let fault = match self.attempt(client, send()).await? {
                Ok((status, data)) => {
                    client.budget.earn();
                    span.record("attempts", attempts).record("status", status);
                    return Ok(data);
                }
                Err(fault) => fault,
            };
            span.record("attempts", attempts).record("status", fault.seen.status);
            debug!(attempt = attempts, status = fault.seen.status, failure = ?fault.failure, "the call failed");
            let Some(pause) = self.pause_before_repeat(client, &fault, attempts) else {
                return Err(self.give_up(fault, attempts, started));
            };
            sleep(pause).await;
        }
    }

    /// The status and the payload, or how it failed; an error if the call cannot be sent at all.
    async fn attempt<E: Envelope>(
        &self,
        client: &Inner,
        sent: impl Future<Output = Result<ResponseValue<E>, RawError>>,
    ) -> Result<Result<(u16, E::Data), Fault>> {
        match self.deadline.cut(sent).await {
            Some(Ok(answer)) => {
                if self.sets_clock {
                    client.clock.set_by(answer.headers());
                }
                Ok(open(answer))
            }
            Some(Err(error)) => Fault::read(error, client, self.deadline).await.map(Err),
            None => Ok(Err(Fault::because(Failure::Lost, "the time was up"))),
        }
    }

    /// How long to wait before sending it again, or `None` if it must not be, or there is no time.
    fn pause_before_repeat(&self, client: &Inner, fault: &Fault, attempts: u32) -> Option<Duration> {
        let is_safe = self.safety.allows_repeat_after(fault.failure);
        is_safe.then(|| client.pause_before_repeat(attempts, fault.retry_after, self.deadline))?
    }

    fn give_up(self, fault: Fault, attempts: u32, started: Instant) -> Error {
        let context = Box::new(CallContext {
            operation: self.operation,
            attempts,
            elapsed: started.elapsed(),
            is_retry_safe: self.safety.allows_repeat_after(fault.failure),
            task: self.task,
            ..*fault.seen
        });
        match fault.failure {
            Failure::Status(401) => Error::Unauthorized(context),
            Failure::Status(_) | Failure::Permanent => Error::Api(context),
            Failure::NothingSent | Failure::Lost => Error::Transport(context),
            Failure::Unreadable => Error::Decode(context),
        }
    }
}

/// One failed attempt.
struct Fault {
    failure: Failure,
    retry_after: Option<Duration>,
    /// What is seen of it from here; the call knows the rest.
    seen: Box<CallContext>,
}

impl Fault {
    fn new(failure: Failure, seen: CallContext) -> Self {
        Self { failure, retry_after: None, seen: Box::new(seen) }
    }

    /// Something else went wrong on the way.
    fn because(failure: Failure, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::new(failure, CallContext { source: Some(source.into()), ..CallContext::default() })
    }

    /// Reads a failure of the generated client; `Err` if nothing of it concerns the network.
    async fn read(error: RawError, client: &Inner, deadline: Deadline) -> Result<Self> {
        Ok(match error {
            RawError::UnexpectedResponse(response) => Self::answered(response, client, deadline).await,
            RawError::InvalidResponsePayload(body, error) => Self::unreadable(&body, error, client),
            RawError::CommunicationError(error) => Self::transport(error)?,
            RawError::ResponseBodyError(error) | RawError::InvalidUpgrade(error) => {
                Self::because(Failure::Lost, error.without_url())
            }
            RawError::InvalidRequest(problem) | RawError::Custom(problem) => {
                return Err(Error::InvalidArgument(problem));
            }
            // The document declares no failure for the generator, so there is none of this kind.
            RawError::ErrorResponse(answer) => {
                let status = answer.status().as_u16();
                Self::new(
                    Failure::Status(status),
                    CallContext { status: Some(status), ..CallContext::default() },
                )
            }
        })
    }

    fn transport(error: reqwest::Error) -> Result<Self> {
        let error = error.without_url();
        if error.is_builder() {
            return Err(Error::InvalidArgument(format!("the request cannot be built: {error}")));
        }
        let failure = if error.is_connect() { Failure::NothingSent } else { Failure::Lost };
        Ok(Self::because(failure, error))
    }

    async fn answered(response: reqwest::Response, client: &Inner, deadline: Deadline) -> Self {
        let status = response.status().as_u16();
        let request_id = request_id(response.headers());
        let retry_after = retry::retry_after(response.headers());
        let body = beginning(response, READ_OF_A_FAILURE, deadline).await;
        let seen = CallContext {
            status: Some(status),
            request_id,
            message: message(&body).map(|message| redact(&message, client.key.expose())),
            excerpt: excerpt(&body, client.key.expose()),
            ..CallContext::default()
        };
        Self { retry_after, ..Self::new(Failure::Status(status), seen) }
    }

    /// A 2xx that is no answer of the operation: a failure in an envelope, or something else.
    fn unreadable(body: &[u8], error: serde_json::Error, client: &Inner) -> Self {
        let key = client.key.expose();
        let refused = serde_json::from_slice::<serde_json::Value>(body).is_ok_and(|json| {
            json["status"].is_string() && json["status"] != EnvelopeStatus::Success.as_str()
        });
        let failure = if refused { Failure::Permanent } else { Failure::Unreadable };
        let seen = CallContext {
            message: message(body).filter(|_| refused).map(|message| redact(&message, key)),
            excerpt: excerpt(body, key),
            source: Some(error.into()),
            ..CallContext::default()
        };
        Self::new(failure, seen)
    }
}

fn open<E: Envelope>(answer: ResponseValue<E>) -> Result<(u16, E::Data), Fault> {
    let status = answer.status().as_u16();
    if answer.is_success() {
        return Ok((status, answer.into_inner().open().1));
    }
    let (status, request_id) = (Some(status), request_id(answer.headers()));
    let (message, _) = answer.into_inner().open();
    Err(Fault::new(Failure::Permanent, CallContext { status, request_id, message, ..CallContext::default() }))
}

fn request_id(headers: &HeaderMap) -> Option<String> {
    REQUEST_ID_HEADERS.iter().find_map(|name| Some(headers.get(*name)?.to_str().ok()?.to_owned()))
}

/// As much of a body as matters, however slowly it comes and however it ends.
pub(crate) async fn beginning(mut response: reqwest::Response, limit: usize, deadline: Deadline) -> Vec<u8> {
    let enough = Deadline::after(Some(TIME_FOR_A_FAILURE)).or_earlier(deadline);
    let mut body = Vec::new();
    while body.len() < limit
        && let Some(Ok(Some(chunk))) = enough.cut(response.chunk()).await
    {
        body.extend_from_slice(&chunk[..chunk.len().min(limit - body.len())]);
    }
    body
}

fn message(body: &[u8]) -> Option<String> {
    let json: serde_json::Value = serde_json::from_slice(body).ok()?;
    json["message"].as_str().map(str::to_owned)
}

fn excerpt(body: &[u8], key: &str) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    let text = redact(text.trim(), key);
    let end = (0..=EXCERPT.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    (end > 0).then(|| text[..end].to_owned())
}
