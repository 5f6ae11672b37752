//! The journal: which requests arrived, and what became of them. No keys, no queries, no bodies.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use super::middleware::RequestInfo;
use super::{Controls, Effect, Operation, Side};

/// The largest number of requests in the journal; the oldest is removed first.
const MAX_ENTRIES: usize = 10_000;

/// The largest number of characters of a method and of a path in the journal: strangers choose both.
const MAX_TEXT: usize = 1_000;

/// One request.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct JournalEntry {
    /// Counts the requests, from 1.
    pub number: u64,
    /// When it arrived, by the clock of the service.
    pub at: String,
    /// Where it arrived.
    pub side: Side,
    /// Its method.
    pub method: String,
    /// Its path, cut after 1,000 characters, and without a query: queries of the object store are credentials.
    pub path: String,
    /// What it asked for, if that is an operation.
    pub operation: Option<Operation>,
    /// Its identifier, which its response carries too.
    pub request_id: String,
    /// The status of its response; None while it is being worked on, and when the connection was closed
    /// without a response.
    pub status: Option<u16>,
    /// The number of the fault that it met.
    pub fault: Option<u64>,
    /// What that fault did.
    pub effect: Option<Effect>,
}

/// The requests that were seen last.
#[derive(Default)]
pub(super) struct Journal {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    entries: VecDeque<JournalEntry>,
    last: u64,
}

impl Journal {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a request has arrived, and returns its number.
    pub(super) fn begin(&self, seen: &RequestInfo, at: String) -> u64 {
        let mut inner = self.inner();
        inner.last += 1;
        let number = inner.last;
        if inner.entries.len() == MAX_ENTRIES {
            inner.entries.pop_front();
        }
        inner.entries.push_back(JournalEntry {
            number,
            at,
            side: seen.side,
            method: seen.method.chars().take(MAX_TEXT).collect(),
            path: seen.path.chars().take(MAX_TEXT).collect(),
            operation: seen.operation,
            request_id: seen.request_id.clone(),
            status: None,
            fault: None,
            effect: None,
        });
        number
    }

    /// Changes what is known of a request, if it is still remembered.
    pub(super) fn note(&self, number: u64, change: impl FnOnce(&mut JournalEntry)) {
        let mut inner = self.inner();
        if let Some(entry) = inner.entries.iter_mut().rev().find(|entry| entry.number == number) {
            change(entry);
        }
    }

    pub(super) fn clear(&self) {
        self.inner().entries.clear();
    }
}

impl Controls {
    /// The requests that were seen, oldest first: the last 10,000 of them.
    pub fn journal(&self) -> Vec<JournalEntry> {
        self.tester.journal.inner().entries.iter().cloned().collect()
    }

    /// How many of the requests in the journal asked for an operation.
    pub fn seen(&self, operation: impl Into<Operation>) -> usize {
        let operation = operation.into();
        let inner = self.tester.journal.inner();
        inner.entries.iter().filter(|entry| entry.operation == Some(operation)).count()
    }

    /// Forgets what was seen. Numbers go on.
    pub fn clear_journal(&self) {
        self.tester.journal.clear();
    }
}
