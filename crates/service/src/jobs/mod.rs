//! Periodic jobs beside the requests. A failed job is logged and runs again at its next time.

mod clock_watch;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;

pub(crate) use clock_watch::ClockWatch;

use crate::background::BackgroundTasks;
use crate::clock::{Clock, Moment};
use crate::database::{Database, JOB_LEASE};
use crate::files::TargetsOf;
use crate::ledger::StorageRate;
use crate::metrics::Metrics;
use crate::object_storage::{Objects, RECONCILE_INTERVAL};
use crate::policies::Policies;
use crate::{Result, shared_clock, totals};

use crate::queue::Abandoned;

const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum interval of storage billing, well below the time that a bill after a start may count.
const MAX_BILLING_INTERVAL: Duration = Duration::from_hours(24);

const MAX_LEASE_INTERVAL: Duration = Duration::from_mins(1);

/// Maximum time after lease expiry that a task waits for a node that has registered its model.
const MAX_UNCLAIMED: Duration = Duration::from_hours(24);

const HOUR: Duration = Duration::from_hours(1);

const QUEUE_TIMEOUT_INTERVAL: Duration = Duration::from_mins(1);

const TOTALS_INTERVAL: Duration = Duration::from_mins(1);

const EXPIRED_LEASES: &str = "expired leases";
const QUEUE_TIMEOUT: &str = "queue timeout";

const CONSOLIDATION_INTERVAL: Duration = Duration::from_secs(5);

pub(crate) struct Jobs {
    pub(crate) database: Arc<dyn Database>,
    pub(crate) clock: Clock,
    pub(crate) clock_watch: ClockWatch,
    pub(crate) objects: Arc<Objects>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) background: BackgroundTasks,
    pub(crate) storage_billing_interval: Duration,
    pub(crate) lease: Duration,
    pub(crate) lease_grace: Duration,
}

/// A job. Each run is independent, so that any process can do the next one.
struct Job {
    name: &'static str,
    is_due_at_start: bool,
    /// True if the job fails tasks of silent nodes, which need time to reconnect after an outage.
    needs_heartbeats: bool,
    /// True if the job bills, or deletes or fails by age: a wrong clock would do lasting damage.
    needs_proven_clock: bool,
    interval: Duration,
    run: for<'a> fn(&'a Jobs) -> BoxFuture<'a, Result<()>>,
}

fn all(jobs: &Jobs) -> [Job; 10] {
    let job = |name, interval, run| Job {
        name,
        is_due_at_start: false,
        needs_heartbeats: false,
        needs_proven_clock: false,
        interval,
        run,
    };
    let at_start = |name, interval, run| Job { is_due_at_start: true, ..job(name, interval, run) };
    let by_age = |name, interval, run| Job { needs_proven_clock: true, ..job(name, interval, run) };
    let billing = jobs.storage_billing_interval.clamp(MIN_INTERVAL, MAX_BILLING_INTERVAL);
    let leases = jobs.lease_grace.clamp(MIN_INTERVAL, MAX_LEASE_INTERVAL);
    [
        by_age("storage billing", billing, |jobs| Box::pin(bill_storage(jobs))),
        Job { needs_heartbeats: true, ..job(EXPIRED_LEASES, leases, |jobs| Box::pin(fail_abandoned(jobs))) },
        by_age(QUEUE_TIMEOUT, QUEUE_TIMEOUT_INTERVAL, |jobs| Box::pin(fail_queued(jobs))),
        by_age("retention", HOUR, |jobs| Box::pin(delete_old(jobs))),
        by_age("sweeper", HOUR, |jobs| Box::pin(jobs.objects.run_sweeper())),
        by_age("upload targets", RECONCILE_INTERVAL, |jobs| Box::pin(jobs.objects.forget_targets())),
        at_start("restored blobs", HOUR, |jobs| Box::pin(jobs.objects.restore_blobs())),
        at_start("totals", TOTALS_INTERVAL, |jobs| Box::pin(totals::add_up(&*jobs.database))),
        job("consolidation", CONSOLIDATION_INTERVAL, |jobs| Box::pin(jobs.database.consolidate())),
        at_start("reconciliation", RECONCILE_INTERVAL, |jobs| {
            Box::pin(jobs.objects.reconcile(TargetsOf::Everyone))
        }),
    ]
}

async fn bill_storage(jobs: &Jobs) -> Result<()> {
    let rate = StorageRate { per_gib_day: Policies::read(&*jobs.database).await?.storage_price_per_gib_day };
    let begun = Instant::now();
    let at_most = jobs.clock_watch.billable(begun);
    let charged = jobs.database.charge_storage(rate, jobs.clock.now(), at_most).await?;
    jobs.clock_watch.billed(begun);
    tracing::debug!(charged, "storage is billed");
    Ok(())
}

