//! Jobs: what a service does at intervals beside serving requests. A job that fails is logged and runs again
//! at its next time.

mod expired_leases;
mod retention;
mod storage_billing;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Error;
use crate::lifecycle::app::App;
use crate::object_storage::SETTLING_INTERVAL;

/// How often expired leases and the ages of ended tasks are looked at.
const MAX_INTERVAL: Duration = Duration::from_secs(60);

/// A job. Each run is complete in itself, so that any process may do the next one.
struct Job {
    name: &'static str,
    interval: Duration,
    run: for<'a> fn(&'a App) -> BoxFuture<'a, Result<(), Error>>,
}

fn jobs(app: &App) -> [Job; 4] {
    [
        Job {
            name: "storage billing",
            interval: app.config.storage_billing_interval,
            run: |app| Box::pin(storage_billing::run(app)),
        },
        Job {
            name: "expired leases",
            interval: MAX_INTERVAL.min(app.config.lease_grace),
            run: |app| Box::pin(expired_leases::run(app)),
        },
        Job {
            name: "settling",
            interval: SETTLING_INTERVAL,
            run: |app| Box::pin(app.objects.settle_expiring(app)),
        },
        Job { name: "retention", interval: MAX_INTERVAL, run: |app| Box::pin(retention::run(app)) },
    ]
}

/// Runs every job at its interval until the service stops.
pub(crate) fn start(app: &Arc<App>, running: &TaskTracker, stop: &CancellationToken) {
    for job in jobs(app) {
        let (app, stop) = (Arc::clone(app), stop.clone());
        running.spawn(async move {
            while stop.run_until_cancelled(tokio::time::sleep(job.interval)).await.is_some() {
                // One process of those that share a database runs the job.
                if !app.leads(job.name) {
                    continue;
                }
                if let Err(cause) = (job.run)(&app).await {
                    tracing::error!(%cause, job = job.name, "a job failed; it runs again later");
                }
            }
        });
    }
}

/// Runs every job now, for a clock that was set ahead.
pub(crate) async fn run_all(app: &App) -> Result<(), Error> {
    for job in jobs(app) {
        (job.run)(app).await?;
    }
    Ok(())
}
