//! The node in this process: its models, its worker slots, and a pause for controls.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::{Notify, OwnedSemaphorePermit, RwLock, RwLockReadGuard, RwLockWriteGuard, Semaphore};
use tokio_util::sync::CancellationToken;

use super::hook::{Replacement, RunHook};
#[cfg(unix)]
use super::model_processes::ModelProcesses;
use super::outside::OutsideModels;
use super::{DispatchedTask, NODE};
use crate::Error;
use crate::lifecycle::app::App;
use crate::lifecycle::config::Config;
use crate::models::Models;
use crate::queue::{Lease, Slot};

/// The unit in which memory of runs is reserved.
const MEBIBYTE: u64 = 1 << 20;

/// The node in this process.
pub(crate) struct LocalNode {
    /// Claims read it side by side; controls write it to pause them.
    state: RwLock<State>,
    /// Not set when this process runs no tasks.
    models: OnceLock<Arc<Models>>,
    /// Not set when built-in models run in this process.
    #[cfg(unix)]
    processes: OnceLock<ModelProcesses>,
    hook: Option<Arc<dyn RunHook>>,
    /// What it leaves to nodes outside the process.
    pub(super) outside: OutsideModels,
    pub(super) workers: Workers,
    /// Tasks whose inputs are fetched from the internet, at a time. They hold no worker.
    pub(super) fetches: Arc<Semaphore>,
    /// Memory of all runs together, in MiB.
    memory: Arc<Semaphore>,
    total_memory: u32,
    /// How many tasks of one account the node takes at a time: as many as it has workers, and half of those
    /// that it fetches inputs for. So an account whose inputs are slow delays itself alone.
    max_running: u32,
}

/// Permits for runs at a time. A task whose inputs have arrived comes before tasks that are not claimed yet.
pub(super) struct Workers {
    permits: Arc<Semaphore>,
    /// How many tasks wait for a worker.
    waiting: AtomicUsize,
    needed: Notify,
}

impl Workers {
    fn new(workers: usize) -> Self {
        let permits = Arc::new(Semaphore::new(workers));
        Self { permits, waiting: AtomicUsize::new(0), needed: Notify::new() }
    }

    /// Waits for a worker that may stay without a task until it is needed.
    pub(super) async fn idle(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).acquire_owned().await.ok()
    }

    /// Waits for a worker for a task that is claimed.
    pub(super) async fn acquire(&self) -> Option<OwnedSemaphorePermit> {
        struct Waiting<'a>(&'a AtomicUsize);

        impl Drop for Waiting<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }

        self.waiting.fetch_add(1, Ordering::SeqCst);
        let _waiting = Waiting(&self.waiting);
        self.needed.notify_waiters();
        self.idle().await
    }

    /// Returns when a claimed task waits for a worker.
    pub(super) async fn needed(&self) {
        let mut needed = std::pin::pin!(self.needed.notified());
        needed.as_mut().enable();
        if self.waiting.load(Ordering::SeqCst) == 0 {
            needed.await;
        }
    }
}

struct State {
    is_up: bool,
    /// Interrupts every task that is running now.
    running: CancellationToken,
}

/// A task that the local node has claimed.
pub(crate) struct ClaimedTask {
    pub(super) lease: Lease,
    pub(super) replacement: Option<Replacement>,
    /// Canceled when the run is interrupted.
    pub(super) interrupted: CancellationToken,
}

/// As long as it is held, the local node claims nothing.
pub(crate) struct Paused<'a>(RwLockWriteGuard<'a, State>);

impl Paused<'_> {
    /// Interrupts every task that is running now; its result is discarded.
    pub(crate) fn interrupt(&mut self) {
        self.0.running.cancel();
        self.0.running = CancellationToken::new();
    }

    /// Switches the node on or off, from the next claim on.
    pub(crate) fn set_up(&mut self, is_up: bool) {
        self.0.is_up = is_up;
    }
}

/// Holds off a pause while tasks are claimed for the local node.
pub(super) struct Claiming<'a> {
    state: RwLockReadGuard<'a, State>,
    node: &'a LocalNode,
    /// What one slot may claim now; `None` when the node claims nothing.
    pub(super) slot: Option<Slot>,
}