/// Lease expiry: fails tasks of silent nodes that no live node claims, so that their price does not stay reserved.
async fn fail_abandoned(jobs: &Jobs) -> Result<()> {
    let now = jobs.clock.now();
    let expired_before = now.before(jobs.lease_grace);
    let live_since = now.before(jobs.lease);
    let unclaimed_before = expired_before.before(MAX_UNCLAIMED);
    // Other processes may have a longer lease configured, but not longer by an hour.
    let latest = now.after(jobs.lease).after(HOUR);
    let which = Abandoned { expired_before, live_since, unclaimed_before, latest };
    let failed = jobs.database.fail_abandoned(which, now).await?;
    jobs.metrics.failed_by_job(EXPIRED_LEASES, failed);
    if failed > 0 {
        tracing::warn!(failed, "tasks fail because no node took them over");
    }
    Ok(())
}

async fn fail_queued(jobs: &Jobs) -> Result<()> {
    let now = jobs.clock.now();
    if let Some(age) = Policies::read(&*jobs.database).await?.queue_timeout {
        let failed = jobs.database.fail_queued(now.before(age), now).await?;
        jobs.metrics.failed_by_job(QUEUE_TIMEOUT, failed);
        if failed > 0 {
            tracing::warn!(failed, "tasks fail because no node started them in time");
        }
    }
    Ok(())
}

async fn delete_old(jobs: &Jobs) -> Result<()> {
    let now = jobs.clock.now();
    let policies = Policies::read(&*jobs.database).await?;
    if let Some(age) = policies.task_retention {
        let deleted = jobs.database.delete_ended_tasks(now.before(age), now).await?;
        tracing::debug!(deleted, "old tasks are deleted");
    }
    if let Some(age) = policies.movement_retention {
        let carried = jobs.database.carry_movements(now.before(age), now).await?;
        tracing::debug!(carried, "old movements of money are added up");
    }
    while jobs.database.forget_keys(now).await? > 0 {}
    jobs.database.forget_uses(now).await
}

pub(crate) fn start(jobs: &Arc<Jobs>) {
    // Prometheus computes no increase for a counter that starts with its first event, so the counters start at zero.
    for job in [EXPIRED_LEASES, QUEUE_TIMEOUT] {
        jobs.metrics.failed_by_job(job, 0);
    }
    for job in all(jobs) {
        jobs.background.spawn_until_stop(job.name, repeat(Arc::clone(jobs), job));
    }
}

async fn repeat(jobs: Arc<Jobs>, job: Job) {
    let mut last_success = jobs.clock.now();
    if !job.is_due_at_start {
        tokio::time::sleep(job.interval).await;
    }
    loop {
        if let Err(cause) = run_if_due(&jobs, &job, &mut last_success).await {
            tracing::error!(%cause, job = job.name, "a job failed; it runs again later");
        }
        tokio::time::sleep(job.interval).await;
    }
}

/// Runs the job, unless another process did within the interval. After an outage or a suspension, seen by
/// `last_success`, the job waits one interval, so that nodes can send heartbeats before their tasks fail.
async fn run_if_due(jobs: &Jobs, job: &Job, last_success: &mut Moment) -> Result<()> {
    // The clock of a suspended machine stands still. Jobs that trust a late clock would damage data.
    shared_clock::correct(&*jobs.database, &jobs.clock).await?;
    let now = jobs.clock.now();
    let is_clock_proven = jobs.clock_watch.is_proven(jobs.clock.real_time(), Instant::now());
    let was_away = *last_success < now.before(job.interval.saturating_mul(2));
    if job.needs_heartbeats && was_away {
        jobs.database.check_writer().await?;
    } else if (is_clock_proven || !job.needs_proven_clock)
        && jobs.database.begin_job(job.name, job.interval, now).await?
    {
        let begun = Instant::now();
        let ended = tokio::select! {
            ended = (job.run)(jobs) => ended,
            never = hold(jobs, job.name) => match never {},
        };
        jobs.metrics.job_ended(job.name, ended.is_ok(), begun.elapsed(), now);
        ended.and(jobs.database.end_job(job.name).await)?;
    }
    *last_success = now;
    Ok(())
}

async fn hold(jobs: &Jobs, job: &str) -> Infallible {
    loop {
        tokio::time::sleep(JOB_LEASE / 3).await;
        if let Err(cause) = jobs.database.hold_job(job, jobs.clock.now()).await {
            tracing::warn!(%cause, job, "another process may begin the same job");
        }
    }
}

