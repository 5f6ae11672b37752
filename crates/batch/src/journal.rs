//! The journal of a batch: one line of JSON for each step of an item, so that a second start continues.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use inferstore::types::{ModelId, TaskId};
use inferstore::{Decimal, PreparedRun};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A step of an item.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Step {
    /// The inputs are uploaded, and the task may have been created.
    Prepared(PreparedRun),
    /// The task was created.
    Started {
        /// The task.
        task: TaskId,
        /// The URLs of the inputs that were uploaded for it.
        uploaded: Vec<String>,
        /// Its model. `None` in a journal of an earlier version.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<ModelId>,
        /// The most that the task costs, if the run had a limit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_cost: Option<Decimal>,
    },
    /// The service did not know the task. It is read once more before the item is run again: a gateway, or another key,
    /// gets the same response.
    Gone {
        /// The task.
        task: TaskId,
        /// The URLs of the inputs that were uploaded for it.
        uploaded: Vec<String>,
        /// The most that the task costs, if the run had a limit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_cost: Option<Decimal>,
    },
    /// The outputs are downloaded, and moved to these paths next.
    Saving {
        /// The task.
        task: TaskId,
        /// The URLs of the inputs that were uploaded for it.
        uploaded: Vec<String>,
        /// The paths.
        outputs: Vec<PathBuf>,
        /// The cost of the task. `None` in a journal of an earlier version.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<Decimal>,
    },
    /// The outputs are saved.
    Done {
        /// The task.
        task: TaskId,
        /// The cost of the task.
        cost: String,
        /// The paths of the outputs.
        outputs: Vec<PathBuf>,
        /// The output as the service returned it.
        #[serde(default)]
        output: Value,
    },
    /// There is no task, or it failed or was canceled, and cost nothing.
    Failed(String),
    /// These inputs are deleted; the item is at another step apart from that.
    Deleting {
        /// The URLs of the inputs.
        uploaded: Vec<String>,
        /// The step that follows.
        then: Box<Step>,
    },
    /// A step of an earlier version, which says nothing of an item.
    ContactSheet(Value),
}

impl Step {
    /// The step apart from inputs that are still to be deleted.
    pub fn last(&self) -> &Self {
        match self {
            Self::Deleting { then, .. } => then,
            step => step,
        }
    }

    /// The task, if the step names one.
    pub fn task(&self) -> Option<&TaskId> {
        match self.last() {
            Self::Started { task, .. }
            | Self::Gone { task, .. }
            | Self::Saving { task, .. }
            | Self::Done { task, .. } => Some(task),
            _ => None,
        }
    }

    /// The cost of the task, or the most that it can be. `Some(None)`: the journal does not state it.
    fn charge(&self) -> Option<Option<Decimal>> {
        match self.last() {
            Self::Prepared(run) => Some(run.max_cost.clone()),
            Self::Started { max_cost, .. } | Self::Gone { max_cost, .. } => Some(max_cost.clone()),
            Self::Saving { cost, .. } => Some(cost.clone()),
            Self::Done { cost, .. } => Some(cost.parse().ok()),
            Self::Failed(_) | Self::Deleting { .. } | Self::ContactSheet(_) => None,
        }
    }

    /// The limit of the cost of a task that has not ended.
    pub(crate) fn max_cost(&self) -> Option<Decimal> {
        self.charge().flatten()
    }

    /// The uploaded inputs that no step has deleted, or is about to.
    pub(crate) fn uploaded(&self) -> &[String] {
        match self {
            Self::Prepared(run) => &run.uploaded,
            Self::Started { uploaded, .. } | Self::Gone { uploaded, .. } | Self::Saving { uploaded, .. } => {
                uploaded
            }
            _ => &[],
        }
    }
}

/// The last step of each item, and the file in which all steps are written.
#[derive(Debug)]
pub struct Journal {
    steps: BTreeMap<String, Step>,
    file: File,
    path: PathBuf,
    /// The length of the lines that are whole.
    length: u64,
    ledger: Ledger,
    /// Why nothing can be written any more.
    broken: Option<String>,
}

/// The sum of the costs of the items.
#[derive(Clone, Debug, Default)]
struct Ledger {
    known: Decimal,
    /// The number of items whose cost the journal does not state.
    unknown: u32,
}

