//! Switch of the local node: a test takes the node down, interrupts its runs, and scripts what tasks become.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio_util::sync::CancellationToken;

use super::Script;

/// The switch of the local node.
pub(crate) struct Switch {
    /// Claims read it side by side; controls write it to pause them.
    state: RwLock<State>,
    /// What tasks become, by model.
    scripts: Mutex<BTreeMap<String, Script>>,
    /// Interrupts every run, now and later.
    pub(crate) interrupted: CancellationToken,
}

/// What a test has switched. As long as it is locked for writing, the local node claims nothing.
pub(super) struct State {
    /// Whether the node claims tasks.
    pub(super) is_up: bool,
    /// Interrupts every task that is running now.
    running: CancellationToken,
}

/// Holds off a pause while tasks are claimed for the local node.
pub(crate) struct Held<'a> {
    state: RwLockReadGuard<'a, State>,
    pub(super) switch: &'a Switch,
}

impl Switch {
    pub(super) fn new() -> Self {
        let interrupted = CancellationToken::new();
        let state = State { is_up: true, running: interrupted.child_token() };
        Self { state: RwLock::new(state), scripts: Mutex::default(), interrupted }
    }

    pub(super) fn scripts(&self) -> MutexGuard<'_, BTreeMap<String, Script>> {
        self.scripts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn hold(&self) -> Held<'_> {
        Held { state: self.state.read().await, switch: self }
    }

    /// Keeps the node from claiming until the result is dropped.
    pub(super) async fn pause(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().await
    }

    /// Interrupts every task that is running now; its result is discarded.
    pub(super) fn interrupt(&self, state: &mut State) {
        state.running.cancel();
        state.running = self.interrupted.child_token();
    }
}

impl Held<'_> {
    pub(crate) fn is_up(&self) -> bool {
        self.state.is_up
    }

    /// Cancelled when the tasks that are claimed now are interrupted.
    pub(crate) fn interrupted(&self) -> CancellationToken {
        self.state.running.clone()
    }
}
