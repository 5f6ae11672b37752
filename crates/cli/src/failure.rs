//! What went wrong, as the command tells it: a line, a hint, an exit code, and what belongs on standard
//! output all the same.

use std::error::Error as _;
use std::fmt::Display;

use inferstore::types::TaskId;
use inferstore::{CallContext, Error, TaskDisposition, ViolationKind};

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
    pub(crate) fn local_failure(doing: impl Display, cause: impl Display) -> Self {
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

/// The failure and its causes in one line, or a line for each input that does not fit.
fn headline(error: &Error) -> String {
    if let Error::Inputs(invalid) = error {
        let mut lines: Vec<_> =
            invalid.violations.iter().map(|violation| violation.message.as_str()).collect();
        let parameters = format!("the model takes: {}", invalid.parameters.join(", "));
        if invalid.has(ViolationKind::Undeclared) {
            lines.push(&parameters);
        }
        return lines.join("\n");
    }
    let mut headline = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !headline.contains(&text) {
            headline = format!("{headline}: {text}");
        }
        cause = error.source();
    }
    headline
}

fn code(error: &Error) -> u8 {
    match error {
        // The time that a task may stay queued has passed; it is not refused.
        Error::ModelOffline(offline) if offline.task.is_some() => exit::DEADLINE,
        Error::InvalidArgument(_)
        | Error::Inputs(_)
        | Error::CostLimitExceeded(_)
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
        Error::CostLimitExceeded(_) => {
            "raise --max-cost or choose another model; no task was created".to_owned()
        }
        Error::ModelOffline(offline) => match &offline.task {
            Some(task) => hint_of_task(task, offline.disposition).unwrap_or_else(|| error.hint().to_owned()),
            None => "try again later or without --require-serving; no task was created".to_owned(),
        },
        Error::DeadlineReached(reached) => {
            let task = reached.task.as_ref();
            let hint = task.and_then(|task| hint_of_task(task, reached.disposition));
            hint.unwrap_or_else(|| error.hint().to_owned())
        }
        Error::OutcomeUnknown(unknown) if !unknown.candidates.is_empty() => {
            "look at each candidate with `inferstore task show` before you run it again".to_owned()
        }
        other => other.hint().to_owned(),
    }
}

/// The next command for a task that may not have ended.
fn hint_of_task(task: &TaskId, disposition: TaskDisposition) -> Option<String> {
    match disposition {
        TaskDisposition::StillRunning => {
            Some(format!("it is billed if it succeeds; wait for it with: inferstore task wait {task}"))
        }
        TaskDisposition::CancelUnknown => {
            Some(format!("see whether it was canceled with: inferstore task show {task}"))
        }
        _ => None,
    }
}

fn context(context: &CallContext) -> Vec<String> {
    let mut lines = vec![
        format!("operation: {}", context.operation),
        format!("attempts: {} in {:.1} s", context.attempts, context.elapsed.as_secs_f64()),
        format!("safe to retry: {}", if context.is_retry_safe { "yes" } else { "no" }),
    ];
    let known = [
        ("status", context.status.map(|status| status.to_string())),
        ("request id", context.request_id.clone()),
        ("task", context.task.as_ref().map(ToString::to_string)),
        ("response", context.excerpt.clone()),
    ];
    lines.extend(known.into_iter().filter_map(|(name, value)| Some(format!("{name}: {}", value?))));
    lines
}

fn data(error: &Error) -> Vec<String> {
    match error {
        Error::DeadlineReached(_) | Error::ModelOffline(_) => {
            error.task_id().into_iter().map(ToString::to_string).collect()
        }
        Error::OutcomeUnknown(unknown) => unknown.candidates.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use inferstore::types::TaskId;
    use inferstore::{Error, FileError, FileErrorKind, ModelOffline, TaskDisposition};

    use super::Failure;
    use crate::exit;

    #[test]
    fn a_cause_is_printed_unless_the_error_contains_it_already() {
        let error = FileError::new("photo.jpg", FileErrorKind::Unreadable, "it cannot be read");
        let failure = Failure::from(Error::from(error.with_source("the disk is gone")));
        assert_eq!(failure.headline, "photo.jpg: it cannot be read: the disk is gone");
        assert_eq!(failure.hint.as_deref(), Some("check the path and the permissions"));
        let error = FileError::new("photo.jpg", FileErrorKind::Rejected, "rejected: too late");
        let failure = Failure::from(Error::from(error.with_source("too late")));
        assert_eq!(failure.headline, "photo.jpg: rejected: too late");
    }

    #[test]
    fn a_model_that_is_offline_is_an_input_error_only_while_no_task_was_created() {
        let mut offline = ModelOffline::new("face-mesh");
        let refused = Failure::from(Error::ModelOffline(Box::new(offline.clone())));
        assert_eq!(refused.code, exit::INPUT);
        assert!(refused.data.is_empty());
        offline.task = Some(TaskId::from("7b0e"));
        offline.disposition = TaskDisposition::StillRunning;
        let queued = Failure::from(Error::ModelOffline(Box::new(offline)));
        assert_eq!(queued.code, exit::DEADLINE);
        assert_eq!(queued.data, ["7b0e"]);
        assert!(queued.hint.is_some_and(|hint| hint.ends_with("inferstore task wait 7b0e")));
    }
}
