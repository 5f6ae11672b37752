//! Nodes: they claim tasks by lease, run them, and report their results. One node is in this process; nodes
//! outside it use the node API.

mod dispatcher;
mod inputs;
mod local_node;
#[cfg(unix)]
mod model_processes;
mod node_api;
mod outside;
mod registry;
mod run;
#[cfg(unix)]
mod run_folder;
#[cfg(test)]
mod tests;
mod worker_shares;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use dispatcher::{Dispatcher, release_unwanted};
pub(crate) use local_node::LocalNode;
pub(crate) use node_api::router;
pub(crate) use registry::{
    KnownNode, MAX_KEY_MODELS, NODE_RETENTION, NODE_SILENCE, NodeKey, Registry, SeenSlot,
};
pub(crate) use run::Failed;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use crate::Result;
use crate::database::{Database, QueueChange};
use crate::lifecycle::app::App;
use crate::random::Randomness;
use dispatcher::DispatchedTask;

/// The name of the node in the process that has a database of its own. The data folder is locked, so there is never
/// a second one.
const NODE: &str = "local";

/// The bucket of what models produce.
pub(crate) const OUTPUTS: &str = "outputs";

/// The pause before a failed write is tried again.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// The name of the node in this process: one of its own where several processes share the database.
pub(crate) fn local_name(database: &dyn Database, random: &Randomness) -> Result<String> {
    if database.is_shared() {
        return Ok(format!("{NODE}-{}", random.word(12)?));
    }
    Ok(NODE.to_owned())
}

/// Starts the dispatcher and the node of this process. What a process that died was running can be claimed at
/// once, and the models are registered before the first request.
pub(crate) async fn start(app: &Arc<App>) -> Result<()> {
    // Nodes outside could not prolong their leases while the service was down: they have time to come back first. While
    // it was there, the local node of a process was seen within a third of a lease.
    let now = app.clock.now();
    let lease = app.config.lease;
    let (seen_at, lease_until) = (now.before(lease * 2 / 3), now.after(lease / 3));
    app.database.resume_nodes(lease / 2, now.before(lease / 2), seen_at, lease_until).await?;
    // Where processes share the database, no node of an earlier one has this name.
    app.database.node_ended(app.node.name(), app.node.kind_of_death(), now).await?;
    app.parts.spawn_until_stop("changes of the queue", follow_changes(Arc::clone(app)));
    let dispatcher = app.parts.spawn("dispatcher", dispatcher::run(Arc::clone(app)));
    if app.node.models.is_none() {
        return Ok(());
    }
    app.node.outside.refresh(app).await?;
    app.node.heartbeat(app).await?;
    let tasks = TaskTracker::new();
    for _ in 0..app.config.workers {
        // Among the tasks: one that is claimed while the service stops is waited for, too.
        tasks.spawn(claim_and_run(Arc::clone(app), tasks.clone()));
    }
    app.parts.spawn("local node", keep_registered(Arc::clone(app), tasks, dispatcher));
    Ok(())
}

/// Keeps the local node registered until the service stops and its last task has ended, or was released.
async fn keep_registered(app: Arc<App>, tasks: TaskTracker, dispatcher: JoinHandle<()>) {
    // A heartbeat after the end, or one of the dispatcher, would register the node again.
    let _ = tokio::join!(heartbeats(&app, &tasks), drain(&app, &tasks), dispatcher);
    if let Err(cause) = app.node.deregister(&app).await {
        tracing::warn!(%cause, "the local node was not deregistered; its leases expire");
    }
}

/// Wakes the dispatcher for what other processes have done to the queue.
async fn follow_changes(app: Arc<App>) {
    loop {
        match app.database.queue_changed().await {
            QueueChange::Queued(model) => app.dispatcher.task_queued(&model),
            QueueChange::Any => app.dispatcher.look_for_all(),
        }
    }
}

/// Records at intervals that the node is alive, until its last task has ended.
async fn heartbeats(app: &App, tasks: &TaskTracker) {
    while tokio::time::timeout(app.config.lease / 3, tasks.wait()).await.is_err() {
        if let Err(cause) = app.node.outside.refresh(app).await {
            tracing::warn!(%cause, "the nodes outside the process could not be read");
        }
        if let Err(cause) = app.node.heartbeat(app).await {
            tracing::warn!(%cause, "the heartbeat of the local node was not recorded");
        }
    }
}

/// Claims a task whenever a worker is free, and runs it beside the others.
async fn claim_and_run(app: Arc<App>, tasks: TaskTracker) {
    let stop = &app.parts.stop;
    while !stop.is_cancelled() {
        let Some(Some(slots)) = stop.run_until_cancelled(run::Slots::acquire(&app.node)).await else {
            return;
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = app.node.workers.needed() => {}
            task = app.dispatcher.local_task(app.node.name()) => {
                let Some(task) = task else { return };
                tasks.spawn(run::run(Arc::clone(&app), task, slots));
            }
        }
    }
}

/// Waits after a stop for the tasks that are running, up to a limit, and releases those that are left.
async fn drain(app: &App, tasks: &TaskTracker) {
    app.parts.stop.cancelled().await;
    tasks.close();
    if tokio::time::timeout(app.config.shutdown_timeout, tasks.wait()).await.is_err() {
        tracing::info!(tasks = tasks.len(), "tasks that are still running are released");
        app.node.interrupt();
        tasks.wait().await;
    }
}
