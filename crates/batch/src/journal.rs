//! Write-ahead journal of a batch: one line of JSON for each step of an item, so that a second start continues.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::mem::discriminant;
use std::path::{Path, PathBuf};

use inferstore::{Decimal, json_problem};
use parking_lot::Mutex;
use serde::de::IgnoredAny;

use crate::Step;

/// Beginning of each line: an array, and the key in it.
const LINE_START: &[u8] = b"[\"";

/// Beginning of the step, which follows the key: an object.
const STEP_START: &[u8] = b",{";

/// File of all steps, and where the last step of each item is in it. The steps themselves stay on the disk: a batch may
/// have very many items.
#[derive(Debug)]
pub struct Journal {
    lines: Lines,
    index: Index,
    /// Length of all complete lines, in bytes.
    length: u64,
    /// Reason why the journal rejects further writes.
    broken: Option<String>,
}

/// Identifier of an item, as long as its journal is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemId(u64);

#[derive(Debug)]
struct Lines {
    file: Mutex<File>,
    path: PathBuf,
    /// Folder of the journal. Outputs in it are written relative to it, and are found when it was moved.
    folder: PathBuf,
}

/// Place of a line in the file, in bytes.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: u64,
    length: usize,
}

/// Reader of the file from a position, whatever else is read from it meanwhile.
struct ReadFrom<'a> {
    file: &'a Mutex<File>,
    position: u64,
}

impl Read for ReadFrom<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut file = self.file.lock();
        file.seek(SeekFrom::Start(self.position))?;
        let count = file.read(buffer)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Lines {
    fn from(&self, position: u64) -> ReadFrom<'_> {
        ReadFrom { file: &self.file, position }
    }

    fn read(&self, place: Place) -> Result<(String, Step), JournalError> {
        let mut line = vec![0; place.length];
        let read = self.from(place.start).read_exact(&mut line);
        let parsed = read.and_then(|()| self.parse(&line).map_err(io::Error::from));
        parsed.map_err(|error| self.unreadable(error))
    }

    fn parse(&self, line: &[u8]) -> serde_json::Result<(String, Step)> {
        let (key, mut step): (String, Step) = serde_json::from_slice(line.trim_ascii_end())?;
        step.outputs_mut().iter_mut().for_each(|path| *path = self.folder.join(&*path));
        Ok((key, step))
    }

    fn unreadable(&self, error: io::Error) -> JournalError {
        JournalError::unusable(JournalErrorKind::Unreadable, &self.path, error)
    }
}

#[derive(Debug, Default)]
struct Index {
    places: HashMap<ItemId, Place>,
    hasher: RandomState,
    ledger: Ledger,
}

impl Index {
    /// Finds an item by its key. Where two keys have the same hash, the second one is found at the next hash.
    fn find(&self, key: &str, lines: &Lines) -> Result<(ItemId, Option<Step>), JournalError> {
        let mut id = ItemId(self.hasher.hash_one(key));
        while let Some(place) = self.places.get(&id) {
            let (found, step) = lines.read(*place)?;
            if found == key {
                return Ok((id, Some(step)));
            }
            id = ItemId(self.hasher.hash_one((id, key)));
        }
        Ok((id, None))
    }

