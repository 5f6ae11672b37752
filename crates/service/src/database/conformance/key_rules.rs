//! Conformance of API keys with rules: the daily spending limit.

use std::time::Duration;

use futures_util::future::join_all;

use super::{Engine, Fixture};
use crate::accounts::{KeyRules, NewKey, StoredKey};
use crate::clock::Moment;
use crate::ledger::{Credit, Money};
use crate::operator::KeyRefusal;
use crate::queue::{Created, Ending, InsufficientBalance, NewTask, Spending};

const NOW: Moment = Moment(1_000);
const DAY: Duration = Duration::from_hours(24);

fn limited<E: Engine>(fixture: &Fixture<E>, key: &str, price: i64) -> NewTask {
    let spending = Spending { key: key.to_owned(), daily_limit: Money::from_smallest(10) };
    NewTask { spending: Some(spending), ..fixture.task(Money::from_smallest(price)) }
}

impl<E: Engine> Fixture<E> {
    async fn create_limited(&self, task: &NewTask, now: Moment) -> Created {
        self.database.create_task(task, InsufficientBalance::Refuse, 100, now).await.unwrap()
    }
}

pub(crate) async fn keys_of_one_name_at_the_same_moment_are_made_once(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let other = fixture.engine.open().await;
    let keys: Vec<StoredKey> = (0..16)
        .map(|number| {
            let mut key = NewKey::chosen(&format!("isk_key{number}_secretsecret")).unwrap().kept;
            key.rules.name = Some("the nightly job".to_owned());
            key
        })
        .collect();
    let creates = keys.iter().enumerate().map(|(number, key)| {
        let database = if number % 2 == 0 { &fixture.database } else { &other };
        async move { database.add_own_key(fixture.customer, key, NOW).await.unwrap() }
    });
    let made = join_all(creates).await;
    assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1, "{made:?}");
    assert_eq!(made.iter().filter(|made| **made == Err(KeyRefusal::NameTaken)).count(), 15, "{made:?}");
    assert_eq!(fixture.database.keys(fixture.customer).await.unwrap().len(), 1);
}

fn left(amount: i64) -> Created {
    Created::KeyLimit { left: Money::from_smallest(amount) }
}

pub(crate) async fn rules_of_a_key_are_kept(engine: impl Engine) {
    let mut fixture = Fixture::new(engine).await;
    let mut key = NewKey::chosen("isk_ruled_secretsecret").unwrap().kept;
    key.rules = KeyRules {
        name: Some("the nightly job".to_owned()),
        expires_at: Some(Moment(7)),
        daily_limit: Some(Money::from_smallest(5)),
        models: Some(vec!["one".to_owned(), "two".to_owned()]),
    };
    fixture.database.add_key(fixture.customer, &key, NOW).await.unwrap();
    let plain = NewKey::chosen("isk_plain_secretsecret").unwrap().kept;
    fixture.database.add_key(fixture.customer, &plain, NOW).await.unwrap();
    fixture.crash().await;
    let kept = async |id: &str| fixture.database.key(id).await.unwrap().unwrap().0.rules;
    assert_eq!((kept("ruled").await, kept("plain").await), (key.rules.clone(), KeyRules::default()));
    let listed = fixture.database.keys(fixture.customer).await.unwrap();
    let ruled = listed.iter().find(|listed| listed.key == "ruled").unwrap();
    assert_eq!((&ruled.name, ruled.expires_at), (&key.rules.name, key.rules.expires_at));
    assert_eq!((ruled.daily_limit, &ruled.models), (key.rules.daily_limit, &key.rules.models));
}

pub(crate) async fn creates_side_by_side_never_exceed_the_limit_of_their_key(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let other = fixture.engine.open().await;
    let credit = Credit::Paid(Money::from_smallest(1_000));
    fixture.database.credit(fixture.customer, credit, NOW).await.unwrap();
    let tasks: Vec<NewTask> = (0..64).map(|_| limited(&fixture, "key", 3)).collect();
    let creates = tasks.iter().enumerate().map(|(number, task)| {
        let database = if number % 2 == 0 { &fixture.database } else { &other };
        async move { database.create_task(task, InsufficientBalance::Refuse, 100, NOW).await.unwrap() }
    });
    let created = join_all(creates).await;
    assert_eq!(created.iter().filter(|created| **created == Created::Queued).count(), 3, "{created:?}");
    assert_eq!(created.iter().filter(|created| **created == left(1)).count(), 61, "{created:?}");
    assert_eq!(fixture.database.purses(fixture.customer).await.unwrap().held.smallest(), 9);
    fixture.assert_books_are_right().await;
}

pub(crate) async fn a_limit_counts_the_tasks_of_its_key_and_day_that_cost_something(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let credit = Credit::Paid(Money::from_smallest(1_000));
    fixture.database.credit(fixture.customer, credit, NOW).await.unwrap();
    let (fails, canceled) = (limited(&fixture, "key", 6), limited(&fixture, "key", 4));
    for task in [&fails, &canceled] {
        assert_eq!(fixture.create_limited(task, NOW).await, Created::Queued);
    }
    assert_eq!(fixture.create_limited(&limited(&fixture, "key", 1), NOW).await, left(0));
    assert_eq!(fixture.create_limited(&limited(&fixture, "key", 0), NOW).await, Created::Queued);
    assert_eq!(fixture.create_limited(&limited(&fixture, "other", 10), NOW).await, Created::Queued);
    assert_eq!(fixture.create_limited(&fixture.task(Money::from_smallest(50)), NOW).await, Created::Queued);
    let lease = fixture.claim_one(NOW).await.unwrap();
    assert_eq!(lease.task, fails.id);
    let error = Ending::Error { message: "no".to_owned(), detail: "{}".to_owned() };
    fixture.end(&lease, &error, NOW).await;
    assert_eq!(fixture.create_limited(&limited(&fixture, "key", 7), NOW).await, left(6));
    fixture.database.cancel(fixture.customer, &canceled.id, NOW).await.unwrap();
    assert_eq!(fixture.create_limited(&limited(&fixture, "key", 10), NOW).await, Created::Queued);
    assert_eq!(fixture.create_limited(&limited(&fixture, "key", 1), NOW).await, left(0));
    let tomorrow = NOW.after(DAY);
    assert_eq!(fixture.create_limited(&limited(&fixture, "key", 10), tomorrow).await, Created::Queued);
    while fixture.database.forget_keys(tomorrow.after(DAY)).await.unwrap() > 0 {}
    assert_eq!(fixture.create_limited(&limited(&fixture, "key", 1), tomorrow).await, left(0));
    let poor = fixture.account("poor").await.id;
    let task = NewTask { account: poor, ..limited(&fixture, "poor", 5) };
    let spendable = Money::ZERO;
    assert_eq!(fixture.create_limited(&task, NOW).await, Created::Refused { spendable });
    fixture.assert_books_are_right().await;
}
