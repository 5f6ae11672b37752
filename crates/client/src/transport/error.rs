//! What can go wrong, in a form that one can act on.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use inferstore_api::Decimal;
use inferstore_api::types::{ModelId, TaskId};

use crate::transport::text::{cut, innermost, one_line};
use crate::transport::violation::InvalidInputs;

/// How much of a body stands in a headline.
const SHOWN: usize = 200;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something did not work, and what to try.
///
/// ```no_run
/// # async fn example(client: inferstore::Client, inputs: inferstore::Inputs) -> Result<(), inferstore::Error> {
/// match client.model("color-harmonization").run(inputs).await {
///     Ok(outcome) => println!("{}", outcome.output),
///     Err(error) => {
///         eprintln!("{}", error.headline());
///         eprintln!("hint: {}", error.hint());
///         if let Some(task) = error.task_id() {
///             eprintln!("the task is {task}"); // it can be picked up again, by any process
///         }
///     }
/// }
/// # Ok(())
/// # }
/// ```
///
/// No variant is guessed from the text of a message: `401` is the only status whose meaning the
/// service promises. Every error after a task was created carries its identifier.
///
/// # Troubleshooting
///
/// | variant | what happened | what to try |
/// |---|---|---|
/// | [`InvalidArgument`](Self::InvalidArgument) | the client cannot be made, or an argument cannot be sent | mend what the message names |
/// | [`Inputs`](Self::Inputs) | the inputs do not fit what the model declares; nothing was sent | mend the fields it lists |
/// | [`File`](Self::File) | a file could not be read, uploaded or written | look at the file it names |
/// | [`Unauthorized`](Self::Unauthorized) | `401` | check the API key |
/// | [`Api`](Self::Api) | the service answered with a failure | read its message |
/// | [`Transport`](Self::Transport) | no answer, after all repeats that are safe | check the network, try later |
/// | [`Decode`](Self::Decode) | an answer that is not one of this service | check the base URL |
/// | [`OutcomeUnknown`](Self::OutcomeUnknown) | a task may have been created, or not | look at the candidates before you create it again |
/// | [`CostLimitExceeded`](Self::CostLimitExceeded), [`ModelOffline`](Self::ModelOffline) | a guard refused the run; nothing was created | raise the limit, or wait |
/// | [`TaskFailed`](Self::TaskFailed), [`TaskCanceled`](Self::TaskCanceled) | the task ended without a result; not billed | read the detail |
/// | [`DeadlineReached`](Self::DeadlineReached) | time is up | see what became of the task |
/// | [`OutputType`](Self::OutputType) | the output does not have the type that was asked for | read it as JSON |
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The client cannot be made with these settings, or an argument cannot be sent.
    InvalidArgument(String),
    /// The inputs do not fit what the model declares. Nothing was sent.
    Inputs(InvalidInputs),
    /// A file could not be read, uploaded, downloaded or written.
    File(Box<FileError>),
    /// The service answered `401`: the key is missing or wrong.
    Unauthorized(Box<CallContext>),
    /// The service answered with a failure.
    Api(Box<CallContext>),
    /// No answer came.
    Transport(Box<CallContext>),
    /// An answer came that cannot be read.
    Decode(Box<CallContext>),
    /// A task was sent, its answer was lost, and the task history does not tell which one it is.
    OutcomeUnknown(Box<UnknownOutcome>),
    /// A run costs more than it may.
    CostLimitExceeded {
        /// What a run costs.
        quote: Decimal,
        /// What it may cost.
        max_cost: Decimal,
    },
    /// No node serves the model now.
    ModelOffline(ModelId),
    /// The task ended in `failed`.
    TaskFailed(Box<TaskFailure>),
    /// The task ended in `canceled`.
    TaskCanceled(TaskId),
    /// The deadline was reached.
    DeadlineReached(Box<DeadlineReached>),
    /// The output of a task does not have the type that was asked for.
    OutputType(Box<OutputMismatch>),
}

/// What is known of a call that failed.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct CallContext {
    /// The operation, as the document names it.
    pub operation: &'static str,
    /// The status of the answer, if one came that could be read. A 2xx can be a failure too: its body
    /// says so.
    pub status: Option<u16>,
    /// The message of the service, if the body had one.
    pub message: Option<String>,
    /// The beginning of the body, at most 2 KiB, with secrets masked.
    pub excerpt: Option<String>,
    /// The identifier that the service or a proxy gave the request, if any.
    pub request_id: Option<String>,
    /// How often the request was sent, or tried to be.
    pub attempts: u32,
    /// How long all attempts took together.
    pub elapsed: Duration,
    /// Whether the call can be repeated without having an effect twice.
    pub is_retry_safe: bool,
    /// The task that the call was about.
    pub task: Option<TaskId>,
    pub(crate) source: Option<Box<dyn StdError + Send + Sync>>,
}

