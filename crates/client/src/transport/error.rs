//! Errors: the failure, its context, its class, and a hint.

mod call;
mod input;

use std::error::Error as StdError;
use std::fmt;
use std::iter::successors;
use std::time::Duration;

use inferstore_api::types::{ModelId, TaskId, TaskStatus};
use inferstore_api::{Decimal, operations};
use serde_json::Value;

pub use self::call::{CallContext, HistoryRead, Resource, UnknownOutcome};
pub(crate) use self::call::{OTHER_REQUEST, is_certificate_refused, is_too_large};
pub use self::input::{FileError, FileErrorKind, InvalidInputs, Violation, ViolationKind};
use crate::transport::redact::{cut, printable_id};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Failure of an operation.
///
/// `Display` is one line without advice, [`hint`](Self::hint) is the advice, and `source()` the cause,
/// which `Display` does not repeat. `Debug` prints all three, so that a `main` that returns this error
/// reports it readably. [`with_causes`](Self::with_causes) is the error and its causes in one line, for a log.
/// [`kind`](Self::kind) is the class of the error, for exit codes and HTTP statuses.
///
/// ```no_run
/// # async fn example(client: inferstore::Client, inputs: inferstore::Inputs) -> Result<(), inferstore::Error> {
/// match client.model("color-harmonization").run(inputs).await {
///     Ok(outcome) => println!("{}", outcome.output),
///     Err(error) if error.is_retryable() => println!("later, in {:?}", error.retry_after()),
///     Err(error) => {
///         eprintln!("{}\nhint: {}", error.with_causes(), error.hint());
///         if let Some(task) = error.task_id() {
///             eprintln!("the task is {task}"); // any process can pick it up again
///         }
///     }
/// }
/// # Ok(())
/// # }
/// ```
///
/// Every error after a task was created carries its identifier. Text of the service in an error is
/// masked, on one line, bounded, and without control characters.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Invalid settings of the client.
    #[error("{0}")]
    Config(String),
    /// Invalid argument. Nothing was sent.
    #[error("{0}")]
    InvalidArgument(String),
    /// Inputs that do not match the declaration of the model. Nothing was sent.
    #[error(transparent)]
    Inputs(InvalidInputs),
    /// File that cannot be read, uploaded, downloaded or written.
    #[error(transparent)]
    File(Box<FileError>),
    /// Failure response of the service.
    #[error("{}{}", .0.rejection(), .0.attempts())]
    Api(Box<CallContext>),
    /// No response, after all safe retries.
    #[error("{} got no response{}", .0.operation, .0.attempts())]
    Transport(#[source] Box<CallContext>),
    /// Undecodable response: not one of this service, or too large.
    #[error("the response to {} cannot be decoded{}", .0.operation, .0.attempts())]
    Decode(#[source] Box<CallContext>),
    /// The response to a create was lost, and the task history does not show its task.
    #[error(transparent)]
    OutcomeUnknown(Box<UnknownOutcome>),
    /// The run exceeds its maximum cost, or the service states no price. Nothing was created.
    #[error(transparent)]
    CostLimitExceeded(Box<CostLimit>),
    /// No node serves the model. No task was created.
    #[error("no node serves the model {}", printable_id(.0.as_str()))]
    ModelOffline(ModelId),
    /// The task ended in `failed`. It is not billed.
    #[error(transparent)]
    TaskFailed(Box<TaskFailure>),
    /// The task ended in `canceled`. It is not billed.
    #[error("the task {} was canceled", printable_id(.0.as_str()))]
    TaskCanceled(TaskId),
    /// The deadline passed.
    #[error(transparent)]
    DeadlineReached(Box<DeadlineReached>),
    /// The output of a task does not have the requested type, or no URL of the requested name.
    #[error(transparent)]
    OutputType(Box<OutputMismatch>),
}

/// Class of an error, for decisions of a program such as its exit code or an HTTP status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Invalid setting of the client.
    Config,
    /// Invalid argument, input or input file. No task was created.
    InvalidInput,
    /// A file, or the content of a download, exceeds its limit.
    TooLarge,
    /// A local file exists already, cannot be written, or changed during its transfer.
    LocalFile,
    /// The price exceeds the limit, or is not stated. No task was created.
    CostLimitExceeded,
    /// No node serves the model. No task was created.
    ModelOffline,
    /// The API key is missing or wrong: `401`.
    Unauthorized,
    /// The balance does not cover the task: `402`.
    InsufficientBalance,
    /// No such model, task, folder or file: `404`.
    NotFound,
    /// The current state does not allow the call: `409`.
    Conflict,
    /// Rate limit of the account: `429`.
    RateLimited,
    /// The service rejected the call for another reason.
    Rejected,
    /// The service, object storage, or a gateway before them, failed: `408` or `5xx`.
    Unavailable,
    /// The service or object storage was unreachable, or its response was lost.
    NoResponse,
    /// A response is not of this service, or exceeds the limit.
    InvalidResponse,
    /// Object storage rejected a transfer.
    StorageRejected,
    /// The task may exist or not.
    OutcomeUnknown,
    /// The task ended in `failed`.
    TaskFailed,
    /// The task ended in `canceled`.
    TaskCanceled,
    /// The deadline passed.
    DeadlineReached,
    /// The output of a successful task does not have the requested type.
    OutputType,
}

