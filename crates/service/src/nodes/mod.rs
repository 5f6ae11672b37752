//! Serving nodes: they pull tasks by lease, run them, and hand in what came out. The pool in this
//! process is one node with several workers; nodes outside it speak a protocol of their own.

mod inputs;
mod protocol;
mod registry;
mod run;
mod switch;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use protocol::router;
pub(crate) use registry::{FORGOTTEN_AFTER, KnownNode, Registry};
pub(crate) use run::Failed;
pub(crate) use switch::Switch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Error;
use crate::lifecycle::app::App;
use crate::models::Runners;
use crate::queue::LeaseRules;
use switch::Turn;

/// The name of the node in this process. There is never a second one: the data folder is locked.
const NODE: &str = "local";

/// How long a worker sleeps when nothing rings: leases run out silently.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Starts the node of this process: what a previous process left unfinished is free to be claimed
/// again, and the models are announced before anyone can ask.
pub(crate) async fn start(
    app: &Arc<App>,
    runners: Runners,
    running: &TaskTracker,
    stop: &CancellationToken,
) -> Result<(), Error> {
    app.database.node_gone(NODE, app.clock.now()).await?;
    if app.config.workers == 0 {
        return Ok(());
    }
    let runners = Arc::new(runners);
    let models: Arc<[String]> = runners.keys().cloned().collect();
    app.node.start(Arc::clone(&models));
    app.node.announce(app).await?;
    running.spawn(announce(Arc::clone(app), stop.clone()));
    for _ in 0..app.config.workers {
        running.spawn(work(Arc::clone(app), Arc::clone(&runners), stop.clone()));
    }
    Ok(())
}

/// Says every now and then that the node is alive.
async fn announce(app: Arc<App>, stop: CancellationToken) {
    while stop.run_until_cancelled(tokio::time::sleep(app.config.lease / 3)).await.is_some() {
        if let Err(cause) = app.node.announce(&app).await {
            tracing::warn!(%cause, "the node could not say that it is alive");
        }
    }
}

async fn work(app: Arc<App>, runners: Arc<Runners>, stop: CancellationToken) {
    let rules = LeaseRules { length: app.config.lease, attempts: app.config.lease_attempts };
    while !stop.is_cancelled() {
        // Armed before looking, so that a task created between the look and the wait is not missed.
        let rung = app.work.notified();
        match app.node.claim(&app, rules).await {
            Ok(Some(Turn { lease, script, ends })) => {
                // There may be more where this came from.
                app.work.notify_one();
                run::run(&app, &runners, NODE, lease, script, &ends).await;
            }
            Ok(None) => {
                let rung = tokio::time::timeout(LOOK_AGAIN, rung);
                let _ = stop.run_until_cancelled(rung).await;
            }
            Err(cause) => {
                tracing::error!(%cause, "a task could not be claimed");
                let _ = stop.run_until_cancelled(tokio::time::sleep(LOOK_AGAIN)).await;
            }
        }
    }
}
