//! Errors of calls: context of a failed call, and of a create of unknown outcome.

use std::error::Error as StdError;
use std::fmt;
use std::iter::successors;
use std::time::Duration;

use inferstore_api::types::TaskId;
use inferstore_api::{BodyTooLarge, Operation, Safety, operations};

use crate::transport::redact::{cut, printable_id, without_markup};

/// Operation of [`Client::request`](crate::Client::request), which the document does not list.
pub(crate) const OTHER_REQUEST: &str = "the request";

/// Context of a failed call; as the cause of an [`Error`](crate::Error), prints the failure of the last attempt.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct CallContext {
    /// Identifier of the operation in the OpenAPI document.
    pub operation: &'static str,
    /// Status of the response, if any. A 2xx can be a failure too, by its body.
    pub status: Option<u16>,
    /// Message of the service, redacted, if the body had one.
    pub message: Option<String>,
    /// Beginning of the body, redacted, at most 2,000 characters.
    pub excerpt: Option<String>,
    /// Identifier of the request by the service or a proxy, if any.
    pub request_id: Option<String>,
    /// Delay that the service requested before the next attempt.
    pub retry_after: Option<Duration>,
    /// Number of attempts.
    pub attempts: u32,
    /// Duration of all attempts together.
    pub elapsed: Duration,
    /// True if the exhausted [retry budget](crate::Retry::budget) of the client prevented a retry.
    pub is_budget_exhausted: bool,
    /// True if a retry of the call cannot have an effect twice.
    pub is_retry_safe: bool,
    /// Task of the call.
    pub task: Option<TaskId>,
    /// True if the response announces idempotency keys, as the service does and a gateway before it does not.
    pub(crate) is_of_service: bool,
    /// Base URL that a redirect leads to, redacted. The client follows none: it would show the key.
    pub(crate) moved_to: Option<String>,
    /// True if nothing of the last attempt reached the service.
    pub(crate) is_unsent: bool,
    /// True if the certificate of the service is refused: no retry changes that.
    pub(crate) is_certificate_refused: bool,
    /// True if an attempt may have had its effect, and only its response was lost.
    pub(crate) is_in_doubt: bool,
    pub(crate) source: Option<Box<dyn StdError + Send + Sync>>,
}

/// Kind of resource of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Resource {
    /// Account that owns the API key.
    Account,
    /// Model, also for creating a task of it.
    Model,
    /// Task, or the task history.
    Task,
    /// Stored file, its folder, or an upload target.
    File,
}

/// Returns true if no connection was made because of the certificate. The texts are of the TLS library.
pub(crate) fn is_certificate_refused(error: &reqwest::Error) -> bool {
    let mut causes = successors(error.source(), |cause| (*cause).source());
    error.is_connect() && causes.any(|cause| cause.to_string().contains("certificate"))
}

impl CallContext {
    /// Makes the context of a failure, for tests.
    pub fn new(operation: &'static str, status: Option<u16>) -> Self {
        Self { operation, status, attempts: 1, ..Self::default() }
    }

    /// Returns the type of resource of the operation. `None` for a request that the document does not list.
    pub fn resource(&self) -> Option<Resource> {
        const PATHS: [(&str, Resource); 4] = [
            ("/balance", Resource::Account),
            ("/model", Resource::Model),
            ("/storage", Resource::File),
            ("/task", Resource::Task),
        ];
        let path = self.listed()?.path;
        PATHS.into_iter().find_map(|(part, resource)| path.contains(part).then_some(resource))
    }