impl Ledger {
    fn add(&mut self, step: &Step) {
        match step.charge() {
            Some(Some(cost)) => self.known += cost,
            Some(None) => self.unknown += 1,
            None => {}
        }
    }

    fn remove(&mut self, step: Option<&Step>) {
        match step.and_then(Step::charge) {
            Some(Some(cost)) => self.known = &self.known - &cost,
            Some(None) => self.unknown -= 1,
            None => {}
        }
    }

    fn sum(&self, unknown: &Decimal) -> Decimal {
        (0..self.unknown).map(|_| unknown).fold(self.known.clone(), |sum, cost| &sum + cost)
    }
}

/// A journal that cannot be opened or written.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct JournalError {
    /// Why.
    pub kind: JournalErrorKind,
    message: String,
}

/// Why a journal cannot be opened or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JournalErrorKind {
    /// Another process has it.
    Locked,
    /// The file system knows no locks.
    NoLocks,
    /// The file cannot be opened or read.
    Unreadable,
    /// A line of the file is no step of an item.
    Malformed,
    /// A step cannot be written.
    Unwritable,
}

impl JournalError {
    fn unusable(kind: JournalErrorKind, path: &Path, cause: impl std::fmt::Display) -> Self {
        Self { kind, message: format!("{} cannot be used: {cause}", path.display()) }
    }
}

impl Journal {
    /// Opens the journal at this path, or creates it. Only one process has it.
    ///
    /// # Errors
    ///
    /// Another process has it, or it cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, JournalError> {
        let path = path.as_ref().to_owned();
        let unreadable =
            |error: io::Error| JournalError::unusable(JournalErrorKind::Unreadable, &path, error);
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        // It names inputs and outputs of its owner.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path).map_err(unreadable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let message = format!("another process writes to the journal {}", path.display());
                return Err(JournalError { kind: JournalErrorKind::Locked, message });
            }
            Err(TryLockError::Error(error)) => {
                let cause = format!("it cannot be locked: {error}");
                return Err(JournalError::unusable(JournalErrorKind::NoLocks, &path, cause));
            }
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(unreadable)?;
        // A kill can cut the last line short, even inside a character.
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        text.truncate(whole);
        let mut steps: BTreeMap<String, Step> = BTreeMap::new();
        for (number, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let (key, step) = serde_json::from_slice(line.trim_ascii_end()).map_err(|error| {
                // The parser sees one line alone, and calls it the first.
                let cause = error.to_string();
                let cause = cause.rsplit_once(" at line ").map_or(&*cause, |(cause, _)| cause);
                let cause = format!("line {}, column {}: {cause}", number + 1, error.column());
                JournalError::unusable(JournalErrorKind::Malformed, &path, cause)
            })?;
            steps.insert(key, step);
        }
        let length = whole as u64;
        file.set_len(length).map_err(unreadable)?;
        let mut ledger = Ledger::default();
        steps.values().for_each(|step| ledger.add(step));
        Ok(Self { steps, file, path, length, ledger, broken: None })
    }

    /// The last step of the item.
    pub fn step(&self, key: &str) -> Option<&Step> {
        self.steps.get(key)
    }

    /// The items with their last steps.
    pub fn items(&self) -> impl Iterator<Item = (&str, &Step)> {
        self.steps.iter().map(|(key, step)| (key.as_str(), step))
    }

    /// The cost of all items together: what those that have ended have cost, and the most that the others can cost. An
    /// item whose cost the journal does not state counts as `unknown`.
    pub fn committed(&self, unknown: &Decimal) -> Decimal {
        self.ledger.sum(unknown)
    }

    /// The same cost without the item with this key.
    pub(crate) fn committed_by_others(&self, key: &str, unknown: &Decimal) -> Decimal {
        let mut ledger = self.ledger.clone();
        ledger.remove(self.steps.get(key));
        ledger.sum(unknown)
    }

    /// The tasks that the steps name.
    pub fn tasks(&self) -> impl Iterator<Item = &TaskId> {
        self.steps.values().filter_map(Step::task)
    }

    /// Writes a step durably.
    pub(crate) fn write(&mut self, key: &str, step: Step) -> Result<(), JournalError> {
        let line = serde_json::to_string(&(key, &step)).map(|line| line + "\n");
        let written = line.map_err(io::Error::from).and_then(|line| {
            self.append(line.len() as u64, |file| {
                file.write_all(line.as_bytes()).and_then(|()| file.sync_data())
            })
        });
        written.map_err(|error| JournalError {
            kind: JournalErrorKind::Unwritable,
            message: format!("{} cannot be written: {error}", self.path.display()),
        })?;
        self.ledger.add(&step);
        let earlier = self.steps.insert(key.to_owned(), step);
        self.ledger.remove(earlier.as_ref());
        Ok(())
    }

    /// Appends so many bytes. What is written of them before a failure is removed: a line that follows half a line
    /// would make the journal unreadable.
    fn append(&mut self, length: u64, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        if let Some(broken) = &self.broken {
            return Err(io::Error::other(broken.clone()));
        }
        if let Err(error) = write(&mut self.file) {
            if let Err(problem) = self.file.set_len(self.length) {
                self.broken = Some(format!("half a line of it could not be removed: {problem}"));
            }
            return Err(error);
        }
        self.length += length;
        Ok(())
    }
}

