//! The journal of a batch: one line of JSON for each step of a file, so that a second start continues.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use inferstore::PreparedRun;
use inferstore::types::TaskId;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::failure::{Failure, Result};

/// The name of the file.
pub(super) const NAME: &str = "inferstore-batch.jsonl";

/// The last step of a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Step {
    /// The inputs are uploaded; the task may have been created.
    Prepared(PreparedRun),
    /// The task was created.
    Started { task: TaskId, uploaded: Vec<String> },
    /// The service did not know the task, which is asked for once more before the file is run again: a gateway, or
    /// another key, gets the same response.
    Gone { task: TaskId, uploaded: Vec<String> },
    /// The outputs are downloaded, and moved to these paths next.
    Saving { task: TaskId, uploaded: Vec<String>, outputs: Vec<PathBuf> },
    /// The outputs are saved.
    Done {
        task: TaskId,
        cost: String,
        outputs: Vec<PathBuf>,
        #[serde(default)]
        output: Value,
    },
    /// There is no task, or it failed or was canceled, and cost nothing.
    Failed(String),
    /// These inputs are deleted, then the file is at its last step.
    Deleting { uploaded: Vec<String>, then: Box<Step> },
    /// The contact sheet as it was written.
    ContactSheet(Value),
}

impl Step {
    /// The step apart from inputs that are still to be deleted.
    pub(super) fn last(&self) -> &Self {
        match self {
            Self::Deleting { then, .. } => then,
            step => step,
        }
    }
}

/// How many files of a batch earlier starts have brought so far.
#[derive(Default)]
pub(super) struct Earlier {
    pub(super) paid: usize,
    /// Their tasks may be created.
    pub(super) begun: usize,
}

/// The last step of each file, and the file in which all steps are written.
pub(super) struct Journal {
    steps: BTreeMap<String, Step>,
    file: File,
    path: PathBuf,
    /// The length of the lines that are whole.
    length: u64,
    /// Why nothing can be written any more.
    broken: Option<String>,
}

impl Journal {
    /// Counts what earlier starts did for these files, by the journal of a folder if it has one.
    pub(super) fn earlier(folder: &Path, keys: impl Iterator<Item = String>) -> Result<Earlier> {
        let mut earlier = Earlier::default();
        if !folder.join(NAME).exists() {
            return Ok(earlier);
        }
        let journal = Self::open(folder)?;
        for key in keys {
            match journal.step(&key).map(Step::last) {
                Some(Step::Saving { .. } | Step::Done { .. }) => earlier.paid += 1,
                Some(Step::Prepared(_) | Step::Started { .. } | Step::Gone { .. }) => earlier.begun += 1,
                _ => {}
            }
        }
        Ok(earlier)
    }

