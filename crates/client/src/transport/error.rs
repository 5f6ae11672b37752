//! Errors: what failed, what is known of it, and what to try.

use std::error::Error as StdError;
use std::fmt;
use std::iter::successors;
use std::time::Duration;

use inferstore_api::types::{ModelId, TaskId, TaskStatus};
use inferstore_api::{BodyTooLarge, Decimal};
use serde_json::Value;

use crate::transport::causes::{FileError, FileErrorKind, InvalidInputs};
use crate::transport::redact::{cut, printable};

/// The operation of [`Client::request`](crate::Client::request), which the document does not list.
pub(crate) const OTHER_REQUEST: &str = "the request";

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation failed.
///
/// `Display` is one line without advice, [`hint`](Self::hint) is the advice, and `source()` the cause,
/// which `Display` does not repeat. `Debug` prints all three, so that a `main` that returns this error
/// reports it readably.
///
/// ```no_run
/// # async fn example(client: inferstore::Client, inputs: inferstore::Inputs) -> Result<(), inferstore::Error> {
/// match client.model("color-harmonization").run(inputs).await {
///     Ok(outcome) => println!("{}", outcome.output),
///     Err(error) if error.is_retryable() => println!("later, in {:?}", error.retry_after()),
///     Err(error) => {
///         eprintln!("{error}\nhint: {}", error.hint());
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
///
/// # Troubleshooting
///
/// | variant | what happened | what to try |
/// |---|---|---|
/// | [`Config`](Self::Config) | the client cannot be built | fix the setting that the message names |
/// | [`InvalidArgument`](Self::InvalidArgument) | an argument cannot be sent; nothing was sent | fix the argument |
/// | [`Inputs`](Self::Inputs) | the inputs do not match what the model declares; nothing was sent | fix the fields in the list |
/// | [`File`](Self::File) | a file could not be read, uploaded, downloaded or written | see its kind and message |
/// | [`Unauthorized`](Self::Unauthorized) | `401` | check the API key |
/// | [`Api`](Self::Api) | the service responded with a failure | read its message; see [`status`](Self::status) |
/// | [`Transport`](Self::Transport) | no response, after all safe retries | check the network, try later |
/// | [`Decode`](Self::Decode) | a response that is not one of this service | check the base URL |
/// | [`OutcomeUnknown`](Self::OutcomeUnknown) | a task may have been created, or not | look at the candidates before you create it again |
/// | [`CostLimitExceeded`](Self::CostLimitExceeded) | the price is above `max_cost`, or not stated; nothing was created | raise the limit |
/// | [`ModelOffline`](Self::ModelOffline) | no node serves the model | try later |
/// | [`TaskFailed`](Self::TaskFailed), [`TaskCanceled`](Self::TaskCanceled) | the task ended without a result; not billed | read the detail |
/// | [`DeadlineReached`](Self::DeadlineReached) | the deadline passed | see its disposition |
/// | [`OutputType`](Self::OutputType) | the output does not have the requested type, or no URL of that name | read it as JSON |
#[non_exhaustive]
pub enum Error {
    /// The client cannot be built with these settings.
    Config(String),
    /// An argument cannot be sent. Nothing was sent.
    InvalidArgument(String),
    /// The inputs do not match what the model declares. Nothing was sent.
    Inputs(InvalidInputs),
    /// A file could not be read, uploaded, downloaded or written.
    File(Box<FileError>),
    /// The service responded with `401`: the API key is missing or wrong.
    Unauthorized(Box<CallContext>),
    /// The service responded with a failure.
    Api(Box<CallContext>),
    /// No response came.
    Transport(Box<CallContext>),
    /// A response came that cannot be decoded.
    Decode(Box<CallContext>),
    /// A create was sent, its response was lost, and the task history does not show which task it is.
    OutcomeUnknown(Box<UnknownOutcome>),
    /// A run costs more than its limit, or the service states no price. Nothing was created.
    CostLimitExceeded(Box<CostLimit>),
    /// No node serves the model.
    ModelOffline(Box<ModelOffline>),
    /// The task ended in `failed`.
    TaskFailed(Box<TaskFailure>),
    /// The task ended in `canceled`.
    TaskCanceled(TaskId),
    /// The deadline passed.
    DeadlineReached(Box<DeadlineReached>),
    /// The output of a task does not have the requested type, or no URL of the requested name.
    OutputType(Box<OutputMismatch>),
}