    fn listed(&self) -> Option<&'static Operation> {
        operations::ALL.iter().find(|operation| operation.id == self.operation).copied()
    }

    /// Returns true if a 404 means a missing resource named by the call; otherwise the address is wrong.
    fn names_something(&self) -> bool {
        self.listed().is_some_and(|listed| listed.path.contains('{') || *listed == operations::DELETE_FILE)
    }

    fn is_read(&self) -> bool {
        self.listed().is_some_and(|listed| listed.safety == Safety::Repeatable)
    }

    pub(super) fn hint(&self) -> &'static str {
        match self.status {
            _ if self.moved_to.is_some() => {
                "use the address that the message names as the base URL, if it is that of the service"
            }
            Some(401) => "check the API key, and that the base URL leads to its service",
            Some(402) => "top up the balance, or raise the limit that the message names",
            Some(404) if self.operation == OTHER_REQUEST => "check the path",
            Some(404) if self.names_something() => "check the identifier",
            Some(404) => CHECK_BASE_URL,
            Some(409) => "read the message of the service; the present state does not allow the call",
            Some(408 | 429 | 500..) if self.is_retry_safe => "try again later",
            Some(408 | 500..) if self.is_read() => {
                "try again later, or report it to the operator of the service"
            }
            Some(429 | 503) => "try again later, if the service promises that a rejected call has no effect",
            Some(408 | 500..) => "check whether the call had its effect before sending it again",
            _ => "fix what the service names, or the arguments; the same call fails again",
        }
    }

    pub(super) fn decode_hint(&self) -> &'static str {
        match self.operation {
            _ if self.is_too_large() => "raise max_response_size in the settings of the client",
            OTHER_REQUEST => "check the path",
            _ => CHECK_BASE_URL,
        }
    }

    pub(super) fn rejection(&self) -> String {
        let status = self.status.filter(|status| !(200..300).contains(status));
        let status = status.map(|status| format!(" with {status}")).unwrap_or_default();
        let reason = match (&self.message, &self.excerpt) {
            _ if let Some(url) = &self.moved_to => format!(": the base URL redirects to {url}"),
            (Some(message), _) => format!(": {message}"),
            (None, Some(excerpt)) => format!(": {}", cut(&without_markup(excerpt), 200)),
            (None, None) if self.status == Some(401) => ": the API key is missing or wrong".to_owned(),
            (None, None) => String::new(),
        };
        format!("{} failed{status}{reason}", self.operation)
    }

    pub(super) fn attempts(&self) -> String {
        let mut text = String::new();
        if self.attempts > 1 {
            text += &format!(" (after {} attempts in {:.1} s)", self.attempts, self.elapsed.as_secs_f64());
        }
        if self.is_budget_exhausted {
            text += " (the retry budget is exhausted)";
        }
        text
    }

    pub(crate) fn is_too_large(&self) -> bool {
        self.source.as_deref().is_some_and(|source| is_too_large(source))
    }

    pub(crate) fn is_permanent(&self) -> bool {
        matches!(self.status, Some(400..=407 | 409..=428 | 430..=499))
    }

    /// Returns true if the call may have had its effect: a gateway lost the response, or the service failed late.
    pub(crate) fn is_ambiguous(&self) -> bool {
        self.status.is_some_and(|status| status == 408 || status >= 500)
    }
}

const CHECK_BASE_URL: &str =
    "check that the base URL leads to the service and ends in its versioned root, such as /api/v1";

pub(crate) fn is_too_large(error: &(dyn StdError + 'static)) -> bool {
    successors(Some(error), |&cause| cause.source()).any(|cause| cause.is::<BodyTooLarge>())
}

impl fmt::Display for CallContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) => source.fmt(f),
            None => f.write_str("the cause is unknown"),
        }
    }
}

impl StdError for CallContext {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref()?.source()
    }
}

/// Create that was sent, and whose task may exist or not.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct UnknownOutcome {
    /// Context of the failed call.
    pub context: CallContext,
    /// Tasks in the history that may be of the create, newest last. Empty if the history is unreadable or has none.
    pub candidates: Vec<TaskId>,
    /// Extent to which the task history was read.
    pub history: HistoryRead,
    /// True for a [prepared run](crate::PreparedRun), whose create only an earlier process may have sent.
    pub is_prepared: bool,
}

/// Extent to which the task history was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HistoryRead {
    /// All of it. Without a candidate, most likely no task was created.
    Complete,
    /// A part: the history is too long, or the inputs of some tasks are unreadable.
    Partial,
    /// Nothing: reading failed.
    Unreadable,
    /// Nothing: the create was retried with its idempotency key instead, without a response.
    #[default]
    NotRead,
}

impl UnknownOutcome {
    pub(super) fn hint(&self) -> &'static str {
        match (self.is_prepared, self.candidates.is_empty()) {
            (true, true) if self.history != HistoryRead::Partial => {
                "call adopt_or_start again later: it finds the task, or creates it once"
            }
            (true, _) => {
                "look for the task in the history; prepare the run again only if none there is its task"
            }
            (_, true) => {
                "look for the task in the history before creating it again: a second task is billed too"
            }
            (_, false) => {
                "look at the candidates before creating the task again: a second task is billed too"
            }
        }
    }
}

impl fmt::Display for UnknownOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.context.status {
            _ if self.is_prepared => {
                f.write_str("whether the prepared run has become a task is unknown: ")?;
            }
            Some(300..) => {
                write!(f, "{}; whether a task was created is unknown: ", self.context.rejection())?;
            }
            _ => f.write_str("createTask got no usable response; whether a task was created is unknown: ")?,
        }
        match (&self.candidates[..], self.history) {
            ([], HistoryRead::Complete) => f.write_str("the task history shows no matching task"),
            ([], HistoryRead::Partial) => f.write_str("the task history was read in part only"),
            ([], HistoryRead::Unreadable) => f.write_str("the task history could not be read"),
            ([], HistoryRead::NotRead) => f.write_str("the service has not confirmed its idempotency key"),
            (candidates, _) => {
                let names: Vec<_> = candidates.iter().map(|task| printable_id(task.as_str())).collect();
                write!(f, "it may be {}", names.join(" or "))
            }
        }
    }
}

impl StdError for UnknownOutcome {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self.context.source.as_deref()?)
    }
}
