//! Serving nodes: they pull tasks by lease, run them, and hand in what came out. The pool in this
//! process is one node with several workers.

mod fetch;
mod inputs;
mod run;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use fetch::Fetcher;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Error;
use crate::app::App;
use crate::models::Runners;
use crate::queue::LeaseRules;

/// The name of the node in this process. There is never a second one: the data folder is locked.
const NODE: &str = "local";

/// How long a worker sleeps when nothing rings: leases run out silently.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Starts the node of this process: what a previous process left unfinished is free to be claimed
/// again, and the models are announced before anyone can ask.
pub(crate) async fn start(
    app: &Arc<App>,
    runners: Runners,
    running: &TaskTracker,
    stop: &CancellationToken,
) -> Result<(), Error> {
    app.store.node_gone(NODE, app.clock.now()).await?;
    if app.config.workers == 0 {
        return Ok(());
    }
    let runners = Arc::new(runners);
    let models: Arc<[String]> = runners.keys().cloned().collect();
    app.store.node_seen(NODE, &models, app.clock.now()).await?;
    running.spawn(announce(Arc::clone(app), Arc::clone(&models), stop.clone()));
    for _ in 0..app.config.workers {
        running.spawn(work(Arc::clone(app), Arc::clone(&runners), Arc::clone(&models), stop.clone()));
    }
    Ok(())
}

/// Says every now and then that the node is alive, and says goodbye.
async fn announce(app: Arc<App>, models: Arc<[String]>, stop: CancellationToken) {
    while stop.run_until_cancelled(tokio::time::sleep(app.config.lease / 3)).await.is_some() {
        if let Err(cause) = app.store.node_seen(NODE, &models, app.clock.now()).await {
            tracing::warn!(%cause, "the node could not say that it is alive");
        }
    }
}

async fn work(app: Arc<App>, runners: Arc<Runners>, models: Arc<[String]>, stop: CancellationToken) {
    let rules = LeaseRules { length: app.config.lease, attempts: app.config.lease_attempts };
    while !stop.is_cancelled() {
        // Armed before looking, so that a task created between the look and the wait is not missed.
        let rung = app.work.notified();
        match app.store.claim(NODE, &models, rules, app.clock.now()).await {
            Ok(Some(lease)) => {
                // There may be more where this came from.
                app.work.notify_one();
                run::run(&app, &runners, NODE, lease, &stop).await;
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
