//! Failures of the command: a message, a hint with the command to type, an exit code, and data for standard output.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use inferstore::types::{TaskId, TaskStatus};
use inferstore::{
    CallContext, Error, ErrorKind, FileErrorKind, Resource, TaskDisposition, ViolationKind, nearest,
};
use serde_json::json;

use crate::exit;
use crate::table::printable;

pub(crate) type Result<T = (), E = Failure> = std::result::Result<T, E>;

#[derive(Debug, Clone, Default)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    /// The error message: one line, or one line for each input, without control characters.
    pub(crate) headline: String,
    pub(crate) hint: Option<String>,
    /// The lines that `-v` adds.
    pub(crate) context: Vec<String>,
    /// Identifiers of tasks, one a line, for scripts.
    pub(crate) data: Vec<String>,
    /// Something on this machine, such as a full disk, that further work would meet too.
    pub(crate) is_local: bool,
    /// The service could not respond, and may do so later.
    pub(crate) is_temporary: bool,
    /// The same as JSON: the task, or an object with `candidates`.
    pub(crate) json: Option<Box<str>>,
}

impl Failure {
    pub(crate) fn new(code: u8, headline: impl Into<String>) -> Self {
        Self { code, headline: printable(&headline.into()), ..Self::default() }
    }

    pub(crate) fn usage(headline: impl Into<String>) -> Self {
        Self::new(exit::USAGE, headline)
    }

    /// Of something on this machine, such as a file.
    pub(crate) fn local_failure(doing: impl Display, cause: impl Display) -> Self {
        let failure = Self::new(exit::FAILED, format!("{doing}: {cause}"));
        Self { is_local: true, ..failure.with_hint("correct that on this machine and try again") }
    }

    /// Of a path on this machine; `problem` is such as `cannot be written`.
    pub(crate) fn of_path<E: Display>(path: &Path, problem: &str) -> impl Fn(E) -> Self {
        move |error| Self::local_failure(format_args!("{} {problem}", path.display()), error)
    }

    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    pub(crate) fn or_hint(self, hint: Option<impl Into<String>>) -> Self {
        Self { hint: hint.map(Into::into).or(self.hint), ..self }
    }

    pub(crate) fn with_json(self, json: Option<String>) -> Self {
        Self { json: json.map(String::into_boxed_str).or(self.json), ..self }
    }

    pub(crate) fn with_code(self, code: u8) -> Self {
        Self { code, ..self }
    }

    pub(crate) fn about(self, file: &str) -> Self {
        let headline = &self.headline;
        let file = printable(file);
        let is_whole = |before: &str| before.is_empty() || before.ends_with(": ") || before.ends_with('/');
        if headline.match_indices(&format!("{file}: ")).any(|(at, _)| is_whole(&headline[..at])) {
            return self;
        }
        Self { headline: format!("{file}: {headline}"), ..self }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let (code, hint) = code_and_hint(&error);
        Self {
            code,
            headline: headline(&error),
            hint: Some(hint),
            context: error.context().map(context).unwrap_or_default(),
            data: tasks(&error).iter().map(ToString::to_string).collect(),
            is_local: is_file_error(&error, FileErrorKind::Unwritable),
            is_temporary: error.is_retryable(),
            json: json_of(&error).map(String::into_boxed_str),
        }
    }
}

/// Returns the message of an error: one line, or a line for each invalid input.
fn headline(error: &Error) -> String {
    if let Error::Inputs(invalid) = error {
        let mut lines: Vec<_> =
            invalid.violations.iter().map(|violation| printable(&violation.message)).collect();
        if invalid.has(ViolationKind::Undeclared) {
            lines.push(printable(&format!("the model takes: {}", invalid.parameters.join(", "))));
        }
        return lines.join("\n");
    }
    let whole = || match error.context() {
        // `-v` shows the identifier of the operation.
        Some(context) => error.with_causes().replace(context.operation, described(context)),
        None => error.with_causes(),
    };
    printable(&rejection(error).unwrap_or_else(whole))
}

fn described(context: &CallContext) -> &'static str {
    match context.resource() {
        Some(Resource::Account) => "the request about the account",
        Some(Resource::Model) => "the request about the model",
        Some(Resource::Task) => "the request about the task",
        Some(Resource::File) => "the request about the file",
        _ => "the request",
    }
}

/// The message of the service, without the name of the operation, which `-v` adds.
fn rejection(error: &Error) -> Option<String> {
    let Error::Api(context) = error else { return None };
    let message = context.message.as_deref().filter(|message| !message.is_empty())?;
    Some(match context.status.filter(|status| *status >= 400) {
        Some(status @ 500..) => format!("the service failed: {message} (status {status})"),
        Some(status) => format!("the service refused: {message} (status {status})"),
        None => format!("the service refused: {message}"),
    })
}

