//! What reached the service, in the order in which it came.

use tokio::time::Instant;

use super::content::Received;
use super::fault::Fault;
use super::http::{Head, header};
use super::route::Route;

/// How much of a body is written down.
const KEPT: usize = 64 * 1024;

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) route: Route,
    pub(crate) method: String,
    /// With the query, as sent.
    pub(crate) path: String,
    /// As sent, with their names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// The first 64 KiB of what was read of it.
    pub(crate) body: Vec<u8>,
    /// How much of it was read.
    pub(crate) body_length: u64,
    /// Whether it took effect. A request that was refused did not.
    pub(crate) committed: bool,
    /// The status that was sent, if any was.
    pub(crate) answered: Option<u16>,
    /// What it met.
    pub(crate) fault: Option<Fault>,
    /// When its headers were read.
    pub(crate) at: Instant,
}

impl Entry {
    /// A header by its name in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }
}

#[derive(Default)]
pub(super) struct Journal {
    pub(super) entries: Vec<Entry>,
    pub(super) connections: usize,
}

impl Journal {
    /// Returns the place of the new entry.
    pub(super) fn begin(&mut self, route: Route, head: &Head, fault: Option<Fault>) -> usize {
        self.entries.push(Entry {
            route,
            method: head.method.clone(),
            path: head.target.clone(),
            headers: head.headers.clone(),
            body: Vec::new(),
            body_length: 0,
            committed: false,
            answered: None,
            fault,
            at: Instant::now(),
        });
        self.entries.len() - 1
    }

    pub(super) fn note_body(&mut self, entry: usize, body: &Received) {
        let entry = &mut self.entries[entry];
        entry.body = body.first[..body.first.len().min(KEPT)].to_vec();
        entry.body_length = body.length;
    }

    pub(super) fn count(&self, route: Route) -> usize {
        self.entries.iter().filter(|entry| route.covers(entry.route)).count()
    }
}
