//! Journal of the latest requests and their responses, without keys, queries and bodies (redaction).

use std::collections::VecDeque;

use parking_lot::Mutex;
use serde::Serialize;

use super::middleware::RequestInfo;
use super::{Controls, Effect, Operation, Side};
use crate::accounts::redact_keys;

const MAX_ENTRIES: usize = 10_000;

/// Maximum number of characters of a method and of a path in the journal, because clients choose both.
const MAX_TEXT: usize = 1_000;

/// One request.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct JournalEntry {
    /// Number of the request, from 1.
    pub number: u64,
    /// Arrival time, by the clock of the service.
    pub at: String,
    /// Part of the service that received the request.
    pub side: Side,
    /// HTTP method.
    pub method: String,
    /// Path without the query, truncated after 1,000 characters. Queries of the object store are credentials.
    pub path: String,
    /// Requested operation; None for other requests.
    pub operation: Option<Operation>,
    /// Request identifier, as in the response.
    pub request_id: String,
    /// Status of the response; None while the request is in progress, and after a connection closed without a response.
    pub status: Option<u16>,
    /// Number of the fault that was applied.
    pub fault: Option<u64>,
    /// Effect of the applied fault.
    pub effect: Option<Effect>,
}

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
    pub(super) fn begin(&self, seen: &RequestInfo, at: String) -> u64 {
        let mut inner = self.inner.lock();
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
            path: redact_keys(&seen.path).chars().take(MAX_TEXT).collect(),
            operation: seen.operation,
            request_id: seen.request_id.clone(),
            status: None,
            fault: None,
            effect: None,
        });
        number
    }

    pub(super) fn note(&self, number: u64, change: impl FnOnce(&mut JournalEntry)) {
        let mut inner = self.inner.lock();
        if let Some(entry) = inner.entries.iter_mut().rev().find(|entry| entry.number == number) {
            change(entry);
        }
    }

    pub(super) fn clear(&self) {
        self.inner.lock().entries.clear();
    }
}

impl Controls {
    /// Returns the latest 10,000 requests, oldest first.
    pub fn journal(&self) -> Vec<JournalEntry> {
        self.tester.journal.inner.lock().entries.iter().cloned().collect()
    }

    /// Returns the number of requests for an operation in the journal.
    pub fn seen(&self, operation: impl Into<Operation>) -> usize {
        let operation = operation.into();
        let inner = self.tester.journal.inner.lock();
        inner.entries.iter().filter(|entry| entry.operation == Some(operation)).count()
    }

    /// Clears the journal. Numbers continue.
    pub fn clear_journal(&self) {
        self.tester.journal.clear();
    }
}