pub(crate) fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map_or_else(String::new, |nearest| format!("did you mean `{nearest}`? "))
}

/// The file or folder here that is nearest to a path that leads nowhere.
fn nearest_path(path: &Path) -> Option<PathBuf> {
    let parent = path.parent()?;
    let folder = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    if !folder.exists() {
        return nearest_path(folder);
    }
    let name = path.file_name()?.to_str()?;
    let entries = std::fs::read_dir(folder).ok()?;
    let mut known: Vec<_> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    known.sort();
    let others = known.iter().map(String::as_str).filter(|known| *known != name);
    // Names of files often begin and end alike, and a wrong one may be paid for.
    let is_slip = |near: &&str| strsim::damerau_levenshtein(name, near) <= (name.len() / 3).max(1);
    nearest(name, others).filter(is_slip).map(|near| parent.join(near))
}

/// A path as an input of the command line: without a folder, a name may be read as `@FILE` or `name=value`.
fn typed(path: &Path) -> String {
    let text = path.display().to_string();
    let is_misread = !text.contains('/') && (text.starts_with('@') || text.contains('='));
    if is_misread { format!("./{text}") } else { text }
}

const WRONG_ADDRESS: &str =
    "the base URL is perhaps not that of the API, which ends in /api/v1: `inferstore status` shows it";

/// The exit code of an error, and what to try, as commands and options that can be typed.
fn code_and_hint(error: &Error) -> (u8, String) {
    let task = error.task_id();
    let (code, hint) = match error.kind() {
        ErrorKind::Unauthorized => (
            exit::KEY,
            "`inferstore status` shows which service and key are used; `inferstore profile use` chooses another profile, \
             `inferstore login` stores another key",
        ),
        ErrorKind::InvalidInput | ErrorKind::TooLarge => return (exit::INPUT, hint_of_input(error)),
        ErrorKind::CostLimitExceeded => (
            exit::INPUT,
            "raise or drop --max-cost or --budget, or choose another model; no task was created",
        ),
        ErrorKind::ModelOffline => {
            (exit::INPUT, "try again later or without --require-serving; no task was created")
        }
        ErrorKind::InsufficientBalance
        | ErrorKind::NotFound
        | ErrorKind::Conflict
        | ErrorKind::RateLimited
        | ErrorKind::Rejected
        | ErrorKind::Unavailable => return (exit::REFUSED, hint_of_rejection(error)),
        ErrorKind::NoResponse => (
            exit::NOT_REACHED,
            match error {
                _ if let Some(hint) = hint_of_certificate(&error.with_causes()) => hint,
                Error::File(_) => error.hint(),
                _ if error.is_retryable() => {
                    "`inferstore doctor` finds the cause; `inferstore serve` runs a service here"
                }
                _ => match error.context().and_then(CallContext::resource) {
                    Some(Resource::File) => "see whether it had its effect: `inferstore files list FOLDER`",
                    Some(Resource::Account) => "see whether it had its effect: `inferstore keys list`",
                    _ => "see whether it had its effect before you try again: `inferstore task list`",
                },
            },
        ),
        ErrorKind::OutcomeUnknown => (
            exit::OUTCOME_UNKNOWN,
            match error.candidates() {
                [] => "look for it with `inferstore task list` in a moment, before you run it again",
                _ => "look at each candidate with `inferstore task show` before you run it again",
            },
        ),
        ErrorKind::TaskFailed => (exit::TASK_FAILED, error.hint()),
        ErrorKind::TaskCanceled => (exit::TASK_CANCELED, error.hint()),
        ErrorKind::DeadlineReached => {
            let hint = task.zip(error.disposition()).and_then(|(task, ended)| hint_of_task(task, ended));
            return (exit::DEADLINE, hint.unwrap_or_else(|| error.hint().to_owned()));
        }
        ErrorKind::InvalidResponse if error.context().is_some() => (exit::FAILED, WRONG_ADDRESS),
        ErrorKind::LocalFile if is_file_error(error, FileErrorKind::AlreadyExists) => {
            (exit::INPUT, "choose another name, or give --overwrite")
        }
        _ => (exit::FAILED, error.hint()),
    };
    (code, hint.to_owned())
}

/// Returns what to try after a refused certificate, by the causes of the failure.
pub(crate) fn hint_of_certificate(causes: &str) -> Option<&'static str> {
    let (_, cause) = causes.rsplit_once("certificate: ")?;
    Some(if cause.contains("CaUsedAsEndEntity") {
        "the certificate is its own authority, and is not trusted here: give it with --cacert"
    } else if cause.contains("UnknownIssuer") || cause.contains("unknown") {
        "its authority is not trusted here: give the certificate of the authority with --cacert, or set SSL_CERT_FILE"
    } else {
        "is the certificate valid for this name, is the clock of this machine right, does --cacert name its authority?"
    })
}