/// What is known of a failed call.
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
    /// How long the service asked to wait before the next attempt.
    pub retry_after: Option<Duration>,
    /// How many times the request was sent.
    pub attempts: u32,
    /// How long all attempts took together.
    pub elapsed: Duration,
    /// Whether it was not sent again because the [retry budget](crate::Retry::budget) of the client was exhausted.
    pub is_budget_exhausted: bool,
    /// Whether the same call can be sent again without having an effect twice.
    pub is_retry_safe: bool,
    /// The task that the call was about.
    pub task: Option<TaskId>,
    /// Whether nothing of the last attempt reached the service.
    pub(crate) is_unsent: bool,
    pub(crate) source: Option<Box<dyn StdError + Send + Sync>>,
}

/// A create whose response was lost.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct UnknownOutcome {
    /// The call that failed.
    pub context: CallContext,
    /// Tasks in the history that may be the one, newest last. Empty when the history could not be
    /// read, or shows none.
    pub candidates: Vec<TaskId>,
    /// Whether the history was read completely. If so and there is no candidate, most likely no task
    /// was created.
    pub history_was_read: bool,
}

/// A price above the limit, or none to compare with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CostLimit {
    /// The price of a run, if the service states one.
    pub quote: Option<Decimal>,
    /// The limit.
    pub max_cost: Decimal,
}

/// A model that no node serves.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelOffline {
    /// The model.
    pub model: ModelId,
    /// The task that stayed in the queue, if one was created.
    pub task: Option<TaskId>,
    /// What became of the task.
    pub disposition: TaskDisposition,
}

/// A task that ended in `failed`. It is not billed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TaskFailure {
    /// The task.
    pub task: TaskId,
    /// The description of the failure, redacted.
    pub message: Option<String>,
    /// The detail, `result.error`, with every text in it redacted.
    pub detail: Option<Value>,
}

/// A deadline that passed.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct DeadlineReached {
    /// The task, if one was created.
    pub task: Option<TaskId>,
    /// What became of the task.
    pub disposition: TaskDisposition,
    /// The status that the last successful read of the task showed.
    pub last_status: Option<TaskStatus>,
    /// How long the operation took.
    pub elapsed: Duration,
    pub(crate) source: Option<Box<Error>>,
}

/// What became of a task that is no longer waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TaskDisposition {
    /// No task was created: nothing was sent that could create one.
    #[default]
    NotCreated,
    /// It was canceled while it was queued, and is not billed.
    Canceled,
    /// It is still running or queued, and is billed if it succeeds.
    StillRunning,
    /// It was queued when last seen, and a cancel was sent without a response in time.
    CancelUnknown,
    /// Unknown: the task could never be read.
    Unknown,
    /// The operation was an upload or a download, and is about no task.
    NoTask,
}

/// An output that does not have the requested type, or no URL of the requested name.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OutputMismatch {
    /// The task; it succeeded.
    pub task: TaskId,
    /// The output as it is.
    pub output: Value,
    /// Why it does not match.
    pub problem: String,
}

impl Error {
    /// The task that the error is about, if one was created.
    pub fn task_id(&self) -> Option<&TaskId> {
        match self {
            Self::TaskFailed(failure) => Some(&failure.task),
            Self::TaskCanceled(task) => Some(task),
            Self::DeadlineReached(reached) => reached.task.as_ref(),
            Self::ModelOffline(offline) => offline.task.as_ref(),
            Self::OutputType(mismatch) => Some(&mismatch.task),
            Self::OutcomeUnknown(_) => None,
            other => other.context()?.task.as_ref(),
        }
    }

