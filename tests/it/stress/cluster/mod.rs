//! A cluster under load loses no acknowledged write and bills nothing twice, while its processes are killed
//! and paused, PostgreSQL restarts and fails over, and the object store is unavailable. `.ci/cluster` starts
//! the engines.

mod load;
mod outage;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use inferstore_service::{Credit, Scope, Service};
use load::Account;
use outage::Outage;

use super::{Intensity, tell};
use crate::support::cluster::{Cluster, Engines, PROCESSES, query};

const ACCOUNTS: usize = 4;

const DRAIN_TIMEOUT: Duration = Duration::from_secs(300);

#[derive(Clone, Copy)]
enum Disturbance {
    Kill,
    Pause,
    Restart,
    Outage,
}

struct Plan {
    kills: usize,
    restarts: usize,
    outages: usize,
    outage: Duration,
    pauses: usize,
    pause: Duration,
}

impl Plan {
    fn of(intensity: Intensity) -> Self {
        Self {
            kills: intensity.times(6, 100),
            restarts: intensity.times(1, 10),
            outages: intensity.times(1, 5),
            outage: Duration::from_secs(intensity.times(5, 30)),
            pauses: intensity.times(1, 10),
            pause: Duration::from_secs(intensity.times(6, 30)),
        }
    }

    fn shuffled(&self, random: &mut fastrand::Rng) -> Vec<Disturbance> {
        let mut all = vec![Disturbance::Kill; self.kills];
        all.extend(vec![Disturbance::Restart; self.restarts]);
        all.extend(vec![Disturbance::Outage; self.outages]);
        all.extend(vec![Disturbance::Pause; self.pauses]);
        random.shuffle(&mut all);
        all
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the engines of .ci/cluster"]
async fn nothing_acknowledged_is_lost_whatever_is_killed() {
    let intensity = Intensity::of_this_run();
    let plan = Plan::of(intensity);
    let mut random = intensity.random();
    let mut engines = Engines::of_this_run().expect(".ci/cluster names the engines");
    let outage = Outage::before(&mut engines);
    let mut cluster = Cluster::start(&engines, &["--workers=2".to_owned()]);
    let operator = cluster.operator().await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut accounts = Vec::new();
    for number in 0..ACCOUNTS {
        accounts.push(account(&operator, &cluster, &format!("account-{number}"), &stop).await);
    }

    let began = Instant::now();
    let disturbances = plan.shuffled(&mut random);
    let disturb = tokio::task::spawn_blocking(move || {
        for disturbance in disturbances {
            sleep(Duration::from_millis(random.u64(200..1_500)));
            match disturbance {
                Disturbance::Kill => cluster.kill_and_restart(random.usize(0..PROCESSES)),
                Disturbance::Restart => restart_postgres(),
                Disturbance::Outage => outage.last(plan.outage),
                Disturbance::Pause => cluster.pause(random.usize(0..PROCESSES), plan.pause),
            }
        }
        // The last disturbance: there is no standby afterwards.
        fail_over();
        sleep(Duration::from_secs(1));
        stop.store(true, Ordering::SeqCst);
        (cluster, outage)
    });
    let load = tokio::spawn(async move {
        join_all(accounts.iter_mut().map(Account::load)).await;
        accounts
    });
    let (disturbed, loaded) = tokio::join!(disturb, load);
    // Keep the forwarder to the object store.
    let (mut cluster, _outage) = disturbed.expect("no process failed to start again");
    let mut accounts = loaded.expect("no caller saw more than a retryable failure");
    let loaded_for = began.elapsed();

    assert_eq!(cluster.ended(), [0; 0], "a process ended by itself");
    for account in &mut accounts {
        account.drain(DRAIN_TIMEOUT).await;
        account.check(&cluster.database).await;
    }
    check_movements(&cluster.database);
    let audit = operator.audit().await.expect("the books can be read");
    assert_eq!(audit.faults, Vec::<String>::new());
    for number in 0..PROCESSES {
        let log = cluster.log(number);
        assert!(!log.contains("panicked"), "process {number}: {log}");
    }
    tell(&format!(
        "{} kills, {} pauses of {} s, {} restarts and a failover of PostgreSQL, {} outages of {} s of the object store in \
         {} s",
        plan.kills,
        plan.pauses,
        plan.pause.as_secs(),
        plan.restarts,
        plan.outages,
        plan.outage.as_secs(),
        loaded_for.as_secs()
    ));
    let sum = |count: fn(&Account) -> usize| accounts.iter().map(count).sum::<usize>();
    tell(&format!(
        "{} creates, {} cancels, {} uploads, {} deletes acknowledged, none lost; {} of {} charges, none twice; {} \
         creates of unknown outcome, {} other failures, all retryable",
        sum(|account| account.created.len()),
        sum(|account| account.canceled.len()),
        sum(|account| account.uploaded.len()),
        sum(|account| account.deleted.len()),
        sum(|account| account.charged),
        audit.movements,
        sum(|account| account.unknown),
        sum(|account| account.failures.values().sum()),
    ));
    for account in &accounts {
        tell(&format!("{:?}", account.failures));
    }
}

async fn account(operator: &Service, cluster: &Cluster, name: &str, stop: &Arc<AtomicBool>) -> Account {
    operator.add_account(name, Scope::Personal).await.expect("the account is new");
    let credit = Credit::Paid(load::CREDIT.parse().expect("an amount"));
    operator.credit(name, credit).await.expect("credited");
    let key = operator.add_key(name).await.expect("a key");
    Account::new(&cluster.base_url, key, name, Arc::clone(stop)).await
}

fn restart_postgres() {
    run("INFERSTORE_TEST_RESTART_POSTGRES");
}

fn fail_over() {
    run("INFERSTORE_TEST_FAIL_OVER");
}

fn run(variable: &str) {
    let command = std::env::var(variable).expect(".ci/cluster sets it");
    let status = Command::new("sh").args(["-c", &command]).status().expect("there is a shell");
    assert!(status.success(), "{command} failed");
}

fn check_movements(database: &str) {
    let wrong = query(
        database,
        "SELECT tasks.id, status, price, reserved, charged, released FROM tasks LEFT JOIN LATERAL ( \
           SELECT coalesce(sum(amount) FILTER (WHERE reason = 'reserve'), 0) AS reserved, \
             coalesce(sum(amount) FILTER (WHERE reason = 'charge'), 0) AS charged, \
             coalesce(sum(amount) FILTER (WHERE reason = 'release'), 0) AS released \
           FROM movements WHERE task = tasks.sequence) AS moved ON true \
         WHERE reserved <> price OR charged <> CASE status WHEN 'success' THEN price ELSE 0 END \
           OR charged + released <> price",
    );
    assert_eq!(wrong, "", "tasks whose money moved otherwise than once");
}