/// Price above the limit, or no price to compare with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("{}", match quote {
    Some(quote) => format!("a run costs {quote}, more than the limit of {max_cost}"),
    None => format!("the service states no price to compare with the limit of {max_cost}"),
})]
#[non_exhaustive]
pub struct CostLimit {
    /// Price of a run, if the service states one.
    pub quote: Option<Decimal>,
    /// Maximum cost.
    pub max_cost: Decimal,
}

/// Task that ended in `failed`. It is not billed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the task {} failed{}", printable_id(task.as_str()), self.reason())]
#[non_exhaustive]
pub struct TaskFailure {
    /// Identifier of the task.
    pub task: TaskId,
    /// Description of the failure, redacted.
    pub message: Option<String>,
    /// Detail, `result.error`, with every text in it redacted.
    pub detail: Option<Value>,
}

/// Output that does not have the requested type, or no URL of the requested name.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the output of the task {} does not fit: {problem}", printable_id(task.as_str()))]
#[non_exhaustive]
pub struct OutputMismatch {
    /// Identifier of the task, which succeeded.
    pub task: TaskId,
    /// Output as received.
    pub output: Value,
    /// Reason why the output does not match.
    pub problem: String,
}

/// Disposition of an abandoned task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TaskDisposition {
    /// No task was created: no create was sent.
    #[default]
    NotCreated,
    /// The task was canceled while queued, and is not billed.
    Canceled,
    /// The task is still queued or running, and is billed if it succeeds.
    StillRunning,
    /// The task was queued at the last read, and a cancel got no response in time.
    CancelUnknown,
    /// Unknown: the task could never be read.
    Unknown,
    /// The operation was an upload or a download, without a task.
    NoTask,
}

impl TaskDisposition {
    fn describe(self, task: Option<&TaskId>) -> String {
        let task = task.map(|task| printable_id(task.as_str())).unwrap_or_default();
        match self {
            Self::NotCreated => "no task was created".to_owned(),
            Self::Canceled => format!("the task {task} was canceled while it was queued"),
            Self::CancelUnknown => format!("whether the task {task} was canceled is unknown"),
            Self::StillRunning => format!("the task {task} has not ended"),
            Self::Unknown => format!("the state of the task {task} is unknown"),
            Self::NoTask => "the transfer is not complete".to_owned(),
        }
    }

    fn hint(self) -> &'static str {
        match self {
            Self::NotCreated => "allow more time; no task was created",
            Self::Canceled => "allow more time and run it again; the task was canceled and is not billed",
            Self::CancelUnknown => "read the task to see whether it was canceled",
            Self::StillRunning => "wait for the task again; it is billed if it succeeds",
            Self::Unknown => "check the network, the identifier and the API key, then read the task",
            Self::NoTask => "allow more time and transfer the file again",
        }
    }
}