    /// What is known of the call, if the error came from one.
    pub fn context(&self) -> Option<&CallContext> {
        match self {
            Self::Unauthorized(context)
            | Self::Api(context)
            | Self::Transport(context)
            | Self::Decode(context) => Some(context),
            Self::OutcomeUnknown(unknown) => Some(&unknown.context),
            Self::DeadlineReached(reached) => reached.source.as_deref()?.context(),
            _ => None,
        }
    }

    pub(crate) fn context_mut(&mut self) -> Option<&mut CallContext> {
        match self {
            Self::Unauthorized(context)
            | Self::Api(context)
            | Self::Transport(context)
            | Self::Decode(context) => Some(context),
            _ => None,
        }
    }

    /// The HTTP status of the response that caused the error, if one came.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::File(error) => error.status,
            other => other.context()?.status,
        }
    }

    /// How long the service asked to wait before the next attempt.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::File(error) => error.retry_after,
            other => other.context()?.retry_after,
        }
    }

    /// Whether the same call may succeed later, without having an effect twice: a passing failure of
    /// the network or the service, a rate limit, a model that is offline.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Transport(context) | Self::Decode(context) => context.is_retry_safe,
            Self::Api(context) => context.is_retry_safe && !self.is_permanent(),
            Self::ModelOffline(offline) => offline.task.is_none(),
            // Files are transferred before a task is created, or after it has ended.
            Self::File(error) => error.kind == FileErrorKind::Transport,
            _ => false,
        }
    }

    /// Whether the service responded with `404`: there is no such model, task, folder or file.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Api(context) if context.status == Some(404))
    }

    /// Whether the service refused a task because the balance does not cover it: it responded with `402`. A service
    /// may create the task instead and fail it with a message about the balance, as [`Error::TaskFailed`].
    pub fn is_insufficient_balance(&self) -> bool {
        matches!(self, Self::Api(context) if context.status == Some(402))
    }

    /// Whether the deadline passed.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::DeadlineReached(_))
    }

    /// Whether the service refused the call for good: a 4xx other than 408 and 429.
    pub(crate) fn is_permanent(&self) -> bool {
        match self {
            Self::Unauthorized(_) => true,
            Self::Api(context) => matches!(context.status, Some(400..=407 | 409..=428 | 430..=499)),
            _ => false,
        }
    }

    /// The error with the input field that named the file.
    pub(crate) fn in_field(mut self, field: &str) -> Self {
        if let Self::File(error) = &mut self {
            error.field = Some(field.to_owned());
        }
        self
    }

    /// What to try.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Config(_) => "fix the setting and try again; nothing was sent",
            Self::InvalidArgument(_) => "fix the argument and try again; nothing was sent",
            Self::Inputs(_) => "fix the inputs and try again; nothing was sent",
            Self::File(error) => error.hint(),
            Self::Unauthorized(_) => "check the API key and which service the base URL leads to",
            Self::Api(_) if self.is_retryable() => "try again later",
            Self::Api(context) => match context.status {
                Some(402) => "top up the balance of the account",
                Some(404) if context.operation == OTHER_REQUEST => "check the path",
                Some(404) => "check the identifier",
                Some(429 | 503) => "try again later, if the service promises that this had no effect",
                Some(500..) => "read the message of the service, and check whether the call had its effect",
                _ => "read the message of the service; the same call will fail again",
            },
            Self::Transport(_) if self.is_retryable() => "check the network and the base URL, then try again",
            Self::Transport(_) => "check whether the call had its effect before sending it again",
            Self::Decode(_) if self.source().is_some_and(is_too_large) => {
                "raise max_response_size of the client builder"
            }
            Self::Decode(context) if context.operation == OTHER_REQUEST => "check the path",
            Self::Decode(_) => "check that the base URL leads to the service and ends in its versioned root",
            Self::OutcomeUnknown(unknown) if unknown.shows_nothing() => {
                "read the task history once more in a moment, then create it again"
            }
            Self::OutcomeUnknown(_) => "look at the candidates and the task history before creating it again",
            Self::CostLimitExceeded(_) => "raise max_cost, or choose another model; no task was created",
            Self::ModelOffline(_) if self.is_retryable() => {
                "try again later, or run without require_serving; no task was created"
            }
            Self::ModelOffline(_) => "cancel the task, or wait for it until a node serves the model",
            Self::TaskFailed(_) => {
                "fix the inputs or the balance if the detail names them, else run it again; it was not billed"
            }
            Self::TaskCanceled(_) => "run it again if that was not intended; it was not billed",
            Self::DeadlineReached(reached) => match reached.disposition {
                TaskDisposition::NotCreated => "allow more time; no task was created",
                TaskDisposition::Canceled => {
                    "allow more time and run it again; the task was canceled and is not billed"
                }
                TaskDisposition::CancelUnknown => "read the task to see whether it was canceled",
                TaskDisposition::StillRunning => "wait for the task again; it is billed if it succeeds",
                TaskDisposition::Unknown => "check the identifier and the API key, then read the task",
                TaskDisposition::NoTask => "allow more time and transfer the file again",
            },
            Self::OutputType(_) => "read the output as JSON; the task succeeded and was billed",
        }
    }
}

