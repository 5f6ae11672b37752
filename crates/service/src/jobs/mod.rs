//! Jobs: what a service does at intervals beside serving requests. A job that fails is logged and runs again
//! at its next time.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::Result;
use crate::clock::Moment;
use crate::database::{Database, HOURS_OF_SERVICE};
use crate::ledger::StorageRate;
use crate::lifecycle::app::App;
use crate::object_storage::SETTLING_INTERVAL;
use crate::queue::Abandoned;

/// The shortest interval of a job whose interval is a setting.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// The longest interval between two looks at expired leases.
const MAX_LEASE_INTERVAL: Duration = Duration::from_mins(1);

/// For how many hours of service a task whose lease has expired waits at most for a node that says that it serves its
/// model.
const MAX_UNCLAIMED: usize = 24;

const HOUR: Duration = Duration::from_hours(1);

/// How often what writes have left to be added up is added up.
const CONSOLIDATION_INTERVAL: Duration = Duration::from_secs(5);

/// A job. Each run is complete in itself, so that any process may do the next one.
struct Job {
    name: &'static str,
    /// The first run comes after one interval, unless it is due at the start.
    is_due_at_start: bool,
    /// It fails tasks of silent nodes, which need time to come back after an outage.
    needs_heartbeats: bool,
    interval: Duration,
    run: for<'a> fn(&'a App) -> BoxFuture<'a, Result<()>>,
}

