//! Cache of bounded size, and the files in it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tempfile::TempPath;

/// File of a browser or of the service on this machine. Dropping the last clone deletes it.
#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) digest: u64,
    pub(crate) mime: String,
    pub(crate) path: Arc<TempPath>,
    pub(crate) expires: Option<Instant>,
}

/// Cache by identifier. Removes the oldest values when the sum of weights exceeds the limit.
pub(crate) struct Bounded<V> {
    limit: u64,
    entries: Mutex<VecDeque<(String, V, u64)>>,
}

impl<V: Clone> Bounded<V> {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, entries: Mutex::default() }
    }

    pub(crate) fn get(&self, id: &str) -> Option<V> {
        self.entries.lock().iter().find(|(own, ..)| own == id).map(|(_, value, _)| value.clone())
    }

    pub(crate) fn insert(&self, id: String, value: V, weight: u64) {
        let mut entries = self.entries.lock();
        entries.retain(|(own, ..)| *own != id);
        entries.push_back((id, value, weight));
        let mut sum: u64 = entries.iter().map(|(.., weight)| weight).sum();
        while sum > self.limit
            && let Some((.., weight)) = entries.pop_front()
        {
            sum -= weight;
        }
    }

    pub(crate) fn retain(&self, stays: impl Fn(&V) -> bool) {
        self.entries.lock().retain(|(_, value, _)| stays(value));
    }
}
