//! Failures of the command: a message, a hint with the command to type, an exit code, and the data that belong on
//! standard output nevertheless.

use std::error::Error as _;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use inferstore::types::{TaskId, TaskStatus};
use inferstore::{CallContext, Error, FileErrorKind, TaskDisposition, ViolationKind};
use serde_json::json;

use crate::exit;
use crate::table::printable;

/// A result of a command.
pub(crate) type Result<T = (), E = Failure> = std::result::Result<T, E>;

/// A failure of a command.
#[derive(Debug, Clone, Default)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    /// What failed, in one line, or one line for each input, without control characters.
    pub(crate) headline: String,
    /// What to try.
    pub(crate) hint: Option<String>,
    /// What `-v` adds.
    pub(crate) context: Vec<String>,
    /// What scripts want to know: identifiers of tasks, one a line.
    pub(crate) data: Vec<String>,
    /// The same as JSON: the task, or an object with `candidates`.
    pub(crate) json: Option<Box<str>>,
}

impl Failure {
    pub(crate) fn new(code: u8, headline: impl Into<String>) -> Self {
        Self { code, headline: printable(&headline.into()), ..Self::default() }
    }

    /// Of the command line or a setting.
    pub(crate) fn usage(headline: impl Into<String>) -> Self {
        Self::new(exit::USAGE, headline)
    }

    /// Of something on this machine, such as a file.
    pub(crate) fn local_failure(doing: impl Display, cause: impl Display) -> Self {
        Self::new(exit::FAILED, format!("{doing}: {cause}"))
            .with_hint("correct that on this machine and try again")
    }

    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The failure with the JSON of a task, if that is known.
    pub(crate) fn with_json(self, json: Option<String>) -> Self {
        Self { json: json.map(String::into_boxed_str).or(self.json), ..self }
    }

    pub(crate) fn with_code(self, code: u8) -> Self {
        Self { code, ..self }
    }

    /// The failure with the file that it is about.
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
        Self {
            code: code(&error),
            headline: headline(&error),
            hint: Some(hint(&error)),
            context: error.context().map(context).unwrap_or_default(),
            data: data(&error),
            json: json_of(&error).map(String::into_boxed_str),
        }
    }
}

/// What failed in one line, or a line for each input that does not fit.
fn headline(error: &Error) -> String {
    if let Error::Inputs(invalid) = error {
        let mut lines: Vec<_> =
            invalid.violations.iter().map(|violation| printable(&violation.message)).collect();
        if invalid.has(ViolationKind::Undeclared) {
            lines.push(printable(&format!("the model takes: {}", invalid.parameters.join(", "))));
        }
        return lines.join("\n");
    }
    printable(&refusal(error).unwrap_or_else(|| with_causes(error)))
}

fn with_causes(error: &Error) -> String {
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

/// The message of the service, without the name of the operation, which `-v` adds.
fn refusal(error: &Error) -> Option<String> {
    let (Error::Api(context) | Error::Unauthorized(context)) = error else { return None };
    let message = context.message.as_deref().filter(|message| !message.is_empty())?;
    Some(match context.status.filter(|status| *status >= 400) {
        Some(status @ 500..) => format!("the service failed: {message} (status {status})"),
        Some(status) => format!("the service refused: {message} (status {status})"),
        None => format!("the service refused: {message}"),
    })
}

/// The nearest of the words, as the beginning of a hint; empty if none is near.
pub(crate) fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map_or_else(String::new, |nearest| format!("did you mean `{nearest}`? "))
}

/// The word that is nearest to one that was mistyped.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase().replace(['_', ' '], "-");
    let distance = |known: &str| {
        let known = known.to_lowercase().replace(['_', ' '], "-");
        let is_part = word.len() >= 4 && known.contains(&word);
        if is_part { 1 } else { strsim::damerau_levenshtein(&word, &known) }
    };
    let near = known.into_iter().map(|known| (distance(known), known));
    let near = near.min_by_key(|(distance, _)| *distance);
    near.filter(|(distance, _)| *distance <= (word.len() / 3).max(1)).map(|(_, known)| known)
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
    nearest(name, others).map(|near| parent.join(near))
}

/// A path as an input of the command line: without a folder, a name may be read as `@FILE` or `name=value`.
fn typed(path: &Path) -> String {
    let text = path.display().to_string();
    if !text.contains('/') && (text.starts_with('@') || text.contains('=')) {
        format!("./{text}")
    } else {
        text
    }
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
        Error::File(file) if file.kind == FileErrorKind::Transport => exit::NOT_REACHED,
        Error::OutcomeUnknown(_) => exit::OUTCOME_UNKNOWN,
        Error::TaskFailed(_) => exit::TASK_FAILED,
        Error::TaskCanceled(_) => exit::TASK_CANCELED,
        Error::DeadlineReached(_) => exit::DEADLINE,
        _ => exit::FAILED,
    }
}