/// An amount of money that is not a number.
impl From<inferstore_api::ParseDecimalError> for Error {
    fn from(error: inferstore_api::ParseDecimalError) -> Self {
        Self::InvalidArgument(error.to_string())
    }
}

impl CallContext {
    /// A failure of this operation, for tests of code that handles errors.
    pub fn new(operation: &'static str, status: Option<u16>) -> Self {
        Self { operation, status, attempts: 1, ..Self::default() }
    }

    fn refusal(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed", self.operation)?;
        if let Some(status) = self.status {
            write!(f, " with {status}")?;
        }
        match (&self.message, &self.excerpt) {
            (Some(message), _) => write!(f, ": {message}"),
            (None, Some(excerpt)) => write!(f, ": {}", cut(excerpt, 200)),
            (None, None) => Ok(()),
        }
    }

    fn attempts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.attempts > 1 {
            write!(f, " (after {} attempts in {:.1} s)", self.attempts, self.elapsed.as_secs_f64())?;
        }
        if self.is_budget_exhausted {
            f.write_str(" (the retry budget is exhausted)")?;
        }
        Ok(())
    }

    /// Whether the service may have had its effect all the same: a gateway lost the response, or the
    /// service failed after it began.
    pub(crate) fn is_ambiguous(&self) -> bool {
        self.status.is_some_and(|status| status == 408 || status >= 500)
    }
}

impl TaskFailure {
    /// A failure with a message, for tests of code that handles errors.
    pub fn new(task: impl Into<TaskId>, message: impl Into<String>) -> Self {
        Self { task: task.into(), message: Some(message.into()), detail: None }
    }
}

impl ModelOffline {
    /// A model that was found offline before a task was created.
    pub fn new(model: impl Into<ModelId>) -> Self {
        Self { model: model.into(), task: None, disposition: TaskDisposition::NotCreated }
    }
}

impl OutputMismatch {
    /// An output that does not match, for tests of code that handles errors.
    pub fn new(task: impl Into<TaskId>, output: Value, problem: impl Into<String>) -> Self {
        Self { task: task.into(), output, problem: problem.into() }
    }
}

