//! Limit on open connections: a full server evicts the one that waits longest, first from addresses above their share.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const EVICTION_INTERVAL: Duration = Duration::from_millis(50);

/// Time without bytes after which a connection counts as idle: a request may be on its way.
const MIN_IDLE: Duration = Duration::from_millis(200);

/// Time that an unread body or response may keep a connection open on a full server.
const MIN_STALLED: Duration = Duration::from_secs(1);

/// The same for a large response, such as a file.
const MIN_STALLED_DOWNLOAD: Duration = Duration::from_secs(10);

const ADDRESS_SHARE: usize = 4;

const WARNING_INTERVAL: Duration = Duration::from_secs(1);

/// The open connections of a process.
pub struct Connections {
    max: usize,
    free: Arc<Semaphore>,
    open: Mutex<HashMap<u64, Arc<Connection>>>,
    next_id: AtomicU64,
    last_warning: Mutex<Option<Instant>>,
}

pub(crate) struct Connection {
    address: IpAddr,
    state: Mutex<State>,
    pub(crate) closed: CancellationToken,
}

struct State {
    phase: Phase,
    phase_since: Instant,
    /// First read of the phase without bytes. Before, a request may lie in the system's buffer of a busy server.
    waits_since: Option<Instant>,
    /// Bodies not read to their end: of this request, or of earlier, answered ones. Arriving bytes belong to them.
    bodies: usize,
    /// Time since which the client has read less than `MIN_PROGRESS`.
    write_blocked_since: Option<Instant>,
    is_large: bool,
}

impl State {
    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.phase_since = Instant::now();
        self.waits_since = None;
    }

    /// Returns the time since which the connection waits only for its client: for a request, the rest of a body whose
    /// response is written, or a read. None while a request is in progress or may be on its way.
    fn stalled_since(&self) -> Option<Instant> {
        let min_stalled = if self.is_large { MIN_STALLED_DOWNLOAD } else { MIN_STALLED };
        let (since, min) = match (self.phase, self.write_blocked_since) {
            (Phase::Request | Phase::Evicted, _) | (Phase::Response, None) => return None,
            (_, Some(since)) => (since, min_stalled),
            (_, None) if self.bodies > 0 => (self.phase_since, MIN_STALLED),
            (_, None) => (self.waits_since?, MIN_IDLE),
        };
        (since.elapsed() >= min).then_some(since)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The head of a request is incomplete or has not begun.
    Head,
    Request,
    Response,
    /// The last response is complete, and no byte followed.
    Idle,
    Evicted,
}

impl Connection {
    fn new(address: IpAddr, closed: CancellationToken) -> Self {
        let state = State {
            phase: Phase::Head,
            phase_since: Instant::now(),
            waits_since: None,
            bodies: 0,
            write_blocked_since: None,
            is_large: false,
        };
        Self { address: network(address), state: Mutex::new(state), closed }
    }

    pub(crate) fn received(&self) -> bool {
        let mut state = self.state.lock();
        let begins = state.phase == Phase::Idle && state.bodies == 0;
        if begins {
            state.enter(Phase::Head);
        }
        begins
    }

    /// Records a read without bytes. Returns true if the head of a request is incomplete.
    pub(crate) fn found_no_bytes(&self) -> bool {
        let mut state = self.state.lock();
        state.waits_since.get_or_insert_with(Instant::now);
        state.phase == Phase::Head
    }

    pub(crate) fn blocked_on_write(&self) {
        self.state.lock().write_blocked_since.get_or_insert_with(Instant::now);
    }

    pub(crate) fn written(&self, is_all: bool) {
        let mut state = self.state.lock();
        let was_blocked = state.write_blocked_since.take().is_some();
        if !is_all {
            return;
        }
        state.is_large &= state.phase == Phase::Response;
        if was_blocked {
            // Only now can the client send its next request.
            state.waits_since = state.waits_since.map(|_| Instant::now());
        }
    }