fn is_file_error(error: &Error, kind: FileErrorKind) -> bool {
    matches!(error, Error::File(file) if file.kind == kind)
}

fn hint_of_input(error: &Error) -> String {
    let Error::File(file) = error else { return error.hint().to_owned() };
    let hint = match file.kind {
        FileErrorKind::NotFound => {
            let near = nearest_path(Path::new(&file.file));
            let near = near.map_or_else(String::new, |near| format!("did you mean `{}`? ", typed(&near)));
            return near + error.hint();
        }
        FileErrorKind::TooLarge => "choose a smaller file",
        FileErrorKind::Unreadable => "give the path of a file that you can read, or - for standard input",
        _ => error.hint(),
    };
    hint.to_owned()
}

fn hint_of_rejection(error: &Error) -> String {
    // Object storage responds to what is not below the root of the API.
    let excerpt = error.context().and_then(|context| context.excerpt.as_deref());
    let is_of_storage = excerpt.is_some_and(|excerpt| excerpt.starts_with("<?xml"));
    let hint = match error.kind() {
        ErrorKind::InsufficientBalance => {
            "`inferstore balance` shows what is left; `inferstore admin credit ACCOUNT AMOUNT` adds to it on a \
             service of your own"
        }
        _ if is_of_storage => WRONG_ADDRESS,
        ErrorKind::NotFound => match error.context().and_then(CallContext::resource) {
            Some(Resource::Task) => "`inferstore task list` shows your tasks",
            Some(Resource::Model) => "`inferstore models list` shows the models",
            Some(Resource::File) => "`inferstore files list FOLDER` shows your files",
            Some(Resource::Account) => WRONG_ADDRESS,
            _ => error.hint(),
        },
        ErrorKind::Conflict if let Some(task) = error.task_id() => {
            return format!("`inferstore task show {task}` shows its present state");
        }
        _ => error.hint(),
    };
    hint.to_owned()
}

fn hint_of_task(task: &TaskId, disposition: TaskDisposition) -> Option<String> {
    let (hint, options) = match disposition {
        TaskDisposition::StillRunning => {
            ("it is billed if it succeeds; wait for it with: inferstore task wait", " -o outputs/")
        }
        TaskDisposition::CancelUnknown => ("see whether it was canceled with: inferstore task show", ""),
        _ => return None,
    };
    Some(format!("{hint} {task}{options}"))
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

/// The tasks that scripts want to know: one that may go on, or those that a create may have become.
fn tasks(error: &Error) -> &[TaskId] {
    match error.kind() {
        ErrorKind::DeadlineReached => error.task_id().map(std::slice::from_ref).unwrap_or_default(),
        _ => error.candidates(),
    }
}

fn json_of(error: &Error) -> Option<String> {
    match error {
        Error::OutcomeUnknown(unknown) => Some(json!({ "candidates": unknown.candidates }).to_string()),
        Error::DeadlineReached(reached) => {
            let is_canceled = reached.disposition == TaskDisposition::Canceled;
            let status = if is_canceled { Some(&TaskStatus::Canceled) } else { reached.last_status.as_ref() };
            Some(task_record(reached.task.as_ref()?, status))
        }
        _ => None,
    }
}

pub(crate) fn task_record(task: &TaskId, status: Option<&TaskStatus>) -> String {
    json!({ "task_id": task, "status": status }).to_string()
}

#[cfg(test)]
mod tests {
    use inferstore::{Error, FileError, FileErrorKind};

    use super::Failure;

    #[test]
    fn a_cause_is_printed_unless_the_error_contains_it_already() {
        let error = FileError::new("photo.jpg", FileErrorKind::Unreadable, "it cannot be read");
        let failure = Failure::from(Error::from(error.with_source("the disk is gone")));
        assert_eq!(failure.headline, "photo.jpg: it cannot be read: the disk is gone");
        assert!(failure.hint.is_some_and(|hint| hint.starts_with("give the path of a file")));
    }

    #[test]
    fn a_failure_names_its_file_once_however_short_the_name_is() {
        for (file, headline, named) in [
            ("e", "the service failed", "e: the service failed"),
            ("e", "e: not started", "e: not started"),
            ("a.png", "input_image: a.png: it is empty", "input_image: a.png: it is empty"),
            ("a.png", "pictures/a.png: it is empty", "pictures/a.png: it is empty"),
            ("a.png", "aa.png: it is empty", "a.png: aa.png: it is empty"),
        ] {
            assert_eq!(Failure::new(1, headline).about(file).headline, named);
        }
    }
}
