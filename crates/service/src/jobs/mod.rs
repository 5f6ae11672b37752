//! Jobs: what a service does at intervals beside serving requests. A job that fails is logged and runs again
//! at its next time.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Result;
use crate::ledger::StorageRate;
use crate::lifecycle::app::App;
use crate::object_storage::SETTLING_INTERVAL;

/// The longest interval between two looks at expired leases.
const MAX_LEASE_INTERVAL: Duration = Duration::from_mins(1);

const HOUR: Duration = Duration::from_hours(1);

/// How often what writes have left to be added up is added up.
const CONSOLIDATION_INTERVAL: Duration = Duration::from_secs(5);

/// A job. Each run is complete in itself, so that any process may do the next one.
struct Job {
    name: &'static str,
    /// The first run comes after one interval, unless it is due at the start.
    is_due_at_start: bool,
    interval: Duration,
    run: for<'a> fn(&'a App) -> BoxFuture<'a, Result<()>>,
}

fn jobs(app: &App) -> [Job; 6] {
    let job = |name, interval, run| Job { name, is_due_at_start: false, interval, run };
    let at_start = |name, interval, run| Job { name, is_due_at_start: true, interval, run };
    // After a restart, nodes need time to come back.
    let leases = MAX_LEASE_INTERVAL.min(app.config.lease_grace);
    [
        job("storage billing", app.config.storage_billing_interval, |app| Box::pin(bill_storage(app))),
        job("expired leases", leases, |app| Box::pin(fail_abandoned(app))),
        job("retention", HOUR, |app| Box::pin(delete_old(app))),
        at_start("sweeper", HOUR, |app| Box::pin(app.objects.run_sweeper(app))),
        job("consolidation", CONSOLIDATION_INTERVAL, |app| Box::pin(app.database.consolidate())),
        at_start("settling", SETTLING_INTERVAL, |app| Box::pin(app.objects.settle_expiring(app))),
    ]
}

/// Charges every account for what it stored since the last time.
async fn bill_storage(app: &App) -> Result<()> {
    let rate = StorageRate { per_gib_day: app.config.storage_price_per_gib_day };
    let charged = app.database.charge_storage(rate, app.clock.now()).await?;
    tracing::debug!(charged, "storage is billed");
    Ok(())
}

/// Fails tasks whose node fell silent and whose model no live node serves, so that their price does not stay
/// reserved.
async fn fail_abandoned(app: &App) -> Result<()> {
    let now = app.clock.now();
    let live_since = now.before(app.config.lease);
    let failed = app.database.fail_abandoned(now.before(app.config.lease_grace), live_since, now).await?;
    if failed > 0 {
        tracing::warn!(failed, "tasks fail because no node serves their models any more");
    }
    Ok(())
}

/// Retention: deletes tasks that ended long ago and adds old movements of money up, if the settings say so.
async fn delete_old(app: &App) -> Result<()> {
    let now = app.clock.now();
    if let Some(age) = app.config.task_retention {
        let deleted = app.database.delete_ended_tasks(now.before(age), now).await?;
        tracing::debug!(deleted, "old tasks are deleted");
    }
    if let Some(age) = app.config.movement_retention {
        let carried = app.database.carry_movements(now.before(age), now).await?;
        tracing::debug!(carried, "old movements of money are added up");
    }
    Ok(())
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
async fn run_if_due(app: &App, job: &Job) -> Result<()> {
    match app.database.begin_job(job.name, job.interval, app.clock.now()).await? {
        true => (job.run)(app).await,
        false => Ok(()),
    }
}

/// Runs every job now, for a clock that was set ahead.
pub(crate) async fn run_all(app: &App) -> Result<()> {
    for job in jobs(app) {
        (job.run)(app).await?;
    }
    Ok(())
}
