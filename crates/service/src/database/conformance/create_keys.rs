//! Conformance of idempotency keys: a repeated create returns the task of the first.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;

use super::{Engine, Fixture, MODEL};
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::ledger::{Credit, Money};
use crate::queue::{
    Cancel, CreateKey, Created, Ending, InsufficientBalance, KEY_RETENTION, KeyedCreate, NewTask,
};

const NOW: Moment = Moment(1_000_000);
const PRICE: i64 = 5;

pub(crate) fn keyed<E: Engine>(fixture: &Fixture<E>, key: &str) -> NewTask {
    let key = Some(CreateKey::new(key.to_owned(), MODEL, &[]));
    NewTask { key, ..fixture.task(Money::from_smallest(PRICE)) }
}

fn used_by(task: &NewTask) -> Created {
    let request = task.key.as_ref().unwrap().request.clone();
    Created::KeyUsed(KeyedCreate { task: task.id.clone(), request })
}

impl<E: Engine> Fixture<E> {
    async fn credit(&self, tasks: i64) {
        let credit = Credit::Paid(Money::from_smallest(tasks * PRICE));
        self.database.credit(self.customer, credit, NOW).await.unwrap();
    }

    async fn create_or_refuse(&self, task: &NewTask, now: Moment) -> Created {
        self.database.create_task(task, InsufficientBalance::Refuse, 10, now).await.unwrap()
    }

    async fn assert_is_remembered(&self, first: &NewTask, key: &str) {
        let purses = self.database.purses(self.customer).await.unwrap();
        let (_, total) = self.database.history(self.customer, 1, 0).await.unwrap();
        for policy in [InsufficientBalance::Refuse, InsufficientBalance::FailTask] {
            for max_unfinished in [0, 10] {
                let again = keyed(self, key);
                let created = self.database.create_task(&again, policy, max_unfinished, NOW).await;
                assert_eq!(created.unwrap(), used_by(first));
            }
        }
        let kept = self.database.keyed_create(self.customer, key, NOW).await.unwrap();
        assert_eq!(Created::KeyUsed(kept.unwrap()), used_by(first));
        assert_eq!(self.database.purses(self.customer).await.unwrap(), purses);
        assert_eq!(self.database.history(self.customer, 1, 0).await.unwrap().1, total);
    }
}

pub(crate) async fn a_create_that_is_sent_again_gets_its_task_whatever_happened_since(engine: impl Engine) {
    let mut fixture = Fixture::new(engine).await;
    fixture.credit(2).await;
    let (ends, is_canceled) = (keyed(&fixture, "ends"), keyed(&fixture, "is canceled"));
    for (task, key) in [(&ends, "ends"), (&is_canceled, "is canceled")] {
        assert_eq!(fixture.create_or_refuse(task, NOW).await, Created::Queued);
        fixture.assert_is_remembered(task, key).await;
    }
    let lease = fixture.claim_one(NOW).await.unwrap();
    assert_eq!(lease.task, ends.id);
    fixture.assert_is_remembered(&ends, "ends").await;
    fixture.end(&lease, &Ending::Output("{}".to_owned()), NOW).await;
    let canceled = fixture.database.cancel(fixture.customer, &is_canceled.id, NOW).await.unwrap();
    assert_eq!(canceled, Cancel::Canceled);
    fixture.crash().await;
    // The retention of tasks may be shorter than that of keys.
    for is_deleted in [false, true] {
        if is_deleted {
            let later = NOW.after(Duration::from_secs(1));
            assert_eq!(fixture.database.delete_ended_tasks(later, later).await.unwrap(), 2);
        }
        fixture.assert_is_remembered(&ends, "ends").await;
        fixture.assert_is_remembered(&is_canceled, "is canceled").await;
    }
    fixture.assert_books_are_right().await;
}

pub(crate) async fn creates_with_one_key_at_the_same_moment_make_one_task(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let keys = ["a", "b", "c", "d"];
    fixture.credit(4).await;
    let tasks: Vec<(&str, NewTask)> =
        (0..12).flat_map(|_| keys).map(|key| (key, keyed(&fixture, key))).collect();
    let creates = tasks.iter().map(|(_, task)| fixture.create_or_refuse(task, NOW));
    let created = join_all(creates).await;
    for key in keys {
        let of_key = || tasks.iter().zip(&created).filter(|((other, _), _)| *other == key);
        let queued: Vec<_> = of_key().filter(|(_, created)| **created == Created::Queued).collect();
        let [((_, first), _)] = queued[..] else { panic!("{key} made {} tasks", queued.len()) };
        let others = of_key().filter(|(_, created)| **created == used_by(first)).count();
        assert_eq!(others, 11, "{key}");
    }
    let (page, total) = fixture.database.history(fixture.customer, 10, 0).await.unwrap();
    let listed: BTreeSet<_> = page.iter().map(|task| &task.task_id).collect();
    assert_eq!((listed.len(), total), (4, 4));
    fixture.assert_books_are_right().await;
}