/// A create whose answer was lost.
#[derive(Debug)]
#[non_exhaustive]
pub struct UnknownOutcome {
    /// The call that was lost.
    pub context: CallContext,
    /// Tasks in the history that may be the one, newest last. Empty when the history could not be
    /// read, or shows none.
    pub candidates: Vec<TaskId>,
    /// Whether the history was read to its end. If so and there is no candidate, most likely no task
    /// was created.
    pub history_was_read: bool,
}

/// A task that ended in `failed`. It is not billed.
#[derive(Debug)]
#[non_exhaustive]
pub struct TaskFailure {
    /// The task.
    pub task: TaskId,
    /// The description of the failure.
    pub message: Option<String>,
    /// The detail, `result.error`.
    pub detail: Option<serde_json::Value>,
}

/// A deadline that was reached.
#[derive(Debug)]
#[non_exhaustive]
pub struct DeadlineReached {
    /// The task, if one was created.
    pub task: Option<TaskId>,
    /// What became of it.
    pub fate: TaskDisposition,
    /// How long the whole took.
    pub elapsed: Duration,
}

/// What became of a task at a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskDisposition {
    /// There is none: nothing was sent that could create it.
    NotCreated,
    /// It was canceled while it was still queued, and is not billed.
    Canceled,
    /// It goes on, and is billed if it succeeds.
    StillRunning,
    /// It was still queued, and no answer to a cancel came, in time or at all.
    CancelUnknown,
}

/// A file that made trouble.
#[derive(Debug)]
#[non_exhaustive]
pub struct FileError {
    /// The input field that named the file, if it was an input.
    pub field: Option<String>,
    /// The file, by the name or path that was given, or the host for a download.
    pub file: String,
    /// What went wrong.
    pub problem: String,
    pub(crate) source: Option<Box<dyn StdError + Send + Sync>>,
}

/// An output that is not what was asked for.
#[derive(Debug)]
#[non_exhaustive]
pub struct OutputMismatch {
    /// The task; it succeeded.
    pub task: TaskId,
    /// The output as it is.
    pub output: serde_json::Value,
    /// Why it does not fit.
    pub problem: String,
}

impl Error {
    /// The task that the error is about, if one was created.
    pub fn task_id(&self) -> Option<&TaskId> {
        match self {
            Self::Unauthorized(context)
            | Self::Api(context)
            | Self::Transport(context)
            | Self::Decode(context) => context.task.as_ref(),
            Self::TaskFailed(failure) => Some(&failure.task),
            Self::TaskCanceled(task) => Some(task),
            Self::DeadlineReached(reached) => reached.task.as_ref(),
            Self::OutputType(mismatch) => Some(&mismatch.task),
            _ => None,
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
            _ => None,
        }
    }

    /// What failed, in one line.
    pub fn headline(&self) -> String {
        match self {
            Self::InvalidArgument(problem) => problem.clone(),
            Self::Inputs(invalid) => invalid.to_string(),
            Self::File(error) => error.to_string(),
            Self::Unauthorized(context) => {
                format!("{} was refused: the API key is missing or wrong", context.operation)
            }
            Self::Api(context) => context.refusal(),
            Self::Transport(context) => context.silence(),
            Self::Decode(context) => {
                format!(
                    "{} was answered with something that cannot be read{}",
                    context.operation,
                    context.because()
                )
            }
            Self::OutcomeUnknown(unknown) => unknown.headline(),
            Self::CostLimitExceeded { quote, max_cost } => {
                format!("a run costs {quote}, more than the limit of {max_cost}")
            }
            Self::ModelOffline(model) => format!("no node serves the model {model} now"),
            Self::TaskFailed(failure) => failure.headline(),
            Self::TaskCanceled(task) => format!("the task {task} was canceled"),
            Self::DeadlineReached(reached) => reached.headline(),
            Self::OutputType(mismatch) => {
                format!("the output of task {} has another shape: {}", mismatch.task, mismatch.problem)
            }
        }
    }

