//! The journal of a batch: its file, the keys of the files in it, and its failures.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher, Hash};
use std::path::Path;
use std::sync::Arc;

use inferstore::{Client, Decimal};
use inferstore_batch::{Batch, Error, ItemId, Journal, JournalError, JournalErrorKind, Step};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::contents::without_content;
use crate::exit;
use crate::failure::Failure;

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
    pub(super) fn count(
        items: &Batch,
        keys: impl Iterator<Item = Result<String, Failure>>,
        price: Option<&Decimal>,
    ) -> Result<Self, Failure> {
        let committed = items.committed(price.unwrap_or(&Decimal::default()));
        let mut earlier = Self { committed, ..Self::default() };
        for key in keys {
            match items.item(key?).step()? {
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

/// The items of a folder: its journal, and which items have the same paths with other contents.
#[derive(Clone)]
pub(in crate::commands) struct Items {
    batch: Batch,
    /// The items by the hash of their inputs and of the paths of their files.
    by_paths: Arc<Mutex<BTreeSet<(u64, ItemId)>>>,
}

impl Items {
    pub(in crate::commands) fn open(client: &Client, path: &Path) -> Result<Self, JournalError> {
        let journal = Journal::open(path)?;
        let mut by_paths = BTreeSet::new();
        for item in journal.items() {
            let (id, key, step) = item?;
            if !matches!(step, Step::Content(_)) {
                by_paths.insert((hash_of(without_content(&key)), id));
            }
        }
        Ok(Self { batch: Batch::new(client, journal)?, by_paths: Arc::new(Mutex::new(by_paths)) })
    }

    pub(in crate::commands) fn with(mut self, options: impl FnOnce(Batch) -> Batch) -> Self {
        self.batch = options(self.batch);
        self
    }

    pub(in crate::commands) fn batch(&self) -> &Batch {
        &self.batch
    }

    /// Notes an item before its first step: its outputs may be replaced while it is run.
    pub(in crate::commands) fn note(&self, key: &str) -> Result<(), JournalError> {
        let id = self.batch.id(key)?;
        self.by_paths.lock().insert((hash_of(without_content(key)), id));
        Ok(())
    }

    /// Returns the items with the same inputs, and with other files at the same paths.
    pub(super) fn outdated_by(&self, key: &str) -> Result<Vec<(String, Step)>, JournalError> {
        let own = without_content(key);
        let hash = hash_of(&own);
        let begin = (hash, ItemId::default());
        let alike: Vec<ItemId> = {
            let by_paths = self.by_paths.lock();
            by_paths.range(begin..).take_while(|(other, _)| *other == hash).map(|(_, id)| *id).collect()
        };
        let items = alike.into_iter().filter_map(|id| self.batch.read(id).transpose());
        let is_outdated = |(other, _): &(String, Step)| other != key && without_content(other) == own;
        items.filter(|item| item.as_ref().map_or(true, is_outdated)).collect()
    }

    pub(super) fn content(&self, file: &str) -> Result<Option<String>, JournalError> {
        Ok(match self.batch.item(file).step()? {
            Some(Step::Content(hash)) => Some(hash),
            _ => None,
        })
    }
}

/// A hash that tells values of this process apart.
pub(super) fn hash_of(value: impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
}
