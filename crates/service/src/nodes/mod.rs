//! Nodes claim tasks by lease, run them, and report their results. External nodes use the node API.

mod dispatcher;
mod inputs;
mod local_node;
pub(crate) mod log;
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

/// Name of the local node of a process with its own database. The lock of the data folder excludes a second such node.
const NODE: &str = "local";

pub(crate) const OUTPUTS: &str = "outputs";

/// Pause before a failed write is retried.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Returns the name of the local node, which is random if several processes share the database.
pub(crate) fn local_name(database: &dyn Database, random: &Randomness) -> Result<String> {
    if database.is_shared() {
        return Ok(format!("{NODE}-{}", random.word(12)?));
    }
    Ok(NODE.to_owned())
}

/// Starts the dispatcher and the local node. Tasks of an earlier process that died can be claimed at once, and the
/// models are registered before the first request.
pub(crate) async fn start(app: &Arc<App>) -> Result<()> {
    // External nodes could not extend their leases while the service was down, so they get time to reconnect. A running
    // service has recorded its local node within a third of a lease, which dates the downtime.
    let now = app.clock.now();
    let lease = app.config.lease;
    let (seen_at, lease_until) = (now.before(lease * 2 / 3), now.after(lease / 3));
    app.database.resume_nodes(lease / 2, now.before(lease / 2), seen_at, lease_until).await?;
    // With a shared database, names are random, so no earlier node has this name.
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
        // The claim loop is one of the tasks, so that the shutdown also waits for a task that is just being claimed.
        tasks.spawn(claim_and_run(Arc::clone(app), tasks.clone()));
    }
    app.parts.spawn("local node", keep_registered(Arc::clone(app), tasks, dispatcher));
    Ok(())
}

/// Keeps the local node registered until shutdown, when the last task has ended or was released.
async fn keep_registered(app: Arc<App>, tasks: TaskTracker, dispatcher: JoinHandle<()>) {
    // A later heartbeat, also one of the dispatcher, would register the node again.
    let _ = tokio::join!(heartbeats(&app, &tasks), drain(&app, &tasks), dispatcher);
    if let Err(cause) = app.node.deregister(&app).await {
        tracing::warn!(%cause, "the local node was not deregistered; its leases expire");
    }
}

/// Wakes the dispatcher when other processes change the queue.
async fn follow_changes(app: Arc<App>) {
    loop {
        match app.database.queue_changed().await {
            QueueChange::Queued(model) => app.dispatcher.task_queued(&model),
            QueueChange::Any => app.dispatcher.look_for_all(),
        }
    }
}

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

/// Claims a task whenever a worker is free, and runs it concurrently.
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

/// Graceful shutdown of the local node: waits for the running tasks up to a timeout, and releases the others.
async fn drain(app: &App, tasks: &TaskTracker) {
    app.parts.stop.cancelled().await;
    tasks.close();
    if tokio::time::timeout(app.config.shutdown_timeout, tasks.wait()).await.is_err() {
        tracing::info!(tasks = tasks.len(), "tasks that are still running are released");
        app.node.interrupt();
        tasks.wait().await;
    }
}