    /// What to try.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::InvalidArgument(_) => "correct the setting and try again; nothing was sent",
            Self::Inputs(_) => "correct the inputs and try again; nothing was sent",
            Self::File(_) => "check the file and try again",
            Self::Unauthorized(_) => "check the API key and which service the base URL leads to",
            Self::Api(context) if context.is_retry_safe => "try again later",
            Self::Api(context) if matches!(context.status, Some(429 | 503)) => {
                "try again later, if the service promises that such a refusal had no effect"
            }
            Self::Api(_) => "read the message of the service; repeating the call as it is will not help",
            Self::Transport(context) if context.is_retry_safe => {
                "check the network and the base URL, then try again"
            }
            Self::Transport(_) => "check whether the call had its effect before repeating it",
            Self::Decode(_) => "check that the base URL leads to the service and ends in its versioned root",
            Self::OutcomeUnknown(unknown) if unknown.shows_nothing() => {
                "the task history shows no such task; look once more in a moment, then create it again"
            }
            Self::OutcomeUnknown(_) => "look at the candidates and the task history before creating it again",
            Self::CostLimitExceeded { .. } => "raise max_cost or choose another model; no task was created",
            Self::ModelOffline(_) => "try again later or run without require_serving; no task was created",
            Self::TaskFailed(_) => {
                "correct the inputs if the detail names them, else run it again; it was not billed"
            }
            Self::TaskCanceled(_) => "run it again if that was not intended; it was not billed",
            Self::DeadlineReached(reached) => match reached.fate {
                TaskDisposition::NotCreated => "allow more time; no task was created",
                TaskDisposition::Canceled => {
                    "allow more time and run it again; the task was canceled and is not billed"
                }
                TaskDisposition::CancelUnknown => "read the task to see whether it was canceled",
                TaskDisposition::StillRunning => {
                    "wait for the task by its identifier; it goes on and is billed if it succeeds"
                }
            },
            Self::OutputType(_) => "read the output as JSON; the task succeeded and was billed",
        }
    }
}

impl CallContext {
    fn refusal(&self) -> String {
        let status = self.status.map_or_else(String::new, |status| format!(" with {status}"));
        let message = match (&self.message, &self.excerpt) {
            (Some(message), _) => format!(": {message}"),
            (None, Some(excerpt)) => format!(": {}", cut(&one_line(excerpt), SHOWN)),
            (None, None) => String::new(),
        };
        format!("{} was refused{status}{message}{}", self.operation, self.effort())
    }

    fn silence(&self) -> String {
        format!("{} got no answer{}{}", self.operation, self.because(), self.effort())
    }

    fn because(&self) -> String {
        self.source.as_deref().map_or_else(String::new, |source| format!(": {}", innermost(source)))
    }

    fn effort(&self) -> String {
        if self.attempts < 2 {
            return String::new();
        }
        format!(" (after {} attempts in {:.1} s)", self.attempts, self.elapsed.as_secs_f64())
    }

    /// Whether the status is one with which something in between says that it lost the answer of the
    /// service, or the service that it lost its way after it began.
    pub(crate) fn is_ambiguous(&self) -> bool {
        self.status.is_some_and(|status| status == 408 || status >= 500)
    }
}

impl UnknownOutcome {
    /// Whether the whole history was read and shows no task that could be the one.
    pub(crate) fn shows_nothing(&self) -> bool {
        self.candidates.is_empty() && self.history_was_read
    }

    fn headline(&self) -> String {
        let found = match &self.candidates[..] {
            [] if self.history_was_read => "the task history shows no task that fits".to_owned(),
            [] => "the task history could not be read".to_owned(),
            candidates => {
                let names: Vec<_> = candidates.iter().map(ToString::to_string).collect();
                format!("it may be {}", names.join(" or "))
            }
        };
        format!("whether the task was created is unknown, because the answer was lost; {found}")
    }
}

impl TaskFailure {
    fn headline(&self) -> String {
        let message = self.message.as_deref().map(|message| format!(": {message}"));
        let detail = self.detail.as_ref().map(|detail| format!(" ({detail})"));
        format!("the task {} failed{}{}", self.task, message.unwrap_or_default(), detail.unwrap_or_default())
    }
}

impl DeadlineReached {
    fn headline(&self) -> String {
        let task = match (&self.task, self.fate) {
            (Some(task), TaskDisposition::Canceled) => {
                format!("the task {task} was canceled while it was queued")
            }
            (Some(task), TaskDisposition::CancelUnknown) => {
                format!("whether the task {task} was canceled is unknown")
            }
            (Some(task), _) => format!("the task {task} goes on"),
            (None, _) => "no task was created".to_owned(),
        };
        format!("the deadline was reached after {:.1} s; {task}", self.elapsed.as_secs_f64())
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(field) = &self.field {
            write!(f, "{field}: ")?;
        }
        write!(f, "{}: {}", self.file, self.problem)
    }
}

/// The headline and the hint.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.headline(), self.hint())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        let source = match self {
            Self::Inputs(invalid) => return Some(invalid),
            Self::File(error) => error.source.as_deref(),
            other => other.context().and_then(|context| context.source.as_deref()),
        };
        source.map(|source| source as &(dyn StdError + 'static))
    }
}
