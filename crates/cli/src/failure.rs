//! What went wrong, as the command tells it: a line, a hint, an exit code, and what belongs on standard
//! output all the same.

use std::fmt::Display;

use inferstore::{CallContext, Error, TaskDisposition, Violation};

use crate::exit;

/// A result of a command.
pub(crate) type Result<T = (), E = Failure> = std::result::Result<T, E>;

/// A failure of a command.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    /// What failed, in one line, or one line for each input.
    pub(crate) headline: String,
    /// What to try.
    pub(crate) hint: Option<String>,
    /// What `-v` adds.
    pub(crate) context: Vec<String>,
    /// What scripts want to know: identifiers of tasks, one a line.
    pub(crate) data: Vec<String>,
}

impl Failure {
    pub(crate) fn new(code: u8, headline: impl Into<String>) -> Self {
        Self { code, headline: headline.into(), hint: None, context: Vec::new(), data: Vec::new() }
    }

    /// Of the command line or a setting.
    pub(crate) fn usage(headline: impl Into<String>) -> Self {
        Self::new(exit::USAGE, headline)
    }

    /// Of something on this machine, such as a file.
    pub(crate) fn here(doing: impl Display, cause: impl Display) -> Self {
        Self::new(exit::FAILED, format!("{doing}: {cause}"))
            .with_hint("mend that on this machine and try again")
    }

    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    pub(crate) fn with_code(self, code: u8) -> Self {
        Self { code, ..self }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            code: code(&error),
            headline: headline(&error),
            hint: Some(hint(&error)),
            context: error.context().map(context).unwrap_or_default(),
            data: data(&error),
        }
    }
}

/// The failure, with a line for each input that does not fit.
fn headline(error: &Error) -> String {
    match error {
        Error::Inputs(invalid) => {
            let messages: Vec<_> = invalid.violations().iter().map(Violation::message).collect();
            messages.join("\n")
        }
        _ => error.headline(),
    }
}

fn code(error: &Error) -> u8 {
    match error {
        Error::InvalidArgument(_)
        | Error::Inputs(_)
        | Error::CostLimitExceeded { .. }
        | Error::ModelOffline(_) => exit::INPUT,
        Error::Unauthorized(_) => exit::KEY,
        Error::Api(_) => exit::REFUSED,
        Error::Transport(_) => exit::NOT_REACHED,
        Error::OutcomeUnknown(_) => exit::OUTCOME_UNKNOWN,
        Error::TaskFailed(_) => exit::TASK_FAILED,
        Error::TaskCanceled(_) => exit::TASK_CANCELED,
        Error::DeadlineReached(_) => exit::DEADLINE,
        _ => exit::FAILED,
    }
}

/// What to try, in the words of the command where it has its own.
fn hint(error: &Error) -> String {
    match error {
        Error::Unauthorized(_) => {
            "`inferstore login` stores another key; `--base-url` says which service is asked".to_owned()
        }
        Error::CostLimitExceeded { .. } => {
            "raise --max-cost or choose another model; no task was created".to_owned()
        }
        Error::ModelOffline(_) => {
            "try again later or without --require-serving; no task was created".to_owned()
        }
        Error::DeadlineReached(reached) => match (&reached.task, reached.fate) {
            (Some(task), TaskDisposition::StillRunning) => {
                format!("it is billed if it succeeds; wait for it with: inferstore task wait {task}")
            }
            (Some(task), TaskDisposition::CancelUnknown) => {
                format!("see whether it was canceled with: inferstore task show {task}")
            }
            _ => error.hint().to_owned(),
        },
        Error::OutcomeUnknown(unknown) if !unknown.candidates.is_empty() => {
            "look at each candidate with `inferstore task show` before you run it again".to_owned()
        }
        other => other.hint().to_owned(),
    }
}

fn context(context: &CallContext) -> Vec<String> {
    let mut lines = vec![
        format!("operation: {}", context.operation),
        format!("attempts: {} in {:.1} s", context.attempts, context.elapsed.as_secs_f64()),
        format!("safe to repeat: {}", if context.is_retry_safe { "yes" } else { "no" }),
    ];
    let known = [
        ("status", context.status.map(|status| status.to_string())),
        ("request id", context.request_id.clone()),
        ("task", context.task.as_ref().map(ToString::to_string)),
        ("answer", context.excerpt.clone()),
    ];
    lines.extend(known.into_iter().filter_map(|(name, value)| Some(format!("{name}: {}", value?))));
    lines
}

fn data(error: &Error) -> Vec<String> {
    match error {
        Error::DeadlineReached(reached) => reached.task.iter().map(ToString::to_string).collect(),
        Error::OutcomeUnknown(unknown) => unknown.candidates.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    }
}
