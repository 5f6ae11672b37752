//! Accounts, their keys, and what a database begins with.

use std::sync::Arc;

use futures_util::future::join_all;

use super::{Engine, Fixture};
use crate::accounts::{NewAccount, NewKey, OPERATOR, Scope};
use crate::clock::Moment;
use crate::database::{Bootstrap, Database};
use crate::ledger::Money;
use crate::random::Randomness;

pub(crate) async fn a_key_cannot_take_the_identifier_of_another(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let database = &fixture.database;
    let first = NewKey::chosen("isk_same_firstfirstfirst").unwrap();
    let second = NewKey::chosen("isk_same_secondsecond").unwrap();
    database.add_key(fixture.customer, &first.kept, Moment(0)).await.unwrap();
    for owner in [fixture.operator, fixture.customer] {
        assert!(database.add_key(owner, &second.kept, Moment(0)).await.is_err());
    }
    assert!(database.add_key(fixture.operator, &first.kept, Moment(0)).await.is_err());
    let (kept, account) = database.key("same").await.unwrap().unwrap();
    assert!(kept.is_of("isk_same_firstfirstfirst"));
    assert_eq!(account.id, fixture.customer);

    assert!(database.revoke_key("same", Moment(0)).await.unwrap());
    assert!(database.key("same").await.unwrap().is_none());
    database.add_key(fixture.customer, &first.kept, Moment(0)).await.unwrap();
    assert!(database.key("same").await.unwrap().is_some());
}

fn begin(random: &Randomness) -> (Bootstrap, NewKey) {
    let key = NewKey::draw(random).unwrap();
    (begin_with(&key, random), key)
}

fn begin_with(key: &NewKey, random: &Randomness) -> Bootstrap {
    let account = |name: &str| NewAccount::draw(name, Scope::Personal, random).unwrap();
    Bootstrap {
        operator: account(OPERATOR),
        first: account("first"),
        balance: Money::from_smallest(7),
        free_balance: Money::from_smallest(3),
        key: key.kept.clone(),
    }
}

async fn is_valid(database: &dyn Database, key: &NewKey) -> bool {
    let kept = database.key(&key.kept.id).await.unwrap();
    kept.is_some_and(|(kept, account)| kept.is_of(&key.text) && account.username == "first")
}

pub(crate) async fn several_starts_at_once_credit_the_first_account_once(engine: impl Engine) {
    let random = Randomness::new(Some(1));
    let databases = [engine.open().await, engine.open().await];
    let starts: Vec<_> = (0..6).map(|_| begin(&random)).collect();
    let starts = starts.into_iter().enumerate().map(|(number, (begin, key))| {
        let database = Arc::clone(&databases[number % 2]);
        async move { (database.bootstrap(&begin, Moment(0)).await.unwrap(), key) }
    });
    let begun = join_all(starts).await;
    for (bootstrapped, key) in &begun {
        assert_eq!(bootstrapped.operator, begun[0].0.operator);
        // A start that shows its key shows one that is valid.
        assert_eq!(bootstrapped.is_key_new, is_valid(&*databases[0], key).await);
    }
    let first = databases[0].account("first").await.unwrap().unwrap();
    let purses = databases[0].purses(first.id).await.unwrap();
    assert_eq!((purses.balance.smallest(), purses.free.smallest()), (7, 3));
}

pub(crate) async fn a_start_adds_a_key_until_one_was_shown(engine: impl Engine) {
    let random = Randomness::new(Some(1));
    for _ in 0..3 {
        // Killed before it has shown the key.
        let database = engine.open().await;
        let (begin, key) = begin(&random);
        assert!(database.bootstrap(&begin, Moment(0)).await.unwrap().is_key_new);
        assert!(is_valid(&*database, &key).await);
    }
    let database = engine.open().await;
    let (last, key) = begin(&random);
    assert!(database.bootstrap(&last, Moment(0)).await.unwrap().is_key_new);
    database.first_key_shown(&key.kept.id).await.unwrap();
    let database = engine.open().await;
    let (later, key) = begin(&random);
    assert!(!database.bootstrap(&later, Moment(0)).await.unwrap().is_key_new);
    assert!(!is_valid(&*database, &key).await);
    let first = database.account("first").await.unwrap().unwrap();
    assert_eq!(database.purses(first.id).await.unwrap().balance.smallest(), 7);
}

pub(crate) async fn a_first_key_that_was_revoked_stays_revoked(engine: impl Engine) {
    let random = Randomness::new(Some(1));
    let database = engine.open().await;
    // Keys of settings, which a program has no need to read from the service: none counts as shown.
    let [first, second] =
        ["isk_first_secretsecret", "isk_second_secretsecret"].map(|text| NewKey::chosen(text).unwrap());
    let start = async |key: &NewKey| {
        let bootstrapped = database.bootstrap(&begin_with(key, &random), Moment(0)).await.unwrap();
        (bootstrapped.is_key_new, is_valid(&*database, key).await)
    };
    for key in [&first, &second] {
        assert_eq!(start(key).await, (true, true));
    }
    assert!(database.revoke_key("first", Moment(1)).await.unwrap());
    assert_eq!(start(&first).await, (false, false));
    assert_eq!(start(&second).await, (true, true));
    assert!(database.revoke_key("second", Moment(2)).await.unwrap());
    assert_eq!(start(&second).await, (false, false));
    let (drawn, key) = begin(&random);
    assert!(!database.bootstrap(&drawn, Moment(3)).await.unwrap().is_key_new);
    assert!(!is_valid(&*database, &key).await, "a key was shown: someone has revoked it");
}