impl Claiming<'_> {
    /// A lease as the local node runs it.
    pub(super) fn claimed(&self, lease: Lease) -> DispatchedTask {
        DispatchedTask::Local(ClaimedTask {
            replacement: self.node.hook.as_ref().and_then(|hook| hook.replacement(&lease.model)),
            interrupted: self.state.running.clone(),
            lease,
        })
    }
}

impl LocalNode {
    pub(crate) fn new(config: &Config, hook: Option<Arc<dyn RunHook>>) -> Self {
        let fetches = 4 * config.workers.max(4);
        let memory = config.limits.memory_of_all_runs.max(config.limits.memory) / MEBIBYTE;
        let total_memory = u32::try_from(memory).unwrap_or(u32::MAX).max(1);
        Self {
            state: RwLock::new(State { is_up: true, running: CancellationToken::new() }),
            models: OnceLock::new(),
            #[cfg(unix)]
            processes: OnceLock::new(),
            hook,
            outside: OutsideModels::default(),
            workers: Workers::new(config.workers),
            fetches: Arc::new(Semaphore::new(fetches)),
            memory: Arc::new(Semaphore::new(total_memory as usize)),
            total_memory,
            max_running: u32::try_from(config.workers + fetches / 2).unwrap_or(u32::MAX),
        }
    }

    pub(super) fn start(&self, models: Models, config: &Config) -> Result<(), Error> {
        #[cfg(unix)]
        if let Some(processes) = ModelProcesses::new(config)? {
            let _ = self.processes.set(processes);
        }
        #[cfg(not(unix))]
        if config.model_process.is_some() {
            return Err(Error::new("starting the model process", "this system has no process groups"));
        }
        let _ = self.models.set(Arc::new(models));
        Ok(())
    }

    /// The processes that run built-in models, where they run in processes of their own.
    #[cfg(unix)]
    pub(super) fn processes(&self) -> Option<&ModelProcesses> {
        self.processes.get()
    }

    /// The models that this process runs.
    pub(super) fn models(&self) -> Option<&Models> {
        self.models.get().map(|models| &**models)
    }

    fn names(&self) -> Option<Vec<String>> {
        self.models.get().map(|models| models.keys().cloned().collect())
    }

    /// The models that no node outside the process serves.
    fn names_to_claim(&self) -> Option<Vec<String>> {
        let mut names = self.names()?;
        names.retain(|name| !self.outside.contains(name));
        Some(names)
    }

    /// Whether every task is run by its model, so that several may be claimed in one transaction.
    pub(super) const fn has_hook(&self) -> bool {
        self.hook.is_some()
    }

    /// Waits until that many bytes are left of the memory of all runs, and reserves them.
    pub(super) async fn reserve_memory(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let mebibytes = u32::try_from(bytes.div_ceil(MEBIBYTE)).unwrap_or(u32::MAX).min(self.total_memory);
        Arc::clone(&self.memory).acquire_many_owned(mebibytes).await.ok()
    }

    /// Keeps the node from claiming until the result is dropped.
    pub(crate) async fn pause(&self) -> Paused<'_> {
        Paused(self.state.write().await)
    }

    pub(crate) async fn is_up(&self) -> bool {
        self.state.read().await.is_up && self.models.get().is_some()
    }

    pub(super) async fn claiming(&self) -> Claiming<'_> {
        let state = self.state.read().await;
        let names = self.names_to_claim().filter(|_| state.is_up);
        let claimable = names.map(|names| match &self.hook {
            Some(hook) => hook.claimable(&names),
            None => names,
        });
        let slot = claimable.map(|models| Slot {
            node: NODE.to_owned(),
            models: models.into(),
            max_running: self.max_running,
        });
        Claiming { state, node: self, slot }
    }

    /// Records that the node is alive and which models it serves; nothing when it is down.
    pub(crate) async fn heartbeat(&self, app: &App) -> Result<(), Error> {
        let state = self.state.read().await;
        let Some(names) = self.names().filter(|_| state.is_up) else { return Ok(()) };
        let served = match &self.hook {
            Some(hook) => hook.served(&names),
            None => names,
        };
        app.database.node_seen(NODE, &served, app.clock.now()).await
    }

    /// Removes the node from those that serve models; the tasks that it had leased are released.
    pub(crate) async fn deregister(&self, app: &App) -> Result<(), Error> {
        app.database.node_left(NODE, app.clock.now()).await
    }
}