    /// Opens the journal of a folder, or creates it. Only one process has it.
    pub(super) fn open(folder: &Path) -> Result<Self> {
        let path = folder.join(NAME);
        let failed = |error: &dyn std::fmt::Display| {
            Failure::local_failure(format!("{} cannot be used", path.display()), error)
        };
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        // It names inputs and outputs of its owner.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path).map_err(|error| failed(&error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Failure::usage(format!("another batch writes to {}", folder.display()))
                    .with_hint("wait for it, or choose another folder for -o"));
            }
            Err(TryLockError::Error(error)) => {
                return Err(failed(&format!("it cannot be locked: {error}"))
                    .with_hint("choose a folder for -o on a file system with locks"));
            }
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(|error| failed(&error))?;
        // A kill can cut the last line short, even inside a character.
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        text.truncate(whole);
        let mut steps = BTreeMap::new();
        for (number, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let (key, step) = serde_json::from_slice(line.trim_ascii_end()).map_err(|error| {
                // The parser sees one line alone, and calls it the first.
                let cause = error.to_string();
                let cause = cause.rsplit_once(" at line ").map_or(&*cause, |(cause, _)| cause);
                let place = format!("line {}, column {}", number + 1, error.column());
                failed(&format!("{place}: {cause}"))
                    .with_hint("it is not a journal of this command: move it, or choose another folder")
            })?;
            steps.insert(key, step);
        }
        let length = whole as u64;
        file.set_len(length).map_err(|error| failed(&error))?;
        Ok(Self { steps, file, path, length, broken: None })
    }

    pub(super) fn step(&self, key: &str) -> Option<&Step> {
        self.steps.get(key)
    }

    /// The tasks that are known already.
    pub(super) fn tasks(&self) -> impl Iterator<Item = TaskId> {
        self.steps.values().filter_map(|step| match step.last() {
            Step::Started { task, .. }
            | Step::Gone { task, .. }
            | Step::Saving { task, .. }
            | Step::Done { task, .. } => Some(task.clone()),
            _ => None,
        })
    }

    /// Writes a step durably.
    pub(super) fn write(&mut self, key: &str, step: Step) -> Result {
        let line = serde_json::to_string(&(key, &step)).map(|line| line + "\n");
        let written = line.map_err(io::Error::from).and_then(|line| {
            self.append(line.len() as u64, |file| {
                file.write_all(line.as_bytes()).and_then(|()| file.sync_data())
            })
        });
        written.map_err(|error| {
            Failure::local_failure(format!("{} cannot be written", self.path.display()), error)
        })?;
        self.steps.insert(key.to_owned(), step);
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

/// What makes a file of a batch the same one at the next start: the service, the model, the other inputs, and the
/// file as it is.
pub(super) fn key(base_url: &str, model: &str, others: &BTreeMap<String, Value>, file: Value) -> String {
    json!([base_url, model, others, file]).to_string()
}

/// A file as it is: its path, size and time. A URL is its text.
pub(super) fn identity(given: &str, path: &Path) -> Value {
    let place =
        std::fs::canonicalize(path).map_or_else(|_| given.to_owned(), |path| path.display().to_string());
    identity_at(&place, path)
}

/// The identity of the file at a path once it has been moved to a place, which is its path without links.
pub(super) fn identity_at(place: &str, path: &Path) -> Value {
    let metadata = std::fs::metadata(path).ok();
    let size = metadata.as_ref().map(std::fs::Metadata::len);
    let modified = metadata.and_then(|metadata| metadata.modified().ok());
    let modified = modified
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
        .map(|time| time.as_nanos().to_string());
    json!([place, size, modified])
}

/// Closing the file may not be enough: a process that another thread is starting has it too until it has begun.
impl Drop for Journal {
    fn drop(&mut self) {
        // What cannot be unlocked is, once it is closed everywhere.
        let _ = self.file.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_keeps_the_last_step_of_each_file_and_forgets_half_a_line() -> Result {
        let folder = tempfile::tempdir().map_err(|error| Failure::local_failure("no folder", error))?;
        let mut journal = Journal::open(folder.path())?;
        journal.write("a", Step::Failed("first".to_owned()))?;
        journal.write("a", Step::Failed("second".to_owned()))?;
        assert!(Journal::open(folder.path()).is_err(), "one process has it");
        drop(journal);
        // The second one is cut inside a character.
        for half in [br#"["b",{"Failed":"cut"#.as_slice(), b"[\"b\",{\"Failed\":\"\xc3"] {
            let mut journal = Journal::open(folder.path())?;
            assert!(journal.file.write_all(half).is_ok());
            drop(journal);
            let journal = Journal::open(folder.path())?;
            assert!(matches!(journal.step("a"), Some(Step::Failed(why)) if why == "second"));
            assert!(journal.step("b").is_none());
        }
        let mut journal = Journal::open(folder.path())?;
        journal.write("b", Step::Failed("whole".to_owned()))?;
        drop(journal);
        assert!(Journal::open(folder.path())?.step("b").is_some());
        Ok(())
    }

    #[test]
    fn a_step_that_is_written_in_part_leaves_the_journal_as_it_was() -> Result {
        let folder = tempfile::tempdir().map_err(|error| Failure::local_failure("no folder", error))?;
        let mut journal = Journal::open(folder.path())?;
        journal.write("a", Step::Failed("first".to_owned()))?;
        let full = |file: &mut File| {
            file.write_all(br#"["b",{"Fai"#)?;
            Err(io::ErrorKind::StorageFull.into())
        };
        assert!(journal.append(20, full).is_err());
        journal.write("c", Step::Failed("third".to_owned()))?;
        drop(journal);
        let mut journal = Journal::open(folder.path())?;
        assert!(journal.step("a").is_some() && journal.step("b").is_none() && journal.step("c").is_some());

        let read_only = File::open(folder.path().join(NAME));
        journal.file = read_only.map_err(|error| Failure::local_failure("no journal", error))?;
        let first = journal.write("d", Step::Failed("lost".to_owned()));
        let second = journal.write("e", Step::Failed("lost".to_owned()));
        assert!(first.is_err());
        assert!(second.is_err_and(|failure| failure.headline.contains("could not be removed")));
        Ok(())
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named() -> Result {
        let folder = tempfile::tempdir().map_err(|error| Failure::local_failure("no folder", error))?;
        let text = "[\"a\",{\"Failed\":\"first\"}]\n[\"b\",7]\n";
        let written = std::fs::write(folder.path().join(NAME), text);
        written.map_err(|error| Failure::local_failure("no journal", error))?;
        let failure = Journal::open(folder.path()).err().map(|failure| failure.headline).unwrap_or_default();
        assert!(failure.contains("line 2, column ") && !failure.contains("line 1"), "{failure}");
        Ok(())
    }
}