/// Closing the file may not be enough: a process that another thread is starting has it too until it has begun.
impl Drop for Journal {
    fn drop(&mut self) {
        // The operating system releases a lock that cannot be released here once the file is closed everywhere.
        let _ = self.file.unlock();
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may end when its set-up fails")]
mod tests {
    use super::*;

    const NAME: &str = "journal.jsonl";

    fn failed(why: &str) -> Step {
        Step::Failed(why.to_owned())
    }

    #[test]
    fn a_journal_keeps_the_last_step_of_each_item_and_forgets_half_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Journal::open(folder.path().join(NAME));
        let mut journal = open().unwrap();
        journal.write("a", failed("first")).unwrap();
        journal.write("a", failed("second")).unwrap();
        assert_eq!(open().unwrap_err().kind, JournalErrorKind::Locked);
        drop(journal);
        // The second one is cut inside a character.
        for half in [br#"["b",{"Failed":"cut"#.as_slice(), b"[\"b\",{\"Failed\":\"\xc3"] {
            open().unwrap().file.write_all(half).unwrap();
            let journal = open().unwrap();
            assert!(matches!(journal.step("a"), Some(Step::Failed(why)) if why == "second"));
            assert!(journal.step("b").is_none());
        }
        open().unwrap().write("b", failed("whole")).unwrap();
        assert!(open().unwrap().step("b").is_some());
    }

    #[test]
    fn a_step_that_is_written_in_part_leaves_the_journal_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        let mut journal = Journal::open(&path).unwrap();
        journal.write("a", failed("first")).unwrap();
        let full = |file: &mut File| {
            file.write_all(br#"["b",{"Fai"#)?;
            Err(io::ErrorKind::StorageFull.into())
        };
        assert!(journal.append(20, full).is_err());
        journal.write("c", failed("third")).unwrap();
        drop(journal);
        let mut journal = Journal::open(&path).unwrap();
        assert!(journal.step("a").is_some() && journal.step("b").is_none() && journal.step("c").is_some());

        journal.file = File::open(&path).unwrap();
        let first = journal.write("d", failed("lost")).unwrap_err();
        let second = journal.write("e", failed("lost")).unwrap_err();
        assert_eq!((first.kind, second.kind), (JournalErrorKind::Unwritable, JournalErrorKind::Unwritable));
        assert!(second.to_string().contains("could not be removed"), "{second}");
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        std::fs::write(&path, "[\"a\",{\"Failed\":\"first\"}]\n[\"b\",7]\n").unwrap();
        let error = Journal::open(&path).unwrap_err();
        assert_eq!(error.kind, JournalErrorKind::Malformed);
        let text = error.to_string();
        assert!(text.contains("line 2, column ") && !text.contains("line 1"), "{text}");
    }

    #[test]
    fn every_step_of_a_journal_of_the_first_version_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        let text = include_str!("../tests/journal.jsonl");
        std::fs::write(&path, text).unwrap();
        let journal = Journal::open(&path).unwrap();
        assert_eq!(journal.steps.len(), text.lines().count());
        let tasks: Vec<&str> = journal.tasks().map(TaskId::as_str).collect();
        assert_eq!(tasks, ["task-2", "task-3", "task-4", "task-5", "task-7"]);
        assert!(matches!(journal.step("prepared"), Some(Step::Prepared(run)) if run.uploaded.len() == 1));
    }
}