    /// Records a request until the guard is dropped. None: the connection is being closed.
    pub(crate) fn begin_request(self: &Arc<Self>) -> Option<RequestGuard> {
        let mut state = self.state.lock();
        if state.phase == Phase::Evicted {
            return None;
        }
        state.enter(Phase::Request);
        Some(RequestGuard(Arc::clone(self)))
    }

    pub(crate) fn begin_body(self: &Arc<Self>) -> BodyGuard {
        self.state.lock().bodies += 1;
        BodyGuard(Arc::clone(self))
    }

    fn stalled_since(&self) -> Option<Instant> {
        self.state.lock().stalled_since()
    }

    fn evict(&self) {
        let mut state = self.state.lock();
        if state.stalled_since().is_some() {
            state.phase = Phase::Evicted;
            self.closed.cancel();
        }
    }
}

/// Network by which connections are counted: the holder of an IPv6 address has a /64.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() & !u128::from(u64::MAX)).into()),
        address @ IpAddr::V4(_) => address,
    }
}

pub(crate) struct RequestGuard(Arc<Connection>);

impl RequestGuard {
    pub(crate) fn begin_response(&self, is_large: bool) {
        let mut state = self.0.state.lock();
        if state.phase == Phase::Request {
            state.enter(Phase::Response);
            state.is_large |= is_large;
        }
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        if state.phase != Phase::Evicted {
            state.enter(Phase::Idle);
        }
    }
}

pub(crate) struct BodyGuard(Arc<Connection>);

impl Drop for BodyGuard {
    fn drop(&mut self) {
        self.0.state.lock().bodies -= 1;
    }
}

pub(crate) struct OpenConnection {
    all: Arc<Connections>,
    id: u64,
    pub(crate) connection: Arc<Connection>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.all.open.lock().remove(&self.id);
    }
}

impl Connections {
    /// Returns the connection table of a process that may have `max` connections.
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            max,
            free: Arc::new(Semaphore::new(max.min(Semaphore::MAX_PERMITS))),
            open: Mutex::default(),
            next_id: AtomicU64::new(0),
            last_warning: Mutex::new(None),
        })
    }

    /// Counts an accepted connection. A full server evicts one that waits for its client, or the new one waits.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        address: IpAddr,
        closed: CancellationToken,
    ) -> OpenConnection {
        let permit = loop {
            if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
                break permit;
            }
            self.evict();
            let freed = tokio::time::timeout(EVICTION_INTERVAL, Arc::clone(&self.free).acquire_owned());
            if let Ok(Ok(permit)) = freed.await {
                break permit;
            }
        };
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let connection = Arc::new(Connection::new(address, closed));
        self.open.lock().insert(id, Arc::clone(&connection));
        OpenConnection { all: Arc::clone(self), id, connection, _permit: permit }
    }

    /// Evicts a fraction of the connections at once, so that a flood does not scan the list for each connection.
    fn evict(&self) {
        if self.may_warn() {
            tracing::warn!(
                limit = self.max,
                "too many connections; those that wait for their clients are closed"
            );
        }
        let open = self.open.lock();
        let mut by_address = HashMap::<_, usize>::new();
        for connection in open.values() {
            *by_address.entry(connection.address).or_default() += 1;
        }
        let is_within_share =
            |connection: &Connection| by_address[&connection.address] <= self.max / ADDRESS_SHARE;
        let mut stalled: Vec<_> = open
            .values()
            .filter_map(|connection| {
                Some((is_within_share(connection), connection.stalled_since()?, connection))
            })
            .collect();
        stalled.sort_unstable_by_key(|(is_within_share, since, _)| (*is_within_share, *since));
        for (.., connection) in stalled.into_iter().take(self.max.div_ceil(64)) {
            connection.evict();
        }
    }

    /// Returns the number of open connections.
    pub fn count(&self) -> usize {
        self.open.lock().len()
    }

    /// Returns true if the last warning is long enough ago; anyone can cause these warnings.
    pub(crate) fn may_warn(&self) -> bool {
        let mut last = self.last_warning.lock();
        let is_due = last.is_none_or(|last| last.elapsed() >= WARNING_INTERVAL);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }
}

#[cfg(test)]
mod tests;