fn jobs(app: &App) -> [Job; 7] {
    let job =
        |name, interval, run| Job { name, is_due_at_start: false, needs_heartbeats: false, interval, run };
    let at_start = |name, interval, run| Job { is_due_at_start: true, ..job(name, interval, run) };
    let billing = app.config.storage_billing_interval.max(MIN_INTERVAL);
    let leases = app.config.lease_grace.clamp(MIN_INTERVAL, MAX_LEASE_INTERVAL);
    [
        at_start("storage billing", billing, |app| Box::pin(bill_storage(app))),
        Job { needs_heartbeats: true, ..job("expired leases", leases, |app| Box::pin(fail_abandoned(app))) },
        job("hours of service", HOUR, |app| Box::pin(note_hour(&*app.database, app.clock.real_time()))),
        at_start("retention", HOUR, |app| Box::pin(delete_old(app))),
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

/// Fails tasks whose node stopped responding and that no live node takes over, so that their price does not stay
/// reserved.
async fn fail_abandoned(app: &App) -> Result<()> {
    let now = app.clock.now();
    let expired_before = now.before(app.config.lease_grace);
    let live_since = now.before(app.config.lease);
    // Neither downtime nor what a tester sets the clock ahead by is time in which a node could take a task over.
    let hours = hours_of_service(&*app.database).await?;
    let unclaimed_before = match hours.len().checked_sub(MAX_UNCLAIMED + 1) {
        // In the time of the tester, like the leases.
        Some(first) => Moment(hours[first].saturating_add(app.clock.ahead())).before(app.config.lease_grace),
        None => Moment(i64::MIN),
    };
    // Other processes may have longer leases, but none that much.
    let latest = now.after(app.config.lease).after(HOUR);
    let which = Abandoned { expired_before, live_since, unclaimed_before, latest };
    let failed = app.database.fail_abandoned(which, now).await?;
    if failed > 0 {
        tracing::warn!(failed, "tasks fail because no node took them over");
    }
    Ok(())
}

/// When the latest hours of service ended, in whichever process: an hour of one that is stopped earlier does not count.
async fn hours_of_service(database: &dyn Database) -> Result<Vec<i64>> {
    let kept = database.setting(HOURS_OF_SERVICE).await?;
    Ok(kept.and_then(|kept| serde_json::from_str(&kept).ok()).unwrap_or_default())
}

/// Notes that an hour of service has ended.
async fn note_hour(database: &dyn Database, now: Moment) -> Result<()> {
    let mut hours = hours_of_service(database).await?;
    // The clock may have been set back. And a tester runs all jobs at any time.
    hours.retain(|hour| *hour <= now.0);
    if hours.last().is_some_and(|last| Moment(*last) > now.before(HOUR / 2)) {
        return Ok(());
    }
    hours.push(now.0);
    let first = hours.len().saturating_sub(MAX_UNCLAIMED + 1);
    let hours = serde_json::json!(hours[first..]);
    database.set_setting(HOURS_OF_SERVICE, &hours.to_string()).await
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
    app.database.forget_uses(now).await
}

/// Runs every job at its interval until the service stops.
pub(crate) fn start(app: &Arc<App>) {
    for job in jobs(app) {
        app.parts.spawn_until_stop(job.name, repeat(Arc::clone(app), job));
    }
}

async fn repeat(app: Arc<App>, job: Job) {
    let mut last_success = app.clock.now();
    if !job.is_due_at_start {
        tokio::time::sleep(job.interval).await;
    }
    loop {
        if let Err(cause) = run_if_due(&app, &job, &mut last_success).await {
            tracing::error!(%cause, job = job.name, "a job failed; it runs again later");
        }
        tokio::time::sleep(job.interval).await;
    }
}

/// Runs the job, unless another process of those that share the database did so within the interval. `last_success` is
/// when this process could write last: after an outage or a suspension, heartbeats come before nodes are judged.
async fn run_if_due(app: &App, job: &Job, last_success: &mut Moment) -> Result<()> {
    let now = app.clock.now();
    let was_away = *last_success < now.before(job.interval.saturating_mul(2));
    if job.needs_heartbeats && was_away {
        app.database.check_writer().await?;
    } else if app.database.begin_job(job.name, job.interval, now).await? {
        (job.run)(app).await?;
    }
    *last_success = now;
    Ok(())
}

/// Runs every job now, for a clock that was set ahead.
pub(crate) async fn run_all(app: &App) -> Result<()> {
    for job in jobs(app) {
        (job.run)(app).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::accounts::{AccountId, NewAccount, Scope};
    use crate::ledger::{Money, Purses};
    use crate::object_storage::Target;
    use crate::queue::{InsufficientBalance, LeaseRules, NewTask, Slot};
    use crate::{Config, Error, Service};

    #[tokio::test]
    async fn nodes_are_judged_after_an_outage_only_when_they_had_time_to_come_back() -> Result<()> {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let service = Service::start(Config::ephemeral()).await?;
        let app = &service.app;
        let leases = jobs(app).into_iter().find(|job| job.name == "expired leases");
        let leases = leases.ok_or_else(|| Error::new("trying", "there is no such job"))?;
        let job = Job {
            name: "test",
            interval: Duration::from_mins(1),
            run: |_| {
                RUNS.fetch_add(1, Ordering::SeqCst);
                Box::pin(async { Ok(()) })
            },
            ..leases
        };
        let mut last_success = app.clock.now();
        for (minutes, runs) in [(1, 1), (10, 1), (1, 2)] {
            app.clock.advance(Duration::from_mins(minutes));
            run_if_due(app, &job, &mut last_success).await?;
            assert_eq!(RUNS.load(Ordering::SeqCst), runs);
        }
        Ok(())
    }

    /// Creates a task that a node leases and leaves; returns its account, with the purses as they were before, and
    /// its model.
    async fn abandon_task(service: &Service, began: Moment) -> Result<(AccountId, Purses, String)> {
        let database = &service.app.database;
        let customer = service.admin.account("demo", "trying").await?.id;
        let before = database.purses(customer).await?;
        let models = database.all_models(1, 0).await?;
        let model = models[0].model.clone();
        let published = database.published(&model).await?;
        let version = published.ok_or_else(|| Error::new("trying", "there is no model"))?.version.id;
        let task = NewTask {
            id: "task".to_owned(),
            account: customer,
            model: model.clone(),
            version,
            publisher: customer,
            price: Money::from_smallest(5),
            input: "{}".to_owned(),
        };
        database.create_task(&task, InsufficientBalance::Refuse, 1, began).await?;
        database.register("broken", None, std::slice::from_ref(&model), began).await?;
        let slot = Slot { node: "broken".to_owned(), models: [model.clone()].into(), max_running: 1 };
        let rules = LeaseRules {
            length: service.app.config.lease,
            attempts: 5,
            max_running: 1,
            expired_before: Moment(i64::MAX),
        };
        database.claim(&[slot], rules, began).await?;
        Ok((customer, before, model))
    }

    #[tokio::test]
    async fn a_task_that_no_node_takes_over_gives_its_price_back_although_the_service_restarts_every_night()
    -> Result<()> {
        let folder = tempfile::tempdir().map_err(|cause| Error::new("creating a folder", cause))?;
        let mut config = Config::folder(folder.path());
        config.workers = 0;
        let service = Service::start(config.clone()).await?;
        let now = service.app.clock.now();
        let began = now.before(HOUR * 72);
        let (customer, before, model) = abandon_task(&service, began).await?;
        service.shutdown().await;

        // The first whole hour after 24 others ends it.
        for (day, hours, fails) in [(0, 20, false), (1, 4, false), (2, 1, true)] {
            let service = Service::start(config.clone()).await?;
            let database = &service.app.database;
            for hour in 1..=hours {
                note_hour(&**database, began.after(HOUR * (day * 24 + hour))).await?;
            }
            // The node is there, and leases nothing.
            database.register("broken", None, std::slice::from_ref(&model), now.after(HOUR)).await?;
            fail_abandoned(&service.app).await?;
            let has_failed = database.purses(customer).await? == before;
            assert_eq!(has_failed, fails, "after day {day}");
            service.shutdown().await;
        }
        Ok(())
    }

    #[tokio::test]
    async fn an_hour_of_service_is_noted_once_though_jobs_run_more_often_or_the_clock_is_set_back()
    -> Result<()> {
        let mut config = Config::ephemeral();
        config.workers = 0;
        let service = Service::start(config).await?;
        let database = &*service.app.database;
        let began = service.app.clock.now().before(HOUR * 72);
        for (minutes, noted) in [
            (0, &[0][..]),
            (10, &[0]),
            (30, &[0, 30]),
            (31, &[0, 30]),
            (90, &[0, 30, 90]),
            (60, &[0, 30, 60]),
        ] {
            let after = |minutes| began.after(Duration::from_mins(minutes));
            note_hour(database, after(minutes)).await?;
            let hours: Vec<i64> = noted.iter().map(|minutes| after(*minutes).0).collect();
            assert_eq!(hours_of_service(database).await?, hours, "after {minutes} minutes");
        }
        service.shutdown().await;
        Ok(())
    }

    #[tokio::test]
    async fn settings_of_zero_make_no_job_run_all_the_time_and_keep_none_from_running() -> Result<()> {
        let folder = tempfile::tempdir().map_err(|cause| Error::new("creating a folder", cause))?;
        let mut config = Config::folder(folder.path());
        config.workers = 0;
        config.lease_grace = Duration::ZERO;
        config.storage_billing_interval = Duration::ZERO;
        let service = Service::start(config).await?;
        assert!(jobs(&service.app).iter().all(|job| job.interval >= MIN_INTERVAL));
        let began = service.app.clock.now().before(HOUR);
        let (customer, before, _) = abandon_task(&service, began).await?;
        let is_failed = async {
            while service.app.database.purses(customer).await? != before {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Ok::<_, Error>(())
        };
        let in_time = tokio::time::timeout(Duration::from_secs(30), is_failed).await;
        in_time.map_err(|cause| Error::new("waiting until the task is failed", cause))??;
        service.shutdown().await;
        Ok(())
    }

    #[tokio::test]
    async fn a_service_that_is_restarted_often_bills_storage_all_the_same() -> Result<()> {
        let folder = tempfile::tempdir().map_err(|cause| Error::new("creating a folder", cause))?;
        let service = Service::start(Config::folder(folder.path())).await?;
        let app = &service.app;
        let yesterday = app.clock.now().before(Duration::from_hours(24));
        let owner = NewAccount::draw("owner", Scope::Personal, &app.random)?;
        let owner = app.database.add_account(&owner, yesterday).await?;
        let target =
            Target::of_owner(app.random.uuid()?, (owner.id, &owner.bucket), "a", 1 << 30, app.clock.now());
        app.database.add_target(&target).await?;
        let object = target.object(target.id.clone(), String::new(), yesterday);
        app.database.store_upload(&target.id, &target.id, &object).await?;
        service.shutdown().await;

        let service = Service::start(Config::folder(folder.path())).await?;
        let owed = async || Ok::<Money, Error>(service.app.database.purses(owner.id).await?.owed());
        let is_billed = async {
            while owed().await? == Money::ZERO {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok::<_, Error>(())
        };
        let in_time = tokio::time::timeout(Duration::from_mins(1), is_billed).await;
        in_time.map_err(|cause| Error::new("waiting until storage is billed", cause))??;
        service.shutdown().await;
        Ok(())
    }
}