    fn set(&mut self, id: ItemId, earlier: Option<&Step>, step: &Step, place: Place) {
        self.ledger.add(step);
        self.ledger.remove(earlier);
        self.places.insert(id, place);
    }
}

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
        let lines = Lines { file: Mutex::new(file), path, folder };
        let mut index = Index::default();
        let mut reader = BufReader::new(lines.from(0));
        let (mut length, mut line) = (0, Vec::new());
        for number in 1.. {
            line.clear();
            reader.read_until(b'\n', &mut line).map_err(|error| lines.unreadable(error))?;
            let malformed = |cause: String| {
                let cause = format!("line {number}{cause}");
                JournalError::unusable(JournalErrorKind::Malformed, &lines.path, cause)
            };
            if !line.ends_with(b"\n") {
                // A kill may cut the last line short, even inside a character.
                if !is_cut_step(&line) {
                    return Err(malformed(" is no step of an item".to_owned()));
                }
                break;
            }
            let (key, step) = lines.parse(&line).map_err(|error| {
                malformed(format!(", column {}: {}", error.column(), json_problem(&error)))
            })?;
            let (id, earlier) = index.find(&key, &lines)?;
            index.set(id, earlier.as_ref(), &step, Place { start: length, length: line.len() });
            length += line.len() as u64;
        }
        drop(reader);
        lines.file.lock().set_len(length).map_err(|error| lines.unreadable(error))?;
        Ok(Self { lines, index, length, broken: None })
    }

    /// Returns the last step of the item.
    pub fn step(&self, key: &str) -> Result<Option<Step>, JournalError> {
        Ok(self.index.find(key, &self.lines)?.1)
    }

    /// Returns the identifier of the item, also before its first step.
    pub fn id(&self, key: &str) -> Result<ItemId, JournalError> {
        Ok(self.index.find(key, &self.lines)?.0)
    }

    /// Returns the key and the last step of the item. `None`: it has no step.
    pub fn item(&self, id: ItemId) -> Result<Option<(String, Step)>, JournalError> {
        self.index.places.get(&id).map(|place| self.lines.read(*place)).transpose()
    }

    /// Reads the items with their last steps, in the order in which these were written.
    pub fn items(&self) -> impl Iterator<Item = Result<(ItemId, String, Step), JournalError>> {
        let mut places: Vec<(ItemId, Place)> =
            self.index.places.iter().map(|(id, place)| (*id, *place)).collect();
        places.sort_unstable_by_key(|(_, place)| place.start);
        places.into_iter().map(|(id, place)| self.lines.read(place).map(|(key, step)| (id, key, step)))
    }

    /// Returns the committed cost of all items: the actual cost of those that have ended, and the maximum of
    /// the others. An item without a recorded cost counts as `unknown`.
    pub fn committed(&self, unknown: &Decimal) -> Decimal {
        self.index.ledger.sum(unknown)
    }

    pub(crate) fn committed_by_others(&self, key: &str, unknown: &Decimal) -> Result<Decimal, JournalError> {
        let mut ledger = self.index.ledger.clone();
        ledger.remove(self.step(key)?.as_ref());
        Ok(ledger.sum(unknown))
    }

    /// Writes a step and syncs the file. The hash of a content is synced with the next step: it can be computed again.
    pub(crate) fn write(&mut self, key: &str, step: &Step) -> Result<(), JournalError> {
        let (id, earlier) = self.index.find(key, &self.lines)?;
        debug_assert!(step.may_follow(earlier.as_ref()), "a step replaces a task that may be paid");
        let mut written = step.clone();
        for path in written.outputs_mut() {
            *path = path.strip_prefix(&self.lines.folder).unwrap_or(path).to_owned();
        }
        let line = serde_json::to_string(&(key, &written)).map(|line| line + "\n");
        debug_assert!(
            line.as_ref().is_ok_and(|line| is_journal_line(line, key, step)),
            "a later start would not read the line of a step",
        );
        let is_synced = !matches!(step, Step::Content(_));
        let place = line.map_err(io::Error::from).and_then(|line| {
            self.append(line.len(), |file| {
                file.write_all(line.as_bytes())?;
                if is_synced { file.sync_data() } else { Ok(()) }
            })
        });
        let place = place.map_err(|error| JournalError {
            kind: JournalErrorKind::Unwritable,
            message: format!("{} cannot be written: {error}", self.lines.path.display()),
        })?;
        self.index.set(id, earlier.as_ref(), step, place);
        Ok(())
    }

    /// Appends a line. Truncates a partial write: half a line before another one would make the journal unreadable.
    fn append(
        &mut self,
        length: usize,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<Place> {
        if let Some(broken) = &self.broken {
            return Err(io::Error::other(broken.clone()));
        }
        let file = self.lines.file.get_mut();
        if let Err(error) = write(file) {
            if let Err(problem) = file.set_len(self.length) {
                self.broken = Some(format!("half a line of it could not be removed: {problem}"));
            }
            return Err(error);
        }
        let start = self.length;
        self.length += length as u64;
        Ok(Place { start, length })
    }
}

/// Returns true for the beginning of a line, as a kill leaves it. Other JSON that was given for a journal is none.
fn is_cut_step(line: &[u8]) -> bool {
    let Some(key) = line.strip_prefix(LINE_START) else { return LINE_START.starts_with(line) };
    let mut is_escaped = false;
    let end = key.iter().position(|byte| {
        let ends = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        ends
    });
    let step = end.and_then(|end| key.get(end + 1..));
    let is_other = serde_json::from_slice::<IgnoredAny>(line).is_ok()
        && serde_json::from_slice::<(String, Step)>(line).is_err();
    !is_other && step.is_none_or(|step| step.starts_with(STEP_START) || STEP_START.starts_with(step))
}

/// Returns true for one line that a later start reads as this step. Numbers of an output may lose their last digits.
fn is_journal_line(line: &str, key: &str, step: &Step) -> bool {
    let read = serde_json::from_str::<(String, Step)>(line);
    line.find('\n') == Some(line.len() - 1)
        && read.is_ok_and(|(read_key, read)| {
            read_key == key && discriminant(&read) == discriminant(step) && read.task() == step.task()
        })
}