pub(crate) async fn a_create_that_was_refused_leaves_its_key_unused(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let refused = fixture.create_or_refuse(&keyed(&fixture, "key"), NOW).await;
    assert_eq!(refused, Created::Refused { spendable: Money::ZERO });
    fixture.credit(1).await;
    let task = keyed(&fixture, "key");
    let none = fixture.database.create_task(&task, InsufficientBalance::Refuse, 0, NOW).await.unwrap();
    assert_eq!(none, Created::TooManyUnfinished);
    assert!(fixture.database.keyed_create(fixture.customer, "key", NOW).await.unwrap().is_none());
    assert_eq!(fixture.create_or_refuse(&task, NOW).await, Created::Queued);
    fixture.assert_is_remembered(&task, "key").await;

    let tasks = [(); 5].map(|()| keyed(&fixture, "fails"));
    let create = |task| fixture.database.create_task(task, InsufficientBalance::FailTask, 10, NOW);
    let created: Vec<_> = join_all(tasks.iter().map(create)).await.into_iter().map(Result::unwrap).collect();
    let failed = created.iter().position(|created| *created == Created::Failed).unwrap();
    let others = created.iter().filter(|created| **created == used_by(&tasks[failed])).count();
    assert_eq!(others, 4, "{created:?}");
    fixture.credit(1).await;
    fixture.assert_is_remembered(&tasks[failed], "fails").await;
    fixture.assert_books_are_right().await;
}

pub(crate) async fn a_key_belongs_to_its_account_and_to_one_request(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    fixture.credit(1).await;
    let task = keyed(&fixture, "key");
    assert_eq!(fixture.create_or_refuse(&task, NOW).await, Created::Queued);
    let other: AccountId = fixture.account("other").await.id;
    let of_other = NewTask { account: other, price: Money::ZERO, ..keyed(&fixture, "key") };
    assert_eq!(fixture.create_or_refuse(&of_other, NOW).await, Created::Queued);
    fixture.assert_is_remembered(&task, "key").await;

    let inputs = ["name".to_owned(), "value".to_owned()];
    let requests = [(MODEL, &inputs[..]), ("another", &[]), (MODEL, &inputs[..1]), (MODEL, &[])]
        .map(|(model, inputs)| CreateKey::new("key".to_owned(), model, inputs));
    for request in &requests[..3] {
        let again = NewTask { key: Some(request.clone()), ..keyed(&fixture, "key") };
        assert_eq!(fixture.create_or_refuse(&again, NOW).await, used_by(&task));
    }
    let distinct: BTreeSet<_> = requests.iter().map(|key| &key.request).collect();
    assert_eq!(distinct.len(), requests.len());
}

pub(crate) async fn a_key_is_remembered_for_a_day_and_can_be_used_after_that(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    fixture.credit(4).await;
    let (mut now, mut last) = (NOW, None::<NewTask>);
    for is_forgotten in [false, true, false] {
        let task = keyed(&fixture, "key");
        assert_eq!(fixture.create_or_refuse(&task, now).await, Created::Queued);
        let late = now.after(KEY_RETENTION - Duration::from_millis(1));
        assert_eq!(fixture.database.forget_keys(late).await.unwrap(), 0);
        assert_eq!(fixture.create_or_refuse(&keyed(&fixture, "key"), late).await, used_by(&task));
        now = now.after(KEY_RETENTION);
        assert_eq!(fixture.database.keyed_create(fixture.customer, "key", now).await.unwrap(), None);
        if is_forgotten {
            assert_eq!(fixture.database.forget_keys(now).await.unwrap(), 1);
        }
        last = Some(task);
    }
    fixture.database.cancel(fixture.customer, &last.unwrap().id, now).await.unwrap();
    let expensive = NewTask { price: Money::from_smallest(i64::MAX), ..keyed(&fixture, "key") };
    let failed = fixture.database.create_task(&expensive, InsufficientBalance::FailTask, 10, now).await;
    assert_eq!(failed.unwrap(), Created::Failed);
    assert_eq!(fixture.create_or_refuse(&keyed(&fixture, "key"), now).await, used_by(&expensive));
    fixture.assert_books_are_right().await;
}

pub(crate) async fn no_write_that_forgets_keys_is_long(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let account = fixture.customer.0;
    let keys: Vec<String> =
        (0..2_500).map(|number| format!("({account}, 'key-{number}', 'request', 'task', 0)")).collect();
    let sql = "INSERT INTO create_keys (account, key, request, task, created_at) VALUES";
    fixture.engine.execute(&format!("{sql} {}", keys.join(", "))).await;
    let now = Moment(0).after(KEY_RETENTION);
    for forgotten in [1_000, 1_000, 500, 0] {
        assert_eq!(fixture.database.forget_keys(now).await.unwrap(), forgotten);
    }
}