impl TaskFailure {
    /// Makes a failure with a message, for tests.
    pub fn new(task: impl Into<TaskId>, message: impl Into<String>) -> Self {
        Self { task: task.into(), message: Some(message.into()), detail: None }
    }

    fn hint(&self) -> &'static str {
        let kind = self.detail.as_ref().and_then(|detail| detail["kind"].as_str());
        match kind {
            Some("input") => "fix the input that the message names; the task is not billed",
            Some("limit") => {
                "send less, or ask the operator of the model for a higher limit; the task is not billed"
            }
            Some("model") => {
                "report the message to the operator of the model: its program failed; the task is not billed"
            }
            Some("service") => {
                "run it again later, or report it to the operator of the service; the task is not billed"
            }
            _ => {
                "fix the inputs or the balance if the message names them, otherwise run it again; the task is not billed"
            }
        }
    }

    fn reason(&self) -> String {
        let message = self.message.as_deref().unwrap_or_default();
        let repeats = |value: &Value| value.as_str() == Some(message);
        let detail = match &self.detail {
            None => String::new(),
            Some(detail) if repeats(detail) || repeats(&detail["message"]) => String::new(),
            Some(Value::String(text)) => format!(" ({text})"),
            Some(detail) => format!(" ({})", cut(&detail.to_string(), 500)),
        };
        if message.is_empty() { detail } else { format!(": {message}{detail}") }
    }
}

impl OutputMismatch {
    /// Makes a mismatch, for tests.
    pub fn new(task: impl Into<TaskId>, output: Value, problem: impl Into<String>) -> Self {
        Self { task: task.into(), output, problem: problem.into() }
    }
}

/// Deadline that passed.
#[derive(Debug, Default, thiserror::Error)]
#[error("the deadline passed after {:.1} s; {}", elapsed.as_secs_f64(), disposition.describe(task.as_ref()))]
#[non_exhaustive]
pub struct DeadlineReached {
    /// Task, if one was created.
    pub task: Option<TaskId>,
    /// Disposition of the task.
    pub disposition: TaskDisposition,
    /// Status at the last successful read of the task.
    pub last_status: Option<TaskStatus>,
    /// Duration of the operation.
    pub elapsed: Duration,
    pub(crate) source: Option<Box<Error>>,
}

