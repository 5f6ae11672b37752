//! The journal of a batch: its file, the keys of the files in it, and its failures.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher, Hash};

use inferstore::Decimal;
use inferstore_batch::{Error, Journal, JournalError, JournalErrorKind, Step};
use serde_json::{Value, json};

use super::contents::without_content;
use crate::exit;
use crate::failure::Failure;

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
    /// Counts what earlier starts did for these files.
    pub(super) fn count(
        journal: &Journal,
        keys: impl Iterator<Item = String>,
        price: Option<&Decimal>,
    ) -> Self {
        let committed = journal.committed(price.unwrap_or(&Decimal::default()));
        let mut earlier = Self { committed, ..Self::default() };
        for key in keys {
            match journal.step(&key).map(Step::last) {
                Some(Step::Saving { .. } | Step::Done { .. }) => earlier.paid += 1,
                Some(Step::Prepared(_) | Step::Started { .. } | Step::Gone { .. }) => earlier.begun += 1,
                _ => {}
            }
        }
        earlier
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
        let tasks = journal.items().filter(|(_, step)| !matches!(step, Step::Content(_)));
        tasks.for_each(|(key, _)| known.insert(key));
        known
    }

    pub(in crate::commands) fn insert(&mut self, key: &str) {
        let keys = self.0.entry(hash_of(without_content(key))).or_default();
        if !keys.iter().any(|known| known == key) {
            keys.reserve_exact(1);
            keys.push(key.to_owned());
        }
    }

    /// Returns the keys with other files at the same paths, and the same other inputs.
    pub(super) fn outdated_by(&self, key: &str) -> impl Iterator<Item = &String> {
        let own = without_content(key);
        let all = self.0.get(&hash_of(&own)).into_iter().flatten();
        all.filter(move |other| *other != key && without_content(other) == own)
    }
}

/// A hash that tells values of this process apart.
pub(super) fn hash_of(value: impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
}
