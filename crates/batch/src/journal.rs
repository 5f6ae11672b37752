//! Write-ahead journal of a batch: one line of JSON for each step of an item, so that a second start
//! continues.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Write};
use std::mem::discriminant;
use std::path::{Path, PathBuf};

use inferstore::types::TaskId;
use inferstore::{Decimal, json_problem};

use crate::Step;

/// Beginning of each line: an array, and the key in it.
const LINE_START: &[u8] = b"[\"";

/// Last step of each item, and the file of all steps.
#[derive(Debug)]
pub struct Journal {
    steps: BTreeMap<String, Step>,
    file: File,
    path: PathBuf,
    /// Folder of the journal. Outputs in it are written relative to it, and are found when it was moved.
    folder: PathBuf,
    /// Length of all complete lines, in bytes.
    length: u64,
    ledger: Ledger,
    /// Reason why the journal rejects further writes.
    broken: Option<String>,
}

/// Running total of the costs of the items.
#[derive(Clone, Debug, Default)]
struct Ledger {
    known: Decimal,
    /// Number of items without a recorded cost.
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
            Some(None) => {
                debug_assert!(self.unknown > 0, "an item without a recorded cost was not counted");
                self.unknown -= 1;
            }
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
    /// Kind of the failure.
    pub kind: JournalErrorKind,
    message: String,
}