impl Error {
    /// Returns the class of the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Config(_) => ErrorKind::Config,
            Self::InvalidArgument(_) | Self::Inputs(_) => ErrorKind::InvalidInput,
            Self::File(error) => match error.kind {
                FileErrorKind::TooLarge => ErrorKind::TooLarge,
                FileErrorKind::Changed | FileErrorKind::AlreadyExists => ErrorKind::LocalFile,
                FileErrorKind::Unwritable => ErrorKind::LocalFile,
                FileErrorKind::InvalidTarget => ErrorKind::InvalidResponse,
                FileErrorKind::NotFound if error.status.is_some() => ErrorKind::NotFound,
                FileErrorKind::Forbidden | FileErrorKind::Rejected => ErrorKind::StorageRejected,
                FileErrorKind::Transport if error.status.is_some() => ErrorKind::Unavailable,
                FileErrorKind::Transport | FileErrorKind::CertificateRefused => ErrorKind::NoResponse,
                _ => ErrorKind::InvalidInput,
            },
            Self::Api(context) => match context.status {
                Some(401) => ErrorKind::Unauthorized,
                Some(402) => ErrorKind::InsufficientBalance,
                Some(404) => ErrorKind::NotFound,
                Some(409) => ErrorKind::Conflict,
                Some(429) => ErrorKind::RateLimited,
                Some(408 | 500..) => ErrorKind::Unavailable,
                _ => ErrorKind::Rejected,
            },
            Self::Transport(_) => ErrorKind::NoResponse,
            Self::Decode(_) => ErrorKind::InvalidResponse,
            Self::OutcomeUnknown(_) => ErrorKind::OutcomeUnknown,
            Self::CostLimitExceeded(_) => ErrorKind::CostLimitExceeded,
            Self::ModelOffline(_) => ErrorKind::ModelOffline,
            Self::DeadlineReached(_) => ErrorKind::DeadlineReached,
            Self::TaskFailed(_) => ErrorKind::TaskFailed,
            Self::TaskCanceled(_) => ErrorKind::TaskCanceled,
            Self::OutputType(_) => ErrorKind::OutputType,
        }
    }

    /// Returns the hint: what to try.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Config(_) | Self::InvalidArgument(_) | Self::Inputs(_) => {
                "fix what the message names and try again; nothing was sent"
            }
            Self::File(error) => error.hint(),
            Self::Api(context) => context.hint(),
            Self::Transport(_) if self.is_retryable() => "check the network and the base URL, then try again",
            Self::Transport(_) => "check whether the call had its effect before sending it again",
            Self::Decode(context) => context.decode_hint(),
            Self::OutcomeUnknown(unknown) => unknown.hint(),
            Self::CostLimitExceeded(_) => "change max_cost, or choose another model; no task was created",
            Self::ModelOffline(_) => "try again later, or run without require_serving; no task was created",
            Self::TaskFailed(failure) => failure.hint(),
            Self::TaskCanceled(_) => "run it again if the cancel was not intended; the task is not billed",
            Self::DeadlineReached(reached) => reached.disposition.hint(),
            Self::OutputType(_) => "read the output as JSON; the task succeeded and was billed",
        }
    }

    /// Returns the error and its causes on one line, without repeated texts.
    pub fn with_causes(&self) -> String {
        let mut line = self.to_string();
        for cause in self.causes().map(ToString::to_string) {
            if !line.contains(&cause) {
                line = format!("{line}: {cause}");
            }
        }
        line
    }

    fn causes(&self) -> impl Iterator<Item = &(dyn StdError + 'static)> {
        successors(self.source(), |&cause| cause.source())
    }

    /// Returns the task of the error, if one was created.
    pub fn task_id(&self) -> Option<&TaskId> {
        match self {
            Self::TaskFailed(failure) => Some(&failure.task),
            Self::TaskCanceled(task) => Some(task),
            Self::DeadlineReached(reached) => reached.task.as_ref(),
            Self::OutputType(mismatch) => Some(&mismatch.task),
            Self::OutcomeUnknown(_) => None,
            other => other.context()?.task.as_ref(),
        }
    }

    /// Returns the tasks that a create of unknown outcome may have become, newest last.
    pub fn candidates(&self) -> &[TaskId] {
        if let Self::OutcomeUnknown(unknown) = self { &unknown.candidates } else { &[] }
    }

    /// Returns the disposition of an abandoned task.
    pub fn disposition(&self) -> Option<TaskDisposition> {
        if let Self::DeadlineReached(reached) = self { Some(reached.disposition) } else { None }
    }

    /// Returns the context of the call, if a call failed.
    pub fn context(&self) -> Option<&CallContext> {
        match self {
            Self::Api(context) | Self::Transport(context) | Self::Decode(context) => Some(context),
            Self::OutcomeUnknown(unknown) => Some(&unknown.context),
            Self::DeadlineReached(reached) => reached.source.as_deref()?.context(),
            _ => None,
        }
    }

    pub(crate) fn context_mut(&mut self) -> Option<&mut CallContext> {
        match self {
            Self::Api(context) | Self::Transport(context) | Self::Decode(context) => Some(context),
            _ => None,
        }
    }

    /// Returns the HTTP status of the response that caused the error, if any.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::File(error) => error.status,
            other => other.context()?.status,
        }
    }

    /// Returns the delay that the service requested before the next attempt.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::File(error) => error.retry_after,
            other => other.context()?.retry_after,
        }
    }

    /// Returns true if a retry may succeed later without having an effect twice: after a transient failure of
    /// the network or the service, a rate limit, or an offline model.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Transport(context) | Self::Decode(context) => context.is_retry_safe,
            Self::Api(context) => context.is_retry_safe && !context.is_permanent(),
            Self::ModelOffline(_) => true,
            // Files are transferred before a task is created, or after it has ended.
            Self::File(error) => error.kind == FileErrorKind::Transport,
            _ => false,
        }
    }

    /// Returns true after a `404`: no such model, task, folder or file.
    pub fn is_not_found(&self) -> bool {
        self.kind() == ErrorKind::NotFound
    }

    /// Returns true if the service no longer has the task that was read. A `404` without a message is from a
    /// gateway and says nothing about the task.
    pub fn is_gone(&self) -> bool {
        let is_of = |call: &CallContext| call.operation == operations::GET_TASK.id && call.message.is_some();
        self.is_not_found() && self.context().is_some_and(is_of)
    }

    /// Returns true if the service rejected a task because of the balance: `402`. A service may instead
    /// create the task and fail it with a message about the balance, as [`Error::TaskFailed`].
    pub fn is_insufficient_balance(&self) -> bool {
        self.kind() == ErrorKind::InsufficientBalance
    }

    /// Returns true if a run was permanently rejected before its create: no task exists, and none will appear.
    pub fn is_refused_create(&self) -> bool {
        match self {
            Self::InvalidArgument(_)
            | Self::Inputs(_)
            | Self::CostLimitExceeded(_)
            | Self::ModelOffline(_) => true,
            other => {
                let is_create = |call: &CallContext| call.operation == operations::CREATE_TASK.id;
                other.is_permanent() && other.context().is_some_and(is_create)
            }
        }
    }

    /// Returns true for a refusal by a service that has looked for the idempotency key before: no task has it.
    pub(crate) fn denies_key(&self) -> bool {
        let Self::Api(context) = self else { return false };
        let is_of_service = context.is_of_service && context.message.is_some();
        is_of_service && self.is_refused_create() && !matches!(context.status, Some(401 | 403))
    }

    /// Returns true if the deadline passed.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::DeadlineReached(_))
    }

    pub(crate) fn is_permanent(&self) -> bool {
        matches!(self, Self::Api(context) if context.is_permanent())
    }

    pub(crate) fn is_certificate_refused(&self) -> bool {
        matches!(self, Self::Transport(context) if context.is_certificate_refused)
    }

    pub(crate) fn may_have_had_effect(&self) -> bool {
        match self {
            Self::Transport(context) => !context.is_unsent,
            Self::Decode(_) => true,
            // A gateway timeout says nothing about the service behind it.
            Self::Api(context) => context.is_ambiguous(),
            _ => false,
        }
    }

    pub(crate) fn is_in_doubt(&self) -> bool {
        self.context().is_some_and(|context| context.is_in_doubt)
    }

    /// Returns true if a failed read of a task ends the wait: the task has ended, or further reads would fail too.
    pub fn ends_wait(&self) -> bool {
        match self {
            Self::InvalidArgument(_) | Self::TaskFailed(_) | Self::TaskCanceled(_) => true,
            // Response above the size limit.
            Self::Decode(context) => !context.is_retry_safe,
            Self::Transport(_) => self.is_certificate_refused(),
            other => other.is_permanent(),
        }
    }

    pub(crate) fn in_field(mut self, field: &str) -> Self {
        if let Self::File(error) = &mut self {
            error.field = Some(field.to_owned());
        }
        self
    }
}

impl From<FileError> for Error {
    fn from(error: FileError) -> Self {
        Self::File(Box::new(error))
    }
}

/// Amount of money that is not a number.
impl From<inferstore_api::ParseDecimalError> for Error {
    fn from(error: inferstore_api::ParseDecimalError) -> Self {
        Self::InvalidArgument(error.to_string())
    }
}

impl DeadlineReached {
    /// Adds the error of the last read of the task as the source.
    #[must_use]
    pub fn with_source(self, source: Error) -> Self {
        Self { source: Some(Box::new(source)), ..self }
    }
}

/// Prints the error, its causes and the hint, for a `main` that returns the error.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        for cause in self.causes() {
            write!(f, "\n  caused by: {cause}")?;
        }
        write!(f, "\n  hint: {}", self.hint())
    }
}
