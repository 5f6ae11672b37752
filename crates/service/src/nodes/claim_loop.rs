//! Claim loop of the local node: registers it, claims a task whenever a worker is free, and drains it at the shutdown.

use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use super::{Nodes, dispatcher, run};
use crate::Result;
use crate::database::QueueChange;

/// Starts the dispatcher and the local node, whose models are registered before the first request.
pub(crate) async fn start(nodes: &Arc<Nodes>) -> Result<()> {
    // External nodes could not extend their leases while the service was down, so they get time to reconnect. A running
    // service has recorded its local node within a third of a lease, which dates the downtime.
    let now = nodes.clock.now();
    let lease = nodes.lease;
    let (seen_at, lease_until) = (now.before(lease * 2 / 3), now.after(lease / 3));
    nodes.database.resume_nodes(lease / 2, now.before(lease / 2), seen_at, lease_until).await?;
    // With a shared database, names are random, so no earlier node has this name.
    nodes.database.node_ended(nodes.local.name(), nodes.local.kind_of_death(), now).await?;
    nodes.background.spawn_until_stop("changes of the queue", follow_changes(Arc::clone(nodes)));
    let dispatcher = nodes.background.spawn("dispatcher", dispatcher::run(Arc::clone(nodes)));
    if nodes.local.models.is_none() {
        return Ok(());
    }
    nodes.refresh_outside().await?;
    nodes.heartbeat().await?;
    let tasks = TaskTracker::new();
    for _ in 0..nodes.workers {
        // The claim loop is one of the tasks, so that the shutdown also waits for a task that is just being claimed.
        tasks.spawn(claim_and_run(Arc::clone(nodes), tasks.clone()));
    }
    nodes.background.spawn("local node", keep_registered(Arc::clone(nodes), tasks, dispatcher));
    Ok(())
}

async fn keep_registered(nodes: Arc<Nodes>, tasks: TaskTracker, dispatcher: JoinHandle<()>) {
    // A later heartbeat, also one of the dispatcher, would register the node again.
    let _ = tokio::join!(heartbeats(&nodes, &tasks), drain(&nodes, &tasks), dispatcher);
    if let Err(cause) = nodes.deregister().await {
        tracing::warn!(%cause, "the local node was not deregistered; its leases expire");
    }
}

async fn follow_changes(nodes: Arc<Nodes>) {
    loop {
        match nodes.database.queue_changed().await {
            QueueChange::Queued(model) => nodes.dispatcher.task_queued(&model),
            QueueChange::Any => nodes.dispatcher.look_for_all(),
        }
    }
}

async fn heartbeats(nodes: &Nodes, tasks: &TaskTracker) {
    while tokio::time::timeout(nodes.lease / 3, tasks.wait()).await.is_err() {
        if let Err(cause) = nodes.refresh_outside().await {
            tracing::warn!(%cause, "the nodes outside the process could not be read");
        }
        if let Err(cause) = nodes.heartbeat().await {
            tracing::warn!(%cause, "the heartbeat of the local node was not recorded");
        }
    }
}

async fn claim_and_run(nodes: Arc<Nodes>, tasks: TaskTracker) {
    let stop = &nodes.background.stop;
    while !stop.is_cancelled() {
        let Some(Some(slots)) = stop.run_until_cancelled(run::Slots::acquire(&nodes.local)).await else {
            return;
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = nodes.local.workers.needed() => {}
            task = nodes.dispatcher.local_task(nodes.local.name()) => {
                let Some(task) = task else { return };
                tasks.spawn(run::run(Arc::clone(&nodes), task, slots));
            }
        }
    }
}

async fn drain(nodes: &Nodes, tasks: &TaskTracker) {
    nodes.background.stop.cancelled().await;
    tasks.close();
    if tokio::time::timeout(nodes.shutdown_timeout, tasks.wait()).await.is_err() {
        tracing::info!(tasks = tasks.len(), "tasks that are still running are released");
        nodes.local.interrupt();
        tasks.wait().await;
    }
}
