//! Open connections of all listeners: their number is limited, and a full service closes the connection that
//! has been idle longest.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How often a listener of a full service looks for idle connections again.
const EVICTION_INTERVAL: Duration = Duration::from_millis(50);

/// How long a connection waits for bytes at least before it counts as idle: a request may be on its way.
const MIN_IDLE: Duration = Duration::from_millis(200);

/// The interval between two warnings.
const WARNING_INTERVAL: Duration = Duration::from_secs(1);

/// The open connections of a service.
pub(crate) struct Connections {
    max: usize,
    free: Arc<Semaphore>,
    open: Mutex<HashMap<u64, Arc<Connection>>>,
    next_id: AtomicU64,
    last_warning: Mutex<Option<Instant>>,
}

/// What the listener knows of one connection.
pub(crate) struct Connection {
    state: Mutex<State>,
    /// Cancelled when the connection has to make room, or the service has ended.
    pub(crate) closed: CancellationToken,
}

struct State {
    phase: Phase,
    /// The first read of the phase that found no bytes. Until there is one, a request may lie in the buffer of the
    /// system: a busy service reads late.
    waits_since: Option<Instant>,
    /// How many bodies are not read to their end: of the request, or of one whose response was written before. The bytes
    /// that arrive belong to them.
    bodies: usize,
    /// Whether the client has not yet taken what was to be written.
    is_write_blocked: bool,
}

impl State {
    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.waits_since = None;
    }

    /// Whether nothing but a request is waited for.
    fn waits(&self) -> bool {
        matches!(self.phase, Phase::Head | Phase::Idle) && self.bodies == 0 && !self.is_write_blocked
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The head of a request is incomplete: also before the first byte of a new connection.
    Head,
    /// A request is worked on, or its response has not ended.
    Request,
    /// The last response has ended, and no byte of a next request followed.
    Idle,
    /// The connection is being closed.
    Evicted,
}

impl Connection {
    fn new() -> Self {
        let state = State { phase: Phase::Head, waits_since: None, bodies: 0, is_write_blocked: false };
        Self { state: Mutex::new(state), closed: CancellationToken::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that bytes arrived. Returns whether they begin the head of a request.
    pub(crate) fn received(&self) -> bool {
        let mut state = self.state();
        let begins = state.phase == Phase::Idle && state.bodies == 0;
        if begins {
            state.enter(Phase::Head);
        }
        begins
    }

    /// Notes that a read found no bytes. Returns whether the head of a request is incomplete.
    pub(crate) fn found_no_bytes(&self) -> bool {
        let mut state = self.state();
        state.waits_since.get_or_insert_with(Instant::now);
        state.phase == Phase::Head
    }

    /// Notes that the client does not take what is written.
    pub(crate) fn blocked_on_write(&self) {
        self.state().is_write_blocked = true;
    }

    /// Notes that everything was written.
    pub(crate) fn written(&self) {
        let mut state = self.state();
        if std::mem::take(&mut state.is_write_blocked) {
            // The client sees only now that it may send a next request.
            state.waits_since = state.waits_since.map(|_| Instant::now());
        }
    }

    /// Notes that a request is worked on until the guard is dropped; None when the connection is being closed.
    pub(crate) fn begin_request(self: &Arc<Self>) -> Option<RequestGuard> {
        let mut state = self.state();
        if state.phase == Phase::Evicted {
            return None;
        }
        state.enter(Phase::Request);
        Some(RequestGuard(Arc::clone(self)))
    }

    /// Notes that a body is read until the guard is dropped, which may be after its response was written.
    pub(crate) fn begin_body(self: &Arc<Self>) -> BodyGuard {
        self.state().bodies += 1;
        BodyGuard(Arc::clone(self))
    }

    /// Since when the connection has waited for a request; None while one is worked on, or may be on its way, or while the
    /// last one is not over.
    fn idle_since(&self) -> Option<Instant> {
        let state = self.state();
        state.waits_since.filter(|since| state.waits() && since.elapsed() >= MIN_IDLE)
    }

    /// Closes the connection unless a request has begun.
    fn evict(&self) {
        let mut state = self.state();
        if state.waits() {
            state.phase = Phase::Evicted;
            self.closed.cancel();
        }
    }
}

/// A request in progress. It ends when this is dropped.
pub(crate) struct RequestGuard(Arc<Connection>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.state().enter(Phase::Idle);
    }
}

/// A body that is read. It is over when this is dropped.
pub(crate) struct BodyGuard(Arc<Connection>);

impl Drop for BodyGuard {
    fn drop(&mut self) {
        self.0.state().bodies -= 1;
    }
}

/// An open connection, which is counted until this is dropped.
pub(crate) struct OpenConnection {
    all: Arc<Connections>,
    id: u64,
    pub(crate) connection: Arc<Connection>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.all.open().remove(&self.id);
    }
}

