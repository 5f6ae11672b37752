//! Local node, in this process: its models and its worker slots.

#[cfg(unix)]
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::DispatchedTask;
#[cfg(unix)]
use super::model_processes::ModelProcesses;
use super::outside::OutsideModels;
use super::switch::{Held, Switch};
use super::worker_shares::{HeldWorker, WorkerShares};
use crate::Result;
use crate::clock::Moment;
use crate::config::Config;
use crate::database::Database;
use crate::models::{Failed, Models};
use crate::queue::{Lease, NodeEnd, Slot};

const MEBIBYTE: u64 = 1 << 20;

/// Returns the time after which the node abandons a run. The run checks its own, shorter deadline.
pub(super) fn run_timeout(limit: Duration) -> Duration {
    limit.saturating_mul(5) / 4
}

pub(crate) struct LocalNode {
    name: String,
    interrupted: CancellationToken,
    switch: Option<Arc<Switch>>,
    /// Models that this process runs; None if it runs no tasks.
    pub(super) models: Option<Models>,
    /// Worker processes of the built-in models; None if these run in this process.
    #[cfg(unix)]
    pub(super) processes: Option<ModelProcesses>,
    pub(super) outside: OutsideModels,
    pub(super) workers: Workers,
    pub(super) shares: WorkerShares,
    /// Permits for tasks that fetch inputs from the internet. These tasks hold no worker.
    pub(super) fetches: Arc<Semaphore>,
    /// Memory of all runs together, in MiB.
    memory: Arc<Semaphore>,
    total_memory: u32,
    /// Maximum wait of a run for memory: the time that the runs of all workers take if they run one after the other.
    memory_timeout: Duration,
    /// Maximum of one account's tasks here: workers plus half the fetches. Slow inputs delay only their own account.
    max_running: u32,
}

/// Permits for concurrent runs. A task with fetched inputs gets a worker before new tasks are claimed.
pub(super) struct Workers {
    permits: Arc<Semaphore>,
    /// Reference counter: each task that waits for a worker holds a clone.
    waiting: Arc<()>,
    needed: Notify,
}

impl Workers {
    fn new(workers: usize) -> Self {
        let permits = Arc::new(Semaphore::new(workers));
        Self { permits, waiting: Arc::default(), needed: Notify::new() }
    }

    pub(super) async fn idle(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).acquire_owned().await.ok()
    }

    pub(super) async fn acquire(&self) -> Option<OwnedSemaphorePermit> {
        let _waiting = Arc::clone(&self.waiting);
        self.needed.notify_waiters();
        self.idle().await
    }

    pub(super) fn are_needed(&self) -> bool {
        Arc::strong_count(&self.waiting) > 1
    }

    pub(super) async fn needed(&self) {
        let mut needed = std::pin::pin!(self.needed.notified());
        needed.as_mut().enable();
        if !self.are_needed() {
            needed.await;
        }
    }
}

#[derive(Clone)]
pub(crate) struct Replacement {
    pub(crate) delay: Duration,
    pub(crate) outcome: Option<Result<Map<String, Value>, Failed>>,
}

pub(crate) struct ClaimedTask {
    pub(super) lease: Lease,
    pub(super) share: Option<HeldWorker>,
    pub(super) interrupted: CancellationToken,
    pub(super) replacement: Option<Replacement>,
}

pub(super) struct Claiming<'a> {
    node: &'a LocalNode,
    /// Criteria of one slot's claim; None if the node claims nothing.
    pub(super) slot: Option<Slot>,
    held: Option<Held<'a>>,
}

impl Claiming<'_> {
    pub(super) fn claimed(&self, lease: Lease) -> DispatchedTask {
        let interrupted = self.node.interrupted.clone();
        let interrupted = self.held.as_ref().map_or(interrupted, Held::interrupted);
        DispatchedTask::Local(ClaimedTask {
            share: Some(self.node.shares.hold(lease.account)),
            interrupted,
            replacement: self.held.as_ref().and_then(|held| held.replacement(&lease.model)),
            lease,
        })
    }
}

