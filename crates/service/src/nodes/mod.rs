//! Serving nodes: they pull tasks by lease, run them, and hand in what came out. The pool in this
//! process is one node with several workers; nodes outside it speak a protocol of their own.

mod inputs;
mod local_node;
mod node_api;
mod registry;
mod run;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use local_node::LocalNode;
pub(crate) use node_api::router;
pub(crate) use registry::{FORGOTTEN_AFTER, KnownNode, Registry};
pub(crate) use run::Failed;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Error;
use crate::lifecycle::app::App;
use crate::models::Models;
use crate::queue::LeaseRules;
use local_node::ClaimedTask;

/// The name of the node in this process. There is never a second one: the data folder is locked.
const NODE: &str = "local";

/// How long a worker sleeps when nothing rings: leases run out silently.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Starts the node of this process: what a previous process left unfinished is free to be claimed
/// again, and the models are announced before anyone can ask.
pub(crate) async fn start(
    app: &Arc<App>,
    table: Models,
    running: &TaskTracker,
    stop: &CancellationToken,
) -> Result<(), Error> {
    app.database.node_gone(NODE, app.clock.now()).await?;
    if app.config.workers == 0 {
        return Ok(());
    }
    let table = Arc::new(table);
    let models: Arc<[String]> = table.keys().cloned().collect();
    app.node.start(Arc::clone(&models));
    app.node.heartbeat(app).await?;
    running.spawn(announce(Arc::clone(app), stop.clone()));
    for _ in 0..app.config.workers {
        running.spawn(work(Arc::clone(app), Arc::clone(&table), stop.clone()));
    }
    Ok(())
}

/// Says every now and then that the node is alive.
async fn announce(app: Arc<App>, stop: CancellationToken) {
    while stop.run_until_cancelled(tokio::time::sleep(app.config.lease / 3)).await.is_some() {
        if let Err(cause) = app.node.heartbeat(&app).await {
            tracing::warn!(%cause, "the node could not say that it is alive");
        }
    }
}

async fn work(app: Arc<App>, table: Arc<Models>, stop: CancellationToken) {
    let rules = LeaseRules { length: app.config.lease, attempts: app.config.lease_attempts };
    while !stop.is_cancelled() {
        // Armed before looking, so that a task created between the look and the wait is not missed.
        let notified = app.local_wakeup.notified();
        match app.node.claim(&app, rules).await {
            Ok(Some(ClaimedTask { lease, script, ends })) => {
                // There may be more where this came from.
                app.local_wakeup.notify_one();
                run::run(&app, &table, NODE, lease, script, &ends).await;
            }
            Ok(None) => {
                let notified = tokio::time::timeout(POLL_INTERVAL, notified);
                let _ = stop.run_until_cancelled(notified).await;
            }
            Err(cause) => {
                tracing::error!(%cause, "a task could not be claimed");
                let _ = stop.run_until_cancelled(tokio::time::sleep(POLL_INTERVAL)).await;
            }
        }
    }
}
