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

/// The longest interval between two looks at expired leases.
const MAX_LEASE_INTERVAL: Duration = Duration::from_secs(60);

const HOUR: Duration = Duration::from_secs(60 * 60);

/// How often what writes have left to be added up is added up.
const CONSOLIDATION_INTERVAL: Duration = Duration::from_secs(5);

/// A job. Each run is complete in itself, so that any process may do the next one.
struct Job {
    name: &'static str,
    /// The first run comes after one interval, unless it is due at the start.
    is_due_at_start: bool,
    interval: Duration,
    run: for<'a> fn(&'a App) -> BoxFuture<'a, Result<(), Error>>,
}

fn jobs(app: &App) -> [Job; 6] {
    [
        Job {
            name: "storage billing",
            is_due_at_start: false,
            interval: app.config.storage_billing_interval,
            run: |app| Box::pin(storage_billing::run(app)),
        },
        Job {
            name: "expired leases",
            // After a restart, nodes need time to come back.
            is_due_at_start: false,
            interval: MAX_LEASE_INTERVAL.min(app.config.lease_grace),
            run: |app| Box::pin(expired_leases::run(app)),
        },
        Job {
            name: "retention",
            is_due_at_start: false,
            interval: HOUR,
            run: |app| Box::pin(retention::run(app)),
        },
        Job {
            name: "sweeper",
            is_due_at_start: true,
            interval: HOUR,
            run: |app| Box::pin(app.objects.run_sweeper(app)),
        },
        Job {
            name: "consolidation",
            is_due_at_start: false,
            interval: CONSOLIDATION_INTERVAL,
            run: |app| Box::pin(app.database.consolidate()),
        },
        Job {
            name: "settling",
            is_due_at_start: true,
            interval: SETTLING_INTERVAL,
            run: |app| Box::pin(app.objects.settle_expiring(app)),
        },
    ]
}

/// Runs every job at its interval until the service stops.
pub(crate) fn start(app: &Arc<App>, running: &TaskTracker, stop: &CancellationToken) {
    for job in jobs(app) {
        let app = Arc::clone(app);
        let repeat = async move {
            if !job.is_due_at_start {
                tokio::time::sleep(job.interval).await;
            }
            loop {
                if let Err(cause) = run_if_due(&app, &job).await {
                    tracing::error!(%cause, job = job.name, "a job failed; it runs again later");
                }
                tokio::time::sleep(job.interval).await;
            }
        };
        running.spawn(stop.clone().run_until_cancelled_owned(repeat));
    }
}

/// Runs the job, unless another process of those that share the database did so within the interval.
async fn run_if_due(app: &App, job: &Job) -> Result<(), Error> {
    match app.database.begin_job(job.name, job.interval, app.clock.now()).await? {
        true => (job.run)(app).await,
        false => Ok(()),
    }
}

/// Runs every job now, for a clock that was set ahead.
pub(crate) async fn run_all(app: &App) -> Result<(), Error> {
    for job in jobs(app) {
        (job.run)(app).await?;
    }
    Ok(())
}
