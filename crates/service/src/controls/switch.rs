//! Switch of the local node: a test takes the node down, interrupts its runs, and scripts what tasks become.

use std::sync::Arc;

use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio_util::sync::CancellationToken;

use super::scripts::{Replacement, Scripts};

/// The switch of the local node.
pub(crate) struct Switch {
    /// Claims read it side by side; controls write it to pause them.
    state: RwLock<State>,
    pub(super) scripts: Arc<Scripts>,
    /// Interrupts every run, now and later.
    pub(crate) interrupted: CancellationToken,
}

/// What a test has switched. As long as it is locked for writing, the local node claims nothing.
pub(super) struct State {
    /// Whether the node claims tasks.
    pub(super) is_up: bool,
    /// Interrupts every task that is running now.
    running: CancellationToken,
    interrupted: CancellationToken,
}

/// Holds off a pause while tasks are claimed for the local node.
pub(crate) struct Held<'a> {
    state: RwLockReadGuard<'a, State>,
    scripts: &'a Scripts,
}

impl Switch {
    pub(super) fn new() -> Self {
        let interrupted = CancellationToken::new();
        let running = interrupted.child_token();
        let state = State { is_up: true, running, interrupted: interrupted.clone() };
        Self { state: RwLock::new(state), scripts: Arc::default(), interrupted }
    }

    pub(crate) async fn hold(&self) -> Held<'_> {
        Held { state: self.state.read().await, scripts: &self.scripts }
    }

    /// Keeps the node from claiming until the result is dropped.
    pub(super) async fn pause(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().await
    }
}

impl Held<'_> {
    pub(crate) fn is_up(&self) -> bool {
        self.state.is_up
    }

    /// Returns the models that the node serves, given those that it runs; None when it is down.
    pub(crate) fn served(&self, models: &[String]) -> Option<Vec<String>> {
        self.is_up().then(|| self.scripts.served(models))
    }

    /// Returns the models whose tasks the node may claim now, given those that it runs; None when it is down.
    pub(crate) fn claimable(&self, models: &[String]) -> Option<Vec<String>> {
        self.is_up().then(|| self.scripts.claimable(models))
    }

    /// Returns what happens to a task of the model that was just claimed; None lets the model run.
    pub(crate) fn replacement(&self, model: &str) -> Option<Replacement> {
        self.scripts.replacement(model)
    }

    /// Cancelled when the tasks that are claimed now are interrupted.
    pub(crate) fn interrupted(&self) -> CancellationToken {
        self.state.running.clone()
    }
}

impl State {
    /// Interrupts every task that is running now; its result is discarded.
    pub(super) fn interrupt(&mut self) {
        self.running.cancel();
        self.running = self.interrupted.child_token();
    }
}