pub(crate) async fn run_all(jobs: &Jobs) -> Result<()> {
    for job in all(jobs) {
        (job.run)(jobs).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use inferstore_wire::until;

    use super::*;
    use crate::accounts::{AccountId, NewAccount, Scope};
    use crate::files::{Replaces, Target};
    use crate::ledger::{Money, Purses};
    use crate::queue::{InsufficientBalance, LeaseRules, NewTask, Slot};
    use crate::{Config, Error, Service};

    #[tokio::test]
    async fn nodes_are_judged_after_an_outage_only_when_they_had_time_to_come_back() -> Result<()> {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let service = Service::start(Config::ephemeral()).await?;
        let leases = all(&service.jobs).into_iter().find(|job| job.name == "expired leases");
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
        let mut last_success = service.clock.now();
        for (minutes, runs) in [(1, 1), (10, 1), (1, 2)] {
            service.clock.advance(Duration::from_mins(minutes));
            run_if_due(&service.jobs, &job, &mut last_success).await?;
            assert_eq!(RUNS.load(Ordering::SeqCst), runs);
        }
        Ok(())
    }

    async fn abandon_task(service: &Service, began: Moment) -> Result<(AccountId, Purses, String)> {
        let database = &service.database;
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
            key: None,
            traceparent: None,
            spending: None,
        };
        database.create_task(&task, InsufficientBalance::Refuse, 1, began).await?;
        database.register("broken", None, std::slice::from_ref(&model), began).await?;
        let slot = Slot {
            node: "broken".to_owned(),
            models: [model.clone()].into(),
            max_running: 1,
            passed_over: Vec::new(),
        };
        let rules = LeaseRules {
            length: service.nodes.lease,
            attempts: 5,
            max_running: 1,
            expired_before: Moment(i64::MAX),
        };
        database.claim(&[slot], rules, began).await?;
        Ok((customer, before, model))
    }

    #[tokio::test]
    async fn a_task_that_no_node_takes_over_for_a_day_gives_its_price_back() -> Result<()> {
        let mut config = Config::ephemeral();
        config.workers = 0;
        let service = Service::start(config).await?;
        let (customer, before, model) = abandon_task(&service, service.clock.now()).await?;
        for (hours, fails) in [(24, false), (1, true)] {
            service.clock.advance(HOUR * hours);
            service
                .database
                .register("broken", None, std::slice::from_ref(&model), service.clock.now())
                .await?;
            fail_abandoned(&service.jobs).await?;
            assert_eq!(service.database.purses(customer).await? == before, fails, "{hours} hours later");
        }
        service.shutdown().await;
        Ok(())
    }

    #[tokio::test]
    async fn intervals_of_zero_neither_spin_nor_stop_a_job() -> Result<()> {
        let folder = tempfile::tempdir().map_err(|cause| Error::new("creating a folder", cause))?;
        let mut config = Config::folder(folder.path());
        config.workers = 0;
        config.lease_grace = Duration::ZERO;
        config.storage_billing_interval = Duration::ZERO;
        let service = Service::start(config).await?;
        assert!(all(&service.jobs).iter().all(|job| job.interval >= MIN_INTERVAL));
        let began = service.clock.now().before(HOUR);
        let (customer, before, _) = abandon_task(&service, began).await?;
        let purses = || service.database.purses(customer);
        until("the task is failed", || async { purses().await.is_ok_and(|purses| purses == before) }).await;
        service.shutdown().await;
        Ok(())
    }

    #[tokio::test]
    async fn nothing_is_billed_or_deleted_by_age_before_the_clock_is_proven() -> Result<()> {
        let folder = tempfile::tempdir().map_err(|cause| Error::new("creating a folder", cause))?;
        let service = Service::start(Config::folder(folder.path())).await?;
        let yesterday = service.clock.now().before(Duration::from_hours(24));
        let owner = NewAccount::draw("owner", Scope::Personal, &service.random)?;
        let owner = service.database.add_account(&owner, yesterday).await?;
        let add_target = async |name: &str| {
            let (id, owner) = (service.random.uuid()?, (owner.id, owner.bucket.as_str()));
            let target = Target::of_owner(id, owner, name, 1 << 30, yesterday);
            service.database.add_target(&target, 2).await.map(|_| target)
        };
        let target = add_target("used").await?;
        let object = target.object(target.id.clone(), String::new(), yesterday);
        service.database.store_upload(&target.id, &target.id, &object, Replaces::Any).await?;
        add_target("unused").await?;
        service.shutdown().await;

        let service = Service::start(Config::folder(folder.path())).await?;
        for is_proven in [false, true] {
            for job in all(&service.jobs) {
                run_if_due(&service.jobs, &job, &mut service.clock.now()).await?;
            }
            let awaits_upload = service.database.awaits_upload(TargetsOf::Everyone).await?;
            let is_billed = service.database.purses(owner.id).await?.owed() > Money::ZERO;
            assert_eq!((is_billed, !awaits_upload), (is_proven, is_proven));
            service.jobs.clock_watch.advance(Duration::ZERO);
        }
        service.shutdown().await;
        Ok(())
    }
}
