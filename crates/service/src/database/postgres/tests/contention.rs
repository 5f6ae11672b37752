//! Contention: purses that a paused process has locked delay their own account only.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::task::JoinSet;

use super::creates::{account, task};
use super::server::Empty;
use crate::accounts::{AccountId, NewKey};
use crate::clock::Moment;
use crate::database::Database;
use crate::database::conformance::queue::slot;
use crate::database::conformance::{Fixture, MODEL, RULES};
use crate::ledger::Money;
use crate::queue::{Cancel, Claim, Created, Ending, InsufficientBalance, NewTask};

const NOW: Moment = Moment(1_000_000);
const PRICE: i64 = 3;

/// Longer than any operation without a lock wait takes, on a machine that is busy with other tests.
const AT_ONCE: Duration = Duration::from_secs(2);

async fn create(database: &dyn Database, task: &NewTask) -> Created {
    database.create_task(task, InsufficientBalance::Refuse, u32::MAX, NOW).await.unwrap()
}

async fn hold(fixture: &Fixture<Empty>, account: AccountId) -> deadpool_postgres::Client {
    let holder = fixture.engine.process().await.connection().await.unwrap();
    let hold = format!("BEGIN; SELECT 1 FROM purses WHERE account = {} FOR UPDATE", account.0);
    holder.batch_execute(&hold).await.unwrap();
    holder
}

async fn at_once<T>(what: &str, work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(AT_ONCE, work).await;
    assert!(done.is_ok(), "{what} waits for another account");
    done.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it starts a PostgreSQL"]
async fn nobody_waits_for_a_purse_that_somebody_else_holds() {
    let fixture = Fixture::new(Empty::new()).await;
    let database = &fixture.database;
    let held = account(&fixture, "held", 0, 1_000).await;
    let other = account(&fixture, "other", 0, 1_000).await;
    database.register("node", None, &[MODEL.to_owned()], NOW).await.unwrap();
    let tasks: Vec<NewTask> = (0..40).map(|_| task(&fixture, held, PRICE)).collect();
    for task in &tasks {
        assert_eq!(create(&**database, task).await, Created::Queued);
    }
    let of_other = task(&fixture, other, PRICE);
    assert_eq!(create(&**database, &of_other).await, Created::Queued);

    let holder = hold(&fixture, held).await;
    let mut waiting = JoinSet::new();
    for task in &tasks {
        let (database, task) = (database.clone(), task.clone());
        waiting.spawn(async move {
            database.cancel(task.account, &task.id, NOW).await.unwrap() == Cancel::Canceled
        });
    }
    for _ in 0..40 {
        let (database, task) = (database.clone(), task(&fixture, held, PRICE));
        waiting.spawn(async move { create(&*database, &task).await == Created::Queued });
    }
    let is_waiting = Instant::now() + Duration::from_millis(300);
    while Instant::now() < is_waiting {
        let task = task(&fixture, other, PRICE);
        assert_eq!(at_once("a create", create(&**database, &task)).await, Created::Queued);
        assert_eq!(
            at_once("a cancel", database.cancel(other, &task.id, NOW)).await.unwrap(),
            Cancel::Canceled
        );
    }
    at_once("consolidation", database.consolidate()).await.unwrap();
    let claims = at_once("a claim", database.claim(&vec![slot("node"); 64], RULES, NOW)).await.unwrap();
    let leases: Vec<_> = claims
        .iter()
        .filter_map(|claim| match claim {
            Claim::Leased(lease) => Some(lease),
            _ => None,
        })
        .collect();
    let lease = leases.iter().find(|lease| lease.task == of_other.id).unwrap();
    let output = Ending::Output("{}".to_owned());
    let finish = database.finish("node", &lease.task, lease.attempt, &output, NOW);
    assert!(at_once("a finish", finish).await.unwrap());
    let task = task(&fixture, other, PRICE);
    assert_eq!(at_once("a create", create(&**database, &task)).await, Created::Queued);

    holder.batch_execute("COMMIT").await.unwrap();
    drop(holder);
    let done = waiting.join_all().await;
    assert_eq!(done.len(), 80);
    assert!(done.iter().filter(|done| **done).count() >= 40, "every create has its task");
    assert_eq!(database.audit().await.unwrap().faults, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it starts a PostgreSQL"]
async fn nobody_waits_for_a_key_that_another_account_makes() {
    let fixture = Fixture::new(Empty::new()).await;
    let paused = account(&fixture, "paused", 0, 1).await;
    let other = account(&fixture, "other", 0, 1).await;
    let holder = fixture.engine.process().await.connection().await.unwrap();
    let hold = format!(
        "BEGIN; INSERT INTO api_keys (id, account, hash, created_at) VALUES ('paused', {}, '\\x00', 0)",
        paused.0
    );
    holder.batch_execute(&hold).await.unwrap();
    let key = NewKey::chosen("isk_other_firstfirstfirst").unwrap().kept;
    at_once("a key", fixture.database.add_own_key(other, &key, NOW)).await.unwrap().unwrap();
    holder.batch_execute("COMMIT").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it starts a PostgreSQL"]
async fn an_expired_task_with_a_locked_purse_blocks_no_other_claim() {
    let fixture = Fixture::new(Empty::new()).await;
    let database = &fixture.database;
    let held = account(&fixture, "held", 0, 100).await;
    let other = account(&fixture, "other", 0, 100).await;
    database.register("node", None, &[MODEL.to_owned()], NOW).await.unwrap();
    let expired = task(&fixture, held, PRICE);
    assert_eq!(create(&**database, &expired).await, Created::Queued);
    let mut now = NOW;
    for _ in 0..RULES.attempts {
        let claims = database.claim(&[slot("node")], RULES, now).await.unwrap();
        assert!(matches!(&claims[..], [Claim::Leased(lease)] if lease.task == expired.id), "{claims:?}");
        now = now.after(RULES.length * 2);
    }
    let next = task(&fixture, other, PRICE);
    assert_eq!(create(&**database, &next).await, Created::Queued);
    let holder = hold(&fixture, held).await;
    let claims = at_once("a claim", database.claim(&[slot("node")], RULES, now)).await.unwrap();
    assert!(matches!(&claims[..], [Claim::Leased(lease)] if lease.task == next.id), "{claims:?}");
    holder.batch_execute("COMMIT").await.unwrap();
    let claims = database.claim(&[slot("node")], RULES, now).await.unwrap();
    assert!(matches!(&claims[..], [Claim::NoTask]), "{claims:?}");
    let failed = database.task(held, &expired.id).await.unwrap().unwrap();
    assert_eq!(failed.status, crate::queue::Status::Failed);
    assert_eq!(database.purses(held).await.unwrap().balance, Money::from_smallest(100));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it starts a PostgreSQL"]
async fn a_transaction_whose_process_is_paused_is_ended_before_anyone_gives_up() {
    let fixture = Fixture::new(Empty::new()).await;
    let held = account(&fixture, "held", 0, 1_000).await;
    let _holder = hold(&fixture, held).await;
    let tasks: Vec<NewTask> = (0..3).map(|_| task(&fixture, held, PRICE)).collect();
    let created = join_all(tasks.iter().map(|task| create(&*fixture.database, task))).await;
    assert!(created.iter().all(|created| *created == Created::Queued), "{created:?}");
}
