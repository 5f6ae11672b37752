//! Switch of the local node: a test takes the node down, interrupts its runs, and scripts the results of tasks.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio_util::sync::CancellationToken;

use super::scripts::Script;

pub(crate) struct Switch {
    /// Claims hold the read lock; controls take the write lock to pause claims.
    state: RwLock<State>,
    pub(crate) scripts: Mutex<BTreeMap<String, Script>>,
    interrupted: CancellationToken,
}

pub(crate) struct State {
    pub(crate) is_up: bool,
    running: CancellationToken,
}

pub(crate) struct Held<'a> {
    state: RwLockReadGuard<'a, State>,
    pub(crate) switch: &'a Switch,
}

impl Switch {
    pub(crate) fn new() -> Self {
        let interrupted = CancellationToken::new();
        let state = State { is_up: true, running: interrupted.child_token() };
        Self { state: RwLock::new(state), scripts: Mutex::default(), interrupted }
    }

    pub(crate) fn interrupted(&self) -> CancellationToken {
        self.interrupted.clone()
    }

    pub(crate) async fn hold(&self) -> Held<'_> {
        Held { state: self.state.read().await, switch: self }
    }

    pub(crate) async fn pause(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().await
    }

    pub(crate) fn interrupt(&self, state: &mut State) {
        state.running.cancel();
        state.running = self.interrupted.child_token();
    }
}

impl Held<'_> {
    pub(crate) fn is_up(&self) -> bool {
        self.state.is_up
    }

    pub(crate) fn interrupted(&self) -> CancellationToken {
        self.state.running.clone()
    }
}
