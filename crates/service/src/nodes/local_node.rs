//! Whether the node in this process works: it can be told to stop claiming tasks and to begin again, and
//! what it runs can be interrupted.

use std::sync::{Arc, OnceLock};

use tokio::sync::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;

use super::NODE;
use crate::Error;
use crate::controls::Script;
use crate::lifecycle::app::App;
use crate::queue::{Lease, LeaseRules};

/// Whether the node in this process works.
pub(crate) struct LocalNode {
    /// Paused during every claim, so that nothing is claimed while the node is switched off or the tasks
    /// are exchanged.
    state: Mutex<State>,
    /// What the node runs; not set when this process runs no tasks.
    models: OnceLock<Arc<[String]>>,
}

struct State {
    is_up: bool,
    /// Ends everything that runs now.
    running: CancellationToken,
    stop: CancellationToken,
}

/// A task that was claimed, and how it is to be run.
pub(super) struct ClaimedTask {
    pub(super) lease: Lease,
    pub(super) script: Option<Script>,
    pub(super) ends: CancellationToken,
}

/// As long as it is held, the node claims nothing.
pub(crate) struct Paused<'a>(MutexGuard<'a, State>);

impl Paused<'_> {
    /// Ends everything that runs now. What comes of it is thrown away.
    pub(crate) fn interrupt(&mut self) {
        self.0.running.cancel();
        self.0.running = self.0.stop.child_token();
    }

    /// True from the next claim on, or false.
    pub(crate) fn set_up(&mut self, is_up: bool) {
        self.0.is_up = is_up;
    }
}

impl LocalNode {
    /// A node that works until the service stops.
    pub(crate) fn new(stop: &CancellationToken) -> Self {
        let state = State { is_up: true, running: stop.child_token(), stop: stop.clone() };
        Self { state: Mutex::new(state), models: OnceLock::new() }
    }

    pub(super) fn start(&self, models: Arc<[String]>) {
        let _ = self.models.set(models);
    }

    /// Keeps the node from claiming until what is returned is dropped.
    pub(crate) async fn pause(&self) -> Paused<'_> {
        Paused(self.state.lock().await)
    }

    pub(crate) async fn is_up(&self) -> bool {
        self.state.lock().await.is_up && self.models.get().is_some()
    }

    /// Says that the node is alive and what it runs; nothing when it is down.
    pub(crate) async fn heartbeat(&self, app: &App) -> Result<(), Error> {
        let state = self.state.lock().await;
        match self.models.get() {
            Some(models) if state.is_up => {
                app.database.node_seen(NODE, &app.scripts.announced(models), app.clock.now()).await
            }
            _ => Ok(()),
        }
    }

    /// Says that the node is gone; what it had leased is free.
    pub(crate) async fn deregister(&self, app: &App) -> Result<(), Error> {
        app.database.node_gone(NODE, app.clock.now()).await
    }

    pub(super) async fn claim(&self, app: &App, rules: LeaseRules) -> Result<Option<ClaimedTask>, Error> {
        let state = self.state.lock().await;
        let Some(models) = self.models.get().filter(|_| state.is_up) else { return Ok(None) };
        let models = app.scripts.claimable(models);
        let Some(lease) = app.database.claim(NODE, &models, rules, app.clock.now()).await? else {
            return Ok(None);
        };
        let script = app.scripts.take(&lease.model);
        Ok(Some(ClaimedTask { lease, script, ends: state.running.clone() }))
    }
}
