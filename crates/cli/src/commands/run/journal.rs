//! The journal of a batch: its file, the keys of the files in it, and its failures.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::time::UNIX_EPOCH;

use inferstore::Decimal;
use inferstore_batch::{Error, Journal, JournalError, JournalErrorKind, Step};
use serde_json::{Value, json};

use crate::exit;
use crate::failure::{Failure, Result};

/// The name of the file.
pub(in crate::commands) const NAME: &str = "inferstore-batch.jsonl";

/// Counts of the files of a batch that earlier starts have run.
#[derive(Default)]
pub(super) struct Earlier {
    pub(super) paid: usize,
    /// Their tasks may be created.
    pub(super) begun: usize,
    /// Cost of all tasks in the journal, with the most that unfinished ones can cost.
    pub(super) committed: Decimal,
}

impl Earlier {
    /// Counts what earlier starts did for these files, by the journal of a folder if it has one.
    pub(super) fn count(
        folder: &Path,
        keys: impl Iterator<Item = String>,
        price: Option<&Decimal>,
    ) -> Result<Self> {
        let mut earlier = Self::default();
        let path = folder.join(NAME);
        if !path.exists() {
            return Ok(earlier);
        }
        let journal = Journal::open(path)?;
        earlier.committed = journal.committed(price.unwrap_or(&Decimal::default()));
        for key in keys {
            match journal.step(&key).map(Step::last) {
                Some(Step::Saving { .. } | Step::Done { .. }) => earlier.paid += 1,
                Some(Step::Prepared(_) | Step::Started { .. } | Step::Gone { .. }) => earlier.begun += 1,
                _ => {}
            }
        }
        Ok(earlier)
    }
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Self {
        let (code, hint) = match error.kind {
            JournalErrorKind::Locked => (exit::USAGE, "wait for it, or choose another folder for -o"),
            JournalErrorKind::NoLocks => (exit::FAILED, "choose a folder for -o on a file system with locks"),
            JournalErrorKind::Malformed => {
                (exit::FAILED, "it is not a journal of this command: move it, or choose another folder")
            }
            _ => (exit::FAILED, "correct that on this machine and try again"),
        };
        Self::new(code, error.to_string()).with_hint(hint)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Client(error) => error.into(),
            Error::Journal(error) => error.into(),
            error @ Error::Budget { .. } => {
                Self::new(exit::INPUT, error.to_string()).with_hint("raise --budget; no task was created")
            }
            error => Self::new(exit::FAILED, error.to_string()),
        }
    }
}

/// Returns the key of a file in the journal: the service, the model, the other inputs by name, and the file as it is.
pub(super) fn key(base_url: &str, model: &str, others: &[(String, Value)], file: &Value) -> String {
    let others: BTreeMap<&str, &Value> = others.iter().map(|(name, value)| (name.as_str(), value)).collect();
    json!([base_url, model, others, file]).to_string()
}

/// The keys of a journal, by the hash of the inputs and paths of their files.
#[derive(Default)]
pub(in crate::commands) struct KnownKeys(HashMap<u64, Vec<String>>);

impl KnownKeys {
    pub(in crate::commands) fn of(journal: &Journal) -> Self {
        let mut known = Self::default();
        journal.items().for_each(|(key, _)| known.insert(key));
        known
    }

    pub(in crate::commands) fn insert(&mut self, key: &str) {
        let keys = self.0.entry(hash(&without_content(key))).or_default();
        if !keys.iter().any(|known| known == key) {
            keys.reserve_exact(1);
            keys.push(key.to_owned());
        }
    }

    /// Returns the keys with other files at the same paths, and the same other inputs.
    pub(super) fn outdated_by(&self, key: &str) -> impl Iterator<Item = &String> {
        let own = without_content(key);
        let all = self.0.get(&hash(&own)).into_iter().flatten();
        all.filter(move |other| *other != key && without_content(other) == own)
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// A key with the paths of its files, and without their sizes and times.
fn without_content(key: &str) -> String {
    fn reduce(value: &mut Value) {
        if let Some(path) = value.as_array().filter(|file| file.len() == 3).map(|file| file[0].clone()) {
            *value = path;
        }
    }
    let Ok(Value::Array(mut parts)) = serde_json::from_str(key) else { return key.to_owned() };
    if let [_, _, others, file] = &mut parts[..] {
        others.as_object_mut().into_iter().flat_map(|others| others.values_mut()).for_each(reduce);
        reduce(file);
    }
    Value::Array(parts).to_string()
}

/// A file as it is: its path without links, size and time. A URL is its text.
pub(super) fn identity(given: &str, path: &Path) -> Value {
    let place =
        std::fs::canonicalize(path).map_or_else(|_| given.to_owned(), |path| path.display().to_string());
    let metadata = std::fs::metadata(path).ok();
    let size = metadata.as_ref().map(std::fs::Metadata::len);
    let modified = metadata.and_then(|metadata| metadata.modified().ok());
    let modified = modified
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
        .map(|time| time.as_nanos().to_string());
    json!([place, size, modified])
}