/// Kind of a [`JournalError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JournalErrorKind {
    /// Another process holds the lock.
    Locked,
    /// The file system supports no locks.
    NoLocks,
    /// The file cannot be opened or read.
    Unreadable,
    /// A line of the file is not a step of an item.
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
    /// Opens the journal at this path, or creates it. Locks the file, so that only one process uses it.
    ///
    /// # Errors
    ///
    /// Another process holds the lock, or the file cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, JournalError> {
        let path = path.as_ref().to_owned();
        let unreadable =
            |error: io::Error| JournalError::unusable(JournalErrorKind::Unreadable, &path, error);
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        // The journal names inputs and outputs, so only its owner may read it.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path).map_err(unreadable)?;
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
        let folder = std::path::absolute(&path).map_err(unreadable)?;
        let folder = folder.parent().unwrap_or(Path::new("/")).to_owned();
        let mut steps: BTreeMap<String, Step> = BTreeMap::new();
        let mut reader = BufReader::new(&file);
        let (mut length, mut line) = (0, Vec::new());
        for number in 1.. {
            line.clear();
            reader.read_until(b'\n', &mut line).map_err(unreadable)?;
            let Some(text) = line.strip_suffix(b"\n") else {
                // A kill may cut the last line short, even inside a character.
                if !line.starts_with(LINE_START) && !LINE_START.starts_with(&line) {
                    let cause = format!("line {number} is no step of an item");
                    return Err(JournalError::unusable(JournalErrorKind::Malformed, &path, cause));
                }
                break;
            };
            let (key, mut step): (String, Step) =
                serde_json::from_slice(text.trim_ascii_end()).map_err(|error| {
                    let cause = format!("line {number}, column {}: {}", error.column(), json_problem(&error));
                    JournalError::unusable(JournalErrorKind::Malformed, &path, cause)
                })?;
            step.outputs_mut().iter_mut().for_each(|path| *path = folder.join(&*path));
            steps.insert(key, step);
            length += line.len() as u64;
        }
        file.set_len(length).map_err(unreadable)?;
        let mut ledger = Ledger::default();
        steps.values().for_each(|step| ledger.add(step));
        Ok(Self { steps, file, path, folder, length, ledger, broken: None })
    }

    /// Returns the last step of the item.
    pub fn step(&self, key: &str) -> Option<&Step> {
        self.steps.get(key)
    }

    /// Returns the items with their last steps.
    pub fn items(&self) -> impl Iterator<Item = (&str, &Step)> {
        self.steps.iter().map(|(key, step)| (key.as_str(), step))
    }

    /// Returns the committed cost of all items: the actual cost of those that have ended, and the maximum of
    /// the others. An item without a recorded cost counts as `unknown`.
    pub fn committed(&self, unknown: &Decimal) -> Decimal {
        self.ledger.sum(unknown)
    }

    /// Returns the committed cost of all items but one.
    pub(crate) fn committed_by_others(&self, key: &str, unknown: &Decimal) -> Decimal {
        let mut ledger = self.ledger.clone();
        ledger.remove(self.steps.get(key));
        ledger.sum(unknown)
    }

    /// Returns the tasks that the steps name.
    pub fn tasks(&self) -> impl Iterator<Item = &TaskId> {
        self.steps.values().filter_map(Step::task)
    }

    /// Writes a step and syncs the file. The hash of a content is synced with the next step: it can be computed again.
    pub(crate) fn write(&mut self, key: &str, step: Step) -> Result<(), JournalError> {
        let earlier = self.steps.get(key);
        debug_assert!(step.may_follow(earlier), "a step replaces a task that may be paid");
        let mut written = step.clone();
        for path in written.outputs_mut() {
            *path = path.strip_prefix(&self.folder).unwrap_or(path).to_owned();
        }
        let line = serde_json::to_string(&(key, &written)).map(|line| line + "\n");
        debug_assert!(
            line.as_ref().is_ok_and(|line| is_journal_line(line, key, &step)),
            "a later start would not read the line of a step",
        );
        let is_synced = !matches!(step, Step::Content(_));
        let written = line.map_err(io::Error::from).and_then(|line| {
            self.append(line.len() as u64, |file| {
                file.write_all(line.as_bytes())?;
                if is_synced { file.sync_data() } else { Ok(()) }
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

    fn items_without_cost(&self) -> usize {
        self.steps.values().filter(|step| matches!(step.charge(), Some(None))).count()
    }

    /// Appends `length` bytes. A partial write is truncated: half a line followed by another would make the
    /// journal unreadable.
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

/// Returns true for one line that a later start reads as this step. Numbers of an output may lose their last digits.
fn is_journal_line(line: &str, key: &str, step: &Step) -> bool {
    let read = serde_json::from_str::<(String, Step)>(line);
    line.find('\n') == Some(line.len() - 1)
        && read.is_ok_and(|(read_key, read)| {
            read_key == key && discriminant(&read) == discriminant(step) && read.task() == step.task()
        })
}

/// Unlocks explicitly: a child process that another thread is spawning holds the file open until it has
/// executed.
impl Drop for Journal {
    fn drop(&mut self) {
        debug_assert!(
            std::thread::panicking() || self.ledger.unknown as usize == self.items_without_cost(),
            "the journal counts other items without a recorded cost than it has",
        );
        // If the unlock fails, the operating system unlocks the file after its last close.
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
    fn outputs_in_the_folder_of_a_journal_are_found_when_it_was_moved() {
        let folder = tempfile::tempdir().unwrap();
        let [old, new] = ["old", "new"].map(|name| folder.path().join(name));
        std::fs::create_dir(&old).unwrap();
        let saving = |place: &Path| Step::Saving {
            task: "t".into(),
            uploaded: Vec::new(),
            outputs: vec![place.join("in/a.png"), "/elsewhere/b.png".into()],
            cost: None,
        };
        let then = Box::new(saving(&old));
        Journal::open(old.join(NAME))
            .unwrap()
            .write("a", Step::Deleting { uploaded: Vec::new(), then })
            .unwrap();
        std::fs::rename(&old, &new).unwrap();
        let journal = Journal::open(new.join(NAME)).unwrap();
        let found = journal.step("a").map(Step::last);
        assert!(matches!(found, Some(Step::Saving { outputs, .. })
            if *outputs == [new.join("in/a.png"), "/elsewhere/b.png".into()]));
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
        // The second line is cut inside a character.
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

    #[cfg(debug_assertions)]
    #[test]
    #[should_panic(expected = "a step replaces a task that may be paid")]
    fn a_second_task_of_an_item_is_a_defect() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        let task = |item: &str, id: &str| {
            format!("[\"{item}\",{{\"Started\":{{\"task\":\"{id}\",\"uploaded\":[]}}}}]\n")
        };
        std::fs::write(&path, task("a", "one") + &task("b", "two")).unwrap();
        let mut journal = Journal::open(&path).unwrap();
        let second = journal.step("b").unwrap().clone();
        let _ = journal.write("a", second);
    }

    /// Two services for tests with one seed give equal identifiers, and a journal may have items of both.
    #[test]
    fn two_items_may_have_tasks_of_one_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        std::fs::write(&path, "[\"a\",{\"Started\":{\"task\":\"one\",\"uploaded\":[]}}]\n").unwrap();
        let mut journal = Journal::open(&path).unwrap();
        let step = journal.step("a").unwrap().clone();
        journal.write("b", step).unwrap();
        assert_eq!(journal.tasks().count(), 2);
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
