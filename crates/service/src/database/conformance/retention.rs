//! Conformance of the retention of tasks: deleted tasks, the remaining history, and consistent balances.

use std::time::Duration;

use futures_util::future::join_all;

use super::{Engine, Fixture};
use crate::clock::Moment;
use crate::ledger::{Credit, Money};
use crate::queue::{Created, InsufficientBalance, RETENTION_BATCH, Status};

const NOW: Moment = Moment(1_000_000);

pub(crate) async fn retention_deletes_the_oldest_tasks_and_every_balance_still_adds_up(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    fixture.database.credit(fixture.customer, Credit::Paid(Money::from_smallest(100)), NOW).await.unwrap();
    let mut tasks = Vec::new();
    for _ in 0..6 {
        tasks.push(fixture.create_task(fixture.customer, 5, NOW).await);
    }
    for index in 0..4 {
        let lease = fixture.claim_one(NOW).await.unwrap();
        if index < 3 {
            fixture.finish(&lease, NOW.after(Duration::from_secs(index))).await;
        }
    }
    fixture.database.cancel(fixture.customer, &tasks[5], NOW).await.unwrap();
    let (page, total) = fixture.database.history(fixture.customer, 1, 4).await.unwrap();
    assert_eq!((&page[0].task_id, page.len(), total), (&tasks[4], 1, 6));
    let delete = |seconds| fixture.database.delete_ended_tasks(NOW.after(Duration::from_secs(seconds)), NOW);
    assert_eq!(delete(2).await.unwrap(), 3);
    assert_eq!(delete(100).await.unwrap(), 1);

    let depths = fixture.database.depths().await.unwrap();
    assert!(!depths.iter().any(|(status, tasks)| *status == Status::Success && *tasks > 0), "{depths:?}");
    let left = async |offset| {
        let (page, total) = fixture.database.history(fixture.customer, 9, offset).await.unwrap();
        (page.into_iter().map(|task| task.task_id).collect::<Vec<_>>(), total)
    };
    assert_eq!(left(0).await, (tasks[3..5].to_vec(), 2), "those that have not ended");
    assert_eq!(left(1).await, (tasks[4..5].to_vec(), 2));
    let later = fixture.create_task(fixture.customer, 5, NOW).await;
    assert_eq!(left(1).await, (vec![tasks[4].clone(), later], 3));
    assert_eq!(fixture.database.audit().await.unwrap().faults, [""; 0]);
    let earned = fixture.database.purses(fixture.operator).await.unwrap().earnings;
    assert_eq!(earned.smallest(), 15, "what was earned stays");
}

pub(crate) async fn retention_deletes_behind_a_task_that_ended_later(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let later = NOW.after(Duration::from_hours(1));
    for ended in [later, NOW, NOW] {
        let task = fixture.create_task(fixture.customer, 0, NOW).await;
        fixture.database.cancel(fixture.customer, &task, ended).await.unwrap();
    }
    assert_eq!(fixture.database.delete_ended_tasks(later, later).await.unwrap(), 2);
}

pub(crate) async fn retention_deletes_more_than_one_transaction_takes(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let mut old = 0;
    while old <= RETENTION_BATCH as usize {
        let tasks = join_all((0..10).map(|_| fixture.create_task(fixture.customer, 0, NOW))).await;
        join_all(tasks.iter().map(|task| fixture.database.cancel(fixture.customer, task, NOW))).await;
        old += tasks.len();
    }
    let deleted = fixture.database.delete_ended_tasks(NOW.after(Duration::from_secs(1)), NOW).await;
    assert_eq!(deleted.unwrap(), old);
}

pub(crate) async fn retention_deletes_around_any_number_of_tasks_that_have_not_ended(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let create = async || {
        let task = fixture.task(Money::ZERO);
        let created = fixture.database.create_task(&task, InsufficientBalance::Refuse, u32::MAX, NOW).await;
        assert_eq!(created.unwrap(), Created::Queued);
        task.id
    };
    let mut unended = Vec::new();
    for _ in 0..RETENTION_BATCH {
        unended.push(create().await);
    }
    for number in 0..20 {
        let task = create().await;
        match number % 3 {
            0 => unended.push(task),
            _ => drop(fixture.database.cancel(fixture.customer, &task, NOW).await.unwrap()),
        }
    }
    let later = NOW.after(Duration::from_secs(1));
    assert_eq!(fixture.database.delete_ended_tasks(later, later).await.unwrap(), 13);
    assert_eq!(fixture.database.delete_ended_tasks(later, later).await.unwrap(), 0);
    let (page, total) = fixture.database.history(fixture.customer, 1_000, 0).await.unwrap();
    let page: Vec<_> = page.into_iter().map(|task| task.task_id).collect();
    assert_eq!((page.len() as u64, page), (total, unended));
}

pub(crate) async fn retention_adds_up_sums_beyond_the_largest_amount(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let most = Money::from_smallest(i64::MAX);
    fixture.database.credit(fixture.customer, Credit::Paid(most), NOW).await.unwrap();
    for _ in 0..2 {
        let task = fixture.create_task(fixture.customer, i64::MAX, NOW).await;
        fixture.database.cancel(fixture.customer, &task, NOW).await.unwrap();
    }
    let deleted = fixture.database.delete_ended_tasks(NOW.after(Duration::from_secs(1)), NOW).await;
    assert_eq!(deleted.unwrap(), 2);
    assert_eq!(fixture.database.purses(fixture.customer).await.unwrap().balance, most);
    assert_eq!(fixture.database.audit().await.unwrap().faults, [""; 0]);
}
