//! The journal of a batch: one line of JSON for each step of a file, so that a second start continues.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use inferstore::PreparedRun;
use inferstore::types::TaskId;
use serde::{Deserialize, Serialize};

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
    /// The outputs are downloaded.
    Done { task: TaskId, cost: String, outputs: Vec<PathBuf> },
    /// The task failed or was canceled, and cost nothing.
    Failed(String),
}

/// The last step of each file, and the file in which all steps are written.
pub(super) struct Journal {
    steps: BTreeMap<String, Step>,
    file: File,
    path: PathBuf,
}

impl Journal {
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
        if file.try_lock().is_err() {
            return Err(Failure::usage(format!("another batch writes to {}", folder.display()))
                .with_hint("wait for it, or choose another folder for -o"));
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(|error| failed(&error))?;
        // A kill can cut the last line short.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let lines = text.get(..whole).unwrap_or_default().lines();
        let steps: Result<BTreeMap<String, Step>, _> = lines.map(serde_json::from_str).collect();
        let steps = steps.map_err(|error| {
            failed(&error).with_hint("it is not a journal of this command: move it, or choose another folder")
        })?;
        file.set_len(whole as u64).map_err(|error| failed(&error))?;
        Ok(Self { steps, file, path })
    }

    pub(super) fn step(&self, key: &str) -> Option<&Step> {
        self.steps.get(key)
    }

    /// The tasks that are known already.
    pub(super) fn tasks(&self) -> impl Iterator<Item = TaskId> {
        self.steps.values().filter_map(|step| match step {
            Step::Started { task, .. } | Step::Done { task, .. } => Some(task.clone()),
            _ => None,
        })
    }

    /// Writes a step durably.
    pub(super) fn write(&mut self, key: &str, step: Step) -> Result {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::local_failure(format!("{} cannot be written", self.path.display()), error)
        };
        let line = serde_json::to_string(&(key, &step)).map_err(|error| failed(&error))?;
        let written =
            self.file.write_all(format!("{line}\n").as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|error| failed(&error))?;
        self.steps.insert(key.to_owned(), step);
        Ok(())
    }
}

/// What makes a file of a batch the same one at the next start: the model, the inputs, and the file as it is.
pub(super) fn key(model: &str, given: &BTreeMap<String, String>, file: &str, path: &Path) -> String {
    let metadata = std::fs::metadata(path).ok();
    let size = metadata.as_ref().map(std::fs::Metadata::len);
    let modified = metadata.and_then(|metadata| metadata.modified().ok());
    let modified = modified
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
        .map(|time| time.as_nanos().to_string());
    let path =
        std::fs::canonicalize(path).map_or_else(|_| file.to_owned(), |path| path.display().to_string());
    serde_json::json!([model, given, path, size, modified]).to_string()
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
        let cut = journal.file.write_all(br#"["b",{"Failed":"cut"#);
        assert!(cut.is_ok());
        drop(journal);
        let mut journal = Journal::open(folder.path())?;
        assert!(matches!(journal.step("a"), Some(Step::Failed(why)) if why == "second"));
        assert!(journal.step("b").is_none());
        journal.write("b", Step::Failed("whole".to_owned()))?;
        drop(journal);
        assert!(Journal::open(folder.path())?.step("b").is_some());
        Ok(())
    }
}