impl LocalNode {
    pub(crate) fn new(
        config: &Config,
        name: String,
        models: Option<Models>,
        #[cfg(unix)] folder: &Path,
        switch: Option<Arc<Switch>>,
    ) -> Result<Self> {
        #[cfg(unix)]
        let processes = match models {
            Some(_) => ModelProcesses::new(config, folder)?,
            None => None,
        };
        #[cfg(not(unix))]
        if config.model_process.is_some() {
            return Err(crate::Error::new("starting the model process", "this system has no process groups"));
        }
        let interrupted = CancellationToken::new();
        let interrupted = switch.as_ref().map_or(interrupted, |switch| switch.interrupted());
        let fetches = 4 * config.workers.max(4);
        let memory = config.limits.memory_of_all_runs.max(config.limits.memory) / MEBIBYTE;
        let total_memory = u32::try_from(memory).unwrap_or(u32::MAX).max(1);
        Ok(Self {
            name,
            interrupted,
            switch,
            models,
            #[cfg(unix)]
            processes,
            outside: OutsideModels::default(),
            workers: Workers::new(config.workers),
            shares: WorkerShares::new(config.workers),
            fetches: Arc::new(Semaphore::new(fetches)),
            memory: Arc::new(Semaphore::new(total_memory as usize)),
            total_memory,
            memory_timeout: run_timeout(config.limits.run)
                .saturating_mul(u32::try_from(config.workers).unwrap_or(u32::MAX)),
            max_running: u32::try_from(config.workers + fetches / 2).unwrap_or(u32::MAX),
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the reason for the end of an earlier node of this name, whose process was killed.
    pub(super) const fn kind_of_death(&self) -> NodeEnd {
        #[cfg(unix)]
        if self.processes.is_some() {
            return NodeEnd::DiedAlone;
        }
        NodeEnd::Died
    }

    fn names(&self) -> Option<Vec<String>> {
        Some(self.models.as_ref()?.keys().cloned().collect())
    }

    pub(super) fn interrupt(&self) {
        self.interrupted.cancel();
    }

    /// Returns true if scripts decide after each claim which tasks can be claimed next.
    pub(super) const fn is_scripted(&self) -> bool {
        self.switch.is_some()
    }

    async fn held(&self) -> Option<Held<'_>> {
        Some(self.switch.as_ref()?.hold().await)
    }

    /// Reserves memory of all runs; fails after a timeout, because a run that ignores its deadline keeps its memory.
    pub(super) async fn reserve_memory(&self, bytes: u64) -> Result<OwnedSemaphorePermit, Failed> {
        let mebibytes = u32::try_from(bytes.div_ceil(MEBIBYTE)).unwrap_or(u32::MAX).min(self.total_memory);
        let reserved = Arc::clone(&self.memory).acquire_many_owned(mebibytes);
        match tokio::time::timeout(self.memory_timeout, reserved).await {
            Ok(Ok(reserved)) => Ok(reserved),
            _ => Err(Failed::node("a run that ignores its deadline keeps the memory of all runs")),
        }
    }

    pub(super) async fn claiming(&self) -> Claiming<'_> {
        let held = self.held().await;
        let mut models = self.names();
        models.iter_mut().for_each(|names| names.retain(|name| !self.outside.contains(name)));
        if let Some(held) = &held {
            models = models.and_then(|models| held.claimable(models));
        }
        let slot = models.map(|models| Slot {
            node: self.name.clone(),
            models: models.into(),
            max_running: self.max_running,
            passed_over: self.shares.full(),
        });
        Claiming { node: self, slot, held }
    }

    pub(crate) async fn heartbeat(&self, database: &dyn Database, now: Moment) -> Result<()> {
        let models = self.names();
        let held = self.held().await;
        let models = match &held {
            Some(held) => models.and_then(|models| held.served(models)),
            None => models,
        };
        let Some(models) = models else { return Ok(()) };
        database.register(&self.name, None, &models, now).await.map(drop)
    }

    pub(crate) async fn deregister(&self, database: &dyn Database, now: Moment) -> Result<()> {
        database.node_ended(&self.name, NodeEnd::Left, now).await
    }
}
