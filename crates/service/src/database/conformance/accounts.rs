//! Conformance of accounts, their keys, and the bootstrap.

use std::sync::Arc;

use futures_util::future::join_all;

use super::{Engine, File, Fixture};
use crate::accounts::{AccountState, NewAccount, NewKey, OPERATOR, Scope};
use crate::clock::Moment;
use crate::database::{Bootstrap, Database};
use crate::files::Stored;
use crate::ledger::Money;
use crate::queue::Ending;
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
    // Configured keys, which programs need not read from the service: none counts as shown.
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

pub(crate) async fn queued_tasks_of_a_suspended_account_wait_until_it_is_resumed(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let database = &fixture.database;
    let other = fixture.account("other").await.id;
    let waiting = fixture.create_task(fixture.customer, 0, Moment(1)).await;
    let running = fixture.create_task(other, 0, Moment(2)).await;
    let set = async |state| database.set_state(fixture.customer, state, Moment(3)).await.unwrap();
    assert!(set(AccountState::Suspended).await);
    assert_eq!(fixture.claim_one(Moment(4)).await.map(|lease| lease.task), Some(running));
    assert_eq!(fixture.claim_one(Moment(4)).await.map(|lease| lease.task), None);
    assert!(set(AccountState::Active).await);
    let lease = fixture.claim_one(Moment(5)).await.unwrap();
    assert_eq!(lease.task, waiting);
    assert!(set(AccountState::Suspended).await);
    fixture.end(&lease, &Ending::Output("{}".to_owned()), Moment(6)).await;
    fixture.assert_books_are_right().await;
}

pub(crate) async fn a_key_shows_the_state_of_its_account_and_closing_is_for_good(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let database = &fixture.database;
    let key = NewKey::chosen("isk_same_firstfirstfirst").unwrap();
    database.add_key(fixture.customer, &key.kept, Moment(0)).await.unwrap();
    let state = async || database.key("same").await.unwrap().map(|(_, account)| account.state);
    let set = async |state| database.set_state(fixture.customer, state, Moment(3)).await.unwrap();
    assert_eq!(state().await, Some(AccountState::Active));
    for next in [AccountState::Suspended, AccountState::Active] {
        assert!(set(next).await);
        assert_eq!(state().await, Some(next));
    }
    assert!(set(AccountState::Closed).await);
    assert_eq!(state().await, None, "its keys are revoked");
    let keys = database.keys(fixture.customer).await.unwrap();
    assert!(keys.iter().all(|key| key.revoked_at == Some(Moment(3))));
    for next in [AccountState::Suspended, AccountState::Active] {
        assert!(!set(next).await);
    }
    assert!(set(AccountState::Closed).await, "a close that is sent again succeeds");
    assert_eq!(database.account("customer").await.unwrap().unwrap().state, AccountState::Closed);
    let all = database.accounts().await.unwrap();
    let states: Vec<_> = all.iter().map(|(account, _)| account.state).collect();
    assert_eq!(states, [AccountState::Active, AccountState::Closed]);
}

pub(crate) async fn unused_targets_of_a_suspended_account_are_void_for_good(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let organization = fixture.account("organization").await.id;
    let file = File::of_size(1);
    let named = |name: &str| File { name: name.to_owned(), ..file.clone() };
    fixture.upload(fixture.customer, fixture.customer, &file, Moment(0)).await;
    let own = fixture.add_target(fixture.customer, fixture.customer, &named("own"), Moment(9)).await;
    let paid = fixture.add_target(organization, fixture.customer, &named("paid"), Moment(9)).await;
    let others = fixture.add_target(organization, organization, &named("others"), Moment(9)).await;
    for state in [AccountState::Suspended, AccountState::Active] {
        assert!(fixture.database.set_state(fixture.customer, state, Moment(1)).await.unwrap());
    }
    for target in [own, paid] {
        assert_eq!(fixture.store(&target, &target.id, Moment(2)).await, Stored::Void);
    }
    assert!(matches!(fixture.store(&others, &others.id, Moment(2)).await, Stored::Done { .. }));
    assert_eq!(fixture.database.usage(fixture.customer).await.unwrap().files, 1, "its files stay");
}