const WRONG_ADDRESS: &str =
    "the base URL is perhaps not that of the API, which ends in /api/v1: `inferstore status` shows it";

/// What to try, as commands and options that can be typed.
fn hint(error: &Error) -> String {
    let hint = match error {
        Error::Unauthorized(_) => {
            "`inferstore login` stores another key; `inferstore status` shows which is used"
        }
        Error::CostLimitExceeded(_) => {
            "raise or drop --max-cost, or choose another model; no task was created"
        }
        Error::ModelOffline(offline) => match &offline.task {
            Some(task) => {
                return hint_of_task(task, offline.disposition).unwrap_or_else(|| error.hint().to_owned());
            }
            None => "try again later or without --require-serving; no task was created",
        },
        Error::DeadlineReached(reached) => {
            let task = reached.task.as_ref();
            let hint = task.and_then(|task| hint_of_task(task, reached.disposition));
            return hint.unwrap_or_else(|| error.hint().to_owned());
        }
        Error::OutcomeUnknown(unknown) if !unknown.candidates.is_empty() => {
            "look at each candidate with `inferstore task show` before you run it again"
        }
        Error::OutcomeUnknown(_) => {
            "look for it with `inferstore task list` in a moment, before you run it again"
        }
        Error::Transport(context) if context.is_retry_safe => {
            "`inferstore doctor` finds the cause; `inferstore serve` runs a service here"
        }
        Error::Transport(_) => "see whether it had its effect before you try again: `inferstore task list`",
        Error::Decode(_) => WRONG_ADDRESS,
        Error::File(file) if file.kind == FileErrorKind::AlreadyExists => {
            "choose another name, or give --overwrite"
        }
        Error::File(file) if file.kind == FileErrorKind::NotFound => {
            let near = nearest_path(Path::new(&file.file));
            let near = near.map_or_else(String::new, |near| format!("did you mean `{}`? ", typed(&near)));
            return near + error.hint();
        }
        Error::File(file) if file.kind == FileErrorKind::TooLarge => "choose a smaller file",
        Error::File(file) if file.kind == FileErrorKind::Unreadable => {
            "give the path of a file that you can read, - for standard input, or a URL"
        }
        Error::Api(context) => match context.status {
            Some(402) => {
                "`inferstore balance` shows what is left; `inferstore admin credit ACCOUNT AMOUNT` adds to it on a \
                 service of your own"
            }
            Some(404) if context.operation.contains("Task") => "`inferstore task list` shows your tasks",
            Some(404) if context.operation.contains("Model") => "`inferstore models list` shows the models",
            Some(404) if context.operation.contains("File") => {
                "`inferstore files list FOLDER` shows your files"
            }
            Some(404) if context.operation == "getBalance" => WRONG_ADDRESS,
            Some(409) if context.task.is_some() => {
                let task = context.task.as_ref().map(ToString::to_string).unwrap_or_default();
                return format!("`inferstore task show {task}` shows its present state");
            }
            _ if context.excerpt.as_deref().is_some_and(|excerpt| excerpt.starts_with("<?xml")) => {
                WRONG_ADDRESS
            }
            _ => error.hint(),
        },
        other => other.hint(),
    };
    hint.to_owned()
}

/// The next command for a task that may not have ended.
fn hint_of_task(task: &TaskId, disposition: TaskDisposition) -> Option<String> {
    match disposition {
        TaskDisposition::StillRunning => Some(format!(
            "it is billed if it succeeds; wait for it with: inferstore task wait {task} -o outputs/"
        )),
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

fn json_of(error: &Error) -> Option<String> {
    match error {
        Error::DeadlineReached(reached) => {
            Some(task_json(reached.task.as_ref()?, reached.disposition, reached.last_status.as_ref()))
        }
        Error::ModelOffline(offline) => {
            Some(task_json(offline.task.as_ref()?, offline.disposition, Some(&TaskStatus::InQueue)))
        }
        Error::OutcomeUnknown(unknown) => Some(json!({ "candidates": unknown.candidates }).to_string()),
        _ => None,
    }
}

fn task_json(task: &TaskId, disposition: TaskDisposition, seen: Option<&TaskStatus>) -> String {
    let is_canceled = disposition == TaskDisposition::Canceled;
    task_record(task, if is_canceled { Some(&TaskStatus::Canceled) } else { seen })
}

/// A task with the status that it had last, as JSON.
pub(crate) fn task_record(task: &TaskId, status: Option<&TaskStatus>) -> String {
    json!({ "task_id": task, "status": status }).to_string()
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
        assert!(failure.hint.is_some_and(|hint| hint.starts_with("give the path of a file")));
        let error = FileError::new("photo.jpg", FileErrorKind::Rejected, "rejected: too late");
        let failure = Failure::from(Error::from(error.with_source("too late")));
        assert_eq!(failure.headline, "photo.jpg: rejected: too late");
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
        assert!(queued.hint.is_some_and(|hint| hint.contains("inferstore task wait 7b0e")));
    }
}