impl UnknownOutcome {
    /// Whether the whole history was read and shows no task that could be the one. A success says that there is one.
    pub(crate) fn shows_nothing(&self) -> bool {
        self.candidates.is_empty() && self.history_was_read && self.context.status != Some(200)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(problem) | Self::InvalidArgument(problem) => f.write_str(problem),
            Self::Inputs(invalid) => invalid.fmt(f),
            Self::File(error) => error.fmt(f),
            Self::Unauthorized(context) if context.message.is_none() => {
                context.refusal(f)?;
                f.write_str(": the API key is missing or wrong")
            }
            Self::Unauthorized(context) => context.refusal(f),
            Self::Api(context) => {
                context.refusal(f)?;
                context.attempts(f)
            }
            Self::Transport(context) => {
                write!(f, "{} got no response", context.operation)?;
                context.attempts(f)
            }
            Self::Decode(context) => {
                write!(f, "the response to {} cannot be decoded", context.operation)?;
                context.attempts(f)
            }
            Self::OutcomeUnknown(unknown) => unknown.fmt(f),
            Self::CostLimitExceeded(limit) => {
                let CostLimit { quote, max_cost } = &**limit;
                match quote {
                    Some(quote) => write!(f, "a run costs {quote}, more than the limit of {max_cost}"),
                    None => write!(f, "the service states no price to compare with the limit of {max_cost}"),
                }
            }
            Self::ModelOffline(offline) => {
                write!(f, "no node serves the model {}", shown(offline.model.as_str()))?;
                match &offline.task {
                    Some(task) => write!(f, "; {}", disposition(offline.disposition, Some(task))),
                    None => Ok(()),
                }
            }
            Self::TaskFailed(failure) => failure.fmt(f),
            Self::TaskCanceled(task) => write!(f, "the task {} was canceled", shown(task.as_str())),
            Self::DeadlineReached(reached) => {
                let disposition = disposition(reached.disposition, reached.task.as_ref());
                write!(f, "the deadline passed after {:.1} s; {disposition}", reached.elapsed.as_secs_f64())
            }
            Self::OutputType(mismatch) => {
                let task = shown(mismatch.task.as_str());
                write!(f, "the output of task {task} is not as requested: {}", mismatch.problem)
            }
        }
    }
}

/// Whether the response was larger than the limit.
pub(crate) fn is_too_large(error: &(dyn StdError + 'static)) -> bool {
    successors(Some(error), |&cause| cause.source()).any(|cause| cause.is::<BodyTooLarge>())
}

/// An identifier of the service, which is kept as it is and shown without control characters.
pub(crate) fn shown(id: &str) -> String {
    cut(&printable(id), 200)
}

fn disposition(disposition: TaskDisposition, task: Option<&TaskId>) -> String {
    let task = task.map(|task| shown(task.as_str())).unwrap_or_default();
    match disposition {
        TaskDisposition::NotCreated => "no task was created".to_owned(),
        TaskDisposition::Canceled => format!("the task {task} was canceled while it was queued"),
        TaskDisposition::CancelUnknown => format!("whether the task {task} was canceled is unknown"),
        TaskDisposition::StillRunning => format!("the task {task} has not ended"),
        TaskDisposition::Unknown => format!("the state of the task {task} is unknown"),
        TaskDisposition::NoTask => "the transfer is not complete".to_owned(),
    }
}

impl fmt::Display for UnknownOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.context.status {
            Some(_) => self.context.refusal(f)?,
            None => write!(f, "the response to {} was lost", self.context.operation)?,
        }
        f.write_str("; whether a task was created is unknown: ")?;
        match &self.candidates[..] {
            [] if self.history_was_read => f.write_str("the task history shows no matching task"),
            [] => f.write_str("the task history could not be read"),
            candidates => {
                let names: Vec<_> = candidates.iter().map(|task| shown(task.as_str())).collect();
                write!(f, "it may be {}", names.join(" or "))
            }
        }
    }
}

impl fmt::Display for TaskFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the task {} failed", shown(self.task.as_str()))?;
        let message = self.message.as_deref().unwrap_or_default();
        if !message.is_empty() {
            write!(f, ": {message}")?;
        }
        // A detail that only repeats the message adds nothing.
        let detail = self.detail.as_ref().filter(|detail| {
            let repeats = |value: &Value| value.as_str() == Some(message);
            !repeats(detail) && !repeats(&detail["message"])
        });
        match detail {
            Some(Value::String(text)) => write!(f, " ({text})"),
            Some(detail) => write!(f, " ({})", cut(&detail.to_string(), 500)),
            None => Ok(()),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::File(error) => error.source(),
            Self::DeadlineReached(reached) => Some(reached.source.as_deref()?),
            other => Some(other.context()?.source.as_deref()?),
        }
    }
}

/// The error, its causes and the hint, for a `main` that returns it.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        for cause in successors(self.source(), |&cause| cause.source()) {
            write!(f, "\n  caused by: {cause}")?;
        }
        write!(f, "\n  hint: {}", self.hint())
    }
}