impl Connections {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            max,
            free: Arc::new(Semaphore::new(max)),
            open: Mutex::default(),
            next_id: AtomicU64::new(0),
            last_warning: Mutex::new(None),
        })
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<Connection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a connection that was accepted. A full service closes idle connections first; while none is
    /// idle, the new one waits.
    pub(crate) async fn admit(self: &Arc<Self>) -> OpenConnection {
        let permit = loop {
            if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
                break permit;
            }
            self.evict_idle();
            let freed = tokio::time::timeout(EVICTION_INTERVAL, Arc::clone(&self.free).acquire_owned());
            if let Ok(Ok(permit)) = freed.await {
                break permit;
            }
        };
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let connection = Arc::new(Connection::new());
        self.open().insert(id, Arc::clone(&connection));
        OpenConnection { all: Arc::clone(self), id, connection, _permit: permit }
    }

    /// Closes the connections that have been idle longest: a part of all, so that a flood of new connections
    /// does not search the whole list each time.
    fn evict_idle(&self) {
        if self.may_warn() {
            tracing::warn!(limit = self.max, "too many connections; idle ones are closed");
        }
        let open = self.open();
        let mut idle: Vec<_> =
            open.values().filter_map(|connection| Some((connection.idle_since()?, connection))).collect();
        idle.sort_unstable_by_key(|(since, _)| *since);
        for (_, connection) in idle.into_iter().take(self.max.div_ceil(64)) {
            connection.evict();
        }
    }

    /// Closes every connection, in the middle of its request too.
    pub(crate) fn close_all(&self) {
        for connection in self.open().values() {
            connection.closed.cancel();
        }
    }

    /// The number of open connections.
    pub(crate) fn count(&self) -> usize {
        self.open().len()
    }

    /// Whether the last warning about connections is long enough ago; anyone can cause them.
    pub(crate) fn may_warn(&self) -> bool {
        let mut last = self.last_warning.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|last| last.elapsed() >= WARNING_INTERVAL);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_connection_that_was_idle_longest_makes_room_and_a_busy_one_never() {
        let connections = Connections::new(3);
        let busy = connections.admit().await;
        let request = busy.connection.begin_request();
        let oldest = connections.admit().await;
        oldest.connection.found_no_bytes();
        tokio::time::advance(Duration::from_secs(1)).await;
        let younger = connections.admit().await;
        younger.connection.found_no_bytes();
        let closed = oldest.connection.closed.clone();
        tokio::spawn(async move {
            closed.cancelled().await;
            drop(oldest);
        });
        let newcomer = connections.admit().await;
        assert!(!busy.connection.closed.is_cancelled());
        assert!(!younger.connection.closed.is_cancelled());
        assert_eq!(connections.count(), 3);
        drop((request, newcomer));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_was_not_read_yet_is_not_idle_however_long_ago_it_came() {
        let connections = Connections::new(1);
        let newcomer = connections.admit().await;
        tokio::time::advance(Duration::from_secs(1)).await;
        connections.evict_idle();
        assert!(!newcomer.connection.closed.is_cancelled(), "its request lies in the buffer of the system");
        drop(newcomer.connection.begin_request());
        tokio::time::advance(Duration::from_secs(1)).await;
        connections.evict_idle();
        assert!(!newcomer.connection.closed.is_cancelled(), "the next request may lie there");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_bytes_is_closed_only_after_a_while() {
        let connections = Connections::new(1);
        let newcomer = connections.admit().await;
        newcomer.connection.found_no_bytes();
        connections.evict_idle();
        assert!(!newcomer.connection.closed.is_cancelled(), "a request may be on its way");
        tokio::time::advance(MIN_IDLE / 2).await;
        newcomer.connection.found_no_bytes();
        tokio::time::advance(MIN_IDLE / 2).await;
        connections.evict_idle();
        assert!(newcomer.connection.closed.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_still_writes_or_whose_body_is_read_is_not_closed() {
        let connections = Connections::new(1);
        let open = connections.admit().await;
        let is_closed = async || {
            open.connection.found_no_bytes();
            tokio::time::advance(MIN_IDLE * 5).await;
            connections.evict_idle();
            open.connection.closed.is_cancelled()
        };
        let request = open.connection.begin_request();
        let body = open.connection.begin_body();
        drop(request);
        assert!(!is_closed().await, "the body is not at its end");
        open.connection.blocked_on_write();
        drop(body);
        assert!(!is_closed().await, "the response is not written");
        open.connection.written();
        connections.evict_idle();
        assert!(!open.connection.closed.is_cancelled(), "a request may be on its way");
        assert!(is_closed().await);
    }

    #[test]
    fn the_rest_of_a_body_after_its_response_is_no_head_of_a_request() {
        let connection = Arc::new(Connection::new());
        let request = connection.begin_request();
        let body = connection.begin_body();
        drop(request);
        assert!(!connection.received() && !connection.found_no_bytes());
        // The next request may have begun when the body of the last one is known to be over.
        let next = connection.begin_request();
        drop(body);
        assert!(!connection.received() && connection.idle_since().is_none());
        drop(next);
        assert!(connection.received() && connection.found_no_bytes());
    }

    #[tokio::test(start_paused = true)]
    async fn a_warning_is_due_once_a_second() {
        let connections = Connections::new(1);
        assert!(connections.may_warn());
        assert!(!connections.may_warn());
        tokio::time::advance(WARNING_INTERVAL).await;
        assert!(connections.may_warn());
    }
}