/// Unlocks explicitly: a child process that another thread is spawning holds the file open until it has executed.
impl Drop for Journal {
    fn drop(&mut self) {
        // If the unlock fails, the operating system unlocks the file after its last close.
        let _ = self.lines.file.lock().unlock();
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

    fn tasks(journal: &Journal) -> Vec<String> {
        let steps = journal.items().map(|item| item.unwrap().2);
        steps.filter_map(|step| step.task().map(ToString::to_string)).collect()
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
            .write("a", &Step::Deleting { uploaded: Vec::new(), then })
            .unwrap();
        std::fs::rename(&old, &new).unwrap();
        let journal = Journal::open(new.join(NAME)).unwrap();
        let found = journal.step("a").unwrap().map(Step::into_last);
        assert!(matches!(found, Some(Step::Saving { outputs, .. })
            if *outputs == [new.join("in/a.png"), "/elsewhere/b.png".into()]));
    }

    #[test]
    fn a_journal_keeps_the_last_step_of_each_item_and_forgets_half_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Journal::open(folder.path().join(NAME));
        let mut journal = open().unwrap();
        journal.write("a", &failed("first")).unwrap();
        journal.write("a", &failed("second")).unwrap();
        assert_eq!(open().unwrap_err().kind, JournalErrorKind::Locked);
        drop(journal);
        // The second line is cut inside a character.
        for half in [br#"["b",{"Failed":"cut"#.as_slice(), b"[\"b\",{\"Failed\":\"\xc3"] {
            open().unwrap().lines.file.get_mut().write_all(half).unwrap();
            let journal = open().unwrap();
            assert!(matches!(journal.step("a").unwrap(), Some(Step::Failed(why)) if why == "second"));
            assert!(journal.step("b").unwrap().is_none());
        }
        open().unwrap().write("b", &failed("whole")).unwrap();
        assert!(open().unwrap().step("b").unwrap().is_some());
    }

    #[test]
    fn a_step_that_is_written_in_part_leaves_the_journal_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        let mut journal = Journal::open(&path).unwrap();
        journal.write("a", &failed("first")).unwrap();
        let full = |file: &mut File| {
            file.write_all(br#"["b",{"Fai"#)?;
            Err(io::ErrorKind::StorageFull.into())
        };
        assert!(journal.append(20, full).is_err());
        journal.write("c", &failed("third")).unwrap();
        drop(journal);
        let mut journal = Journal::open(&path).unwrap();
        assert!(
            journal.step("a").unwrap().is_some()
                && journal.step("b").unwrap().is_none()
                && journal.step("c").unwrap().is_some()
        );

        *journal.lines.file.get_mut() = File::open(&path).unwrap();
        let first = journal.write("d", &failed("lost")).unwrap_err();
        let second = journal.write("e", &failed("lost")).unwrap_err();
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
        let second = journal.step("b").unwrap().unwrap();
        let _ = journal.write("a", &second);
    }

    /// Two services for tests with one seed give equal identifiers, and a journal may have items of both.
    #[test]
    fn two_items_may_have_tasks_of_one_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        std::fs::write(&path, "[\"a\",{\"Started\":{\"task\":\"one\",\"uploaded\":[]}}]\n").unwrap();
        let mut journal = Journal::open(&path).unwrap();
        let step = journal.step("a").unwrap().unwrap();
        journal.write("b", &step).unwrap();
        assert_eq!(tasks(&journal), ["one", "one"]);
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
        assert_eq!(journal.items().count(), text.lines().count());
        assert_eq!(tasks(&journal), ["task-2", "task-3", "task-4", "task-5", "task-7"]);
        assert!(
            matches!(journal.step("prepared").unwrap(), Some(Step::Prepared(run)) if run.uploaded.len() == 1)
        );
    }

    #[test]
    fn a_journal_finds_each_of_many_items_in_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        let mut journal = Journal::open(&path).unwrap();
        let key = |number: usize| format!("item {number}");
        for number in (0..200).chain(0..100) {
            journal.write(&key(number), &failed(&format!("step of {number}"))).unwrap();
        }
        // Where two keys have the same hash, the second one is found at the next hash.
        let (id, of_other) = (journal.id("item 3").unwrap(), journal.id("item 4").unwrap());
        let place = journal.index.places[&of_other];
        journal.index.places.insert(id, place);
        assert_ne!(journal.id("item 3").unwrap(), id);
        assert!(journal.step("item 3").unwrap().is_none());
        drop(journal);
        let journal = Journal::open(&path).unwrap();
        assert_eq!(journal.items().count(), 200);
        for number in 0..200 {
            let step = journal.step(&key(number)).unwrap();
            assert!(matches!(step, Some(Step::Failed(why)) if why == format!("step of {number}")));
            let id = journal.id(&key(number)).unwrap();
            assert_eq!(journal.item(id).unwrap().unwrap().0, key(number));
        }
    }
}
