//! Errors of calls: what is known of a failed call, and of a create whose outcome is unknown.

use std::error::Error as StdError;
use std::fmt;
use std::iter::successors;
use std::time::Duration;

use inferstore_api::types::TaskId;
use inferstore_api::{BodyTooLarge, Operation, Safety, operations};

use crate::transport::redact::{cut, shown};

/// The operation of [`Client::request`](crate::Client::request), which the document does not list.
pub(crate) const OTHER_REQUEST: &str = "the request";

/// Context of a failed call.
///
/// As the cause of an [`Error`](crate::Error) it prints what broke the last attempt.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct CallContext {
    /// The operation, by its identifier in the OpenAPI document.
    pub operation: &'static str,
    /// The status of the response, if one came. A 2xx can be a failure too: its body says so.
    pub status: Option<u16>,
    /// The message of the service, redacted, if the body had one.
    pub message: Option<String>,
    /// The beginning of the body, redacted, at most 2,000 characters.
    pub excerpt: Option<String>,
    /// The identifier that the service or a proxy gave the request, if any.
    pub request_id: Option<String>,
    /// Delay that the service asked for before the next attempt.
    pub retry_after: Option<Duration>,
    /// Number of attempts.
    pub attempts: u32,
    /// Duration of all attempts together.
    pub elapsed: Duration,
    /// Whether it was not sent again because the [retry budget](crate::Retry::budget) of the client was exhausted.
    pub is_budget_exhausted: bool,
    /// Whether the same call can be sent again without having an effect twice.
    pub is_retry_safe: bool,
    /// The task that the call was about.
    pub task: Option<TaskId>,
    /// Whether nothing of the last attempt reached the service.
    pub(crate) is_unsent: bool,
    /// Whether the service may have done what one of the attempts asked for, and only the response was lost.
    pub(crate) is_in_doubt: bool,
    pub(crate) source: Option<Box<dyn StdError + Send + Sync>>,
}

/// The kinds of things that the service manages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Resource {
    /// The account that owns the API key.
    Account,
    /// A model, also when a task of it is created.
    Model,
    /// A task, or the task history.
    Task,
    /// A stored file, its folder, or an upload target.
    File,
}

impl CallContext {
    /// A failure of this operation, for tests of code that handles errors.
    pub fn new(operation: &'static str, status: Option<u16>) -> Self {
        Self { operation, status, attempts: 1, ..Self::default() }
    }

    /// The kind of thing that the operation is about. `None` for a request that the document does not list.
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

    /// Returns whether a 404 says that something is missing that the call named; otherwise the address is wrong.
    fn names_something(&self) -> bool {
        self.listed().is_some_and(|listed| listed.path.contains('{') || *listed == operations::DELETE_FILE)
    }

    fn is_read(&self) -> bool {
        self.listed().is_some_and(|listed| listed.safety == Safety::Repeatable)
    }

    /// Returns the advice after a failure with a status.
    pub(super) fn hint(&self) -> &'static str {
        match self.status {
            Some(401) => "check the API key, and that the base URL leads to its service",
            Some(402) => "top up the balance of the account",
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

    /// Returns the advice after a response that cannot be decoded.
    pub(super) fn decode_hint(&self) -> &'static str {
        match self.operation {
            _ if self.is_too_large() => "raise max_response_size in the settings of the client",
            OTHER_REQUEST => "check the path",
            _ => CHECK_BASE_URL,
        }
    }

    /// The service responded with a failure: the status and the message.
    pub(super) fn rejection(&self) -> String {
        let status = self.status.filter(|status| !(200..300).contains(status));
        let status = status.map(|status| format!(" with {status}")).unwrap_or_default();
        let reason = match (&self.message, &self.excerpt) {
            (Some(message), _) => format!(": {message}"),
            (None, Some(excerpt)) => format!(": {}", cut(excerpt, 200)),
            (None, None) if self.status == Some(401) => ": the API key is missing or wrong".to_owned(),
            (None, None) => String::new(),
        };
        format!("{} failed{status}{reason}", self.operation)
    }

    /// Returns the number of attempts in parentheses, unless it is one.
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

    /// Returns the cause of the last failure, such as an error of the HTTP library.
    pub fn cause(&self) -> Option<&(dyn StdError + Send + Sync + 'static)> {
        self.source.as_deref()
    }

    /// Returns whether the response was larger than the limit.
    pub(crate) fn is_too_large(&self) -> bool {
        self.source.as_deref().is_some_and(|source| is_too_large(source))
    }

    /// Returns whether the service refused the call for good: a 4xx other than 408 and 429.
    pub(crate) fn is_permanent(&self) -> bool {
        matches!(self.status, Some(400..=407 | 409..=428 | 430..=499))
    }

    /// Returns whether the service may have had its effect all the same: a gateway lost the response, or the
    /// service failed after it began.
    pub(crate) fn is_ambiguous(&self) -> bool {
        self.status.is_some_and(|status| status == 408 || status >= 500)
    }
}

const CHECK_BASE_URL: &str =
    "check that the base URL leads to the service and ends in its versioned root, such as /api/v1";

/// Returns whether the response was larger than the limit.
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

/// A create that was sent, and may have created a task or not.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct UnknownOutcome {
    /// The call that failed.
    pub context: CallContext,
    /// Tasks in the history that may be the one, newest last. Empty when the history could not be
    /// read, or shows none.
    pub candidates: Vec<TaskId>,
    /// Extent to which the task history could be read.
    pub history: HistoryRead,
    /// Whether a [prepared run](crate::PreparedRun) was looked for, which an earlier process may have sent. This process
    /// sent nothing.
    pub is_prepared: bool,
}

/// Extent to which the task history could be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HistoryRead {
    /// All of it. If there is no candidate, most likely no task was created.
    Complete,
    /// A part: it is too long to be searched, or the inputs of some tasks in it could not be read.
    Partial,
    /// Nothing: reading it failed.
    Unreadable,
    /// Nothing: the create was sent again with its idempotency key instead, and no response came.
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
                let names: Vec<_> = candidates.iter().map(|task| shown(task.as_str())).collect();
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
