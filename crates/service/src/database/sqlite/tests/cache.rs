//! Caches of keys and models: a change of this process is visible at once.

use std::time::Duration;

use super::Folder;
use super::group_commit::occupy;
use crate::accounts::{Accounts as _, NewKey};
use crate::catalog::{ModelChange, ModelPages as _, Search, Sort, Visibility};
use crate::clock::Moment;
use crate::database::conformance::{Engine, Fixture, MODEL};
use crate::database::{Database, Maintenance as _};
use crate::ledger::{Money, MovementSums as _};

const EXPIRED: Duration = Duration::from_secs(10);

#[tokio::test(start_paused = true)]
async fn a_revoked_key_ends_at_once_here_and_within_ten_seconds_elsewhere() {
    let here = Fixture::new(Folder::new()).await;
    let elsewhere = here.engine.open().await;
    let key = NewKey::draw(&here.random).unwrap().kept;
    here.database.add_key(here.customer, &key, Moment(0)).await.unwrap();
    for database in [&here.database, &elsewhere] {
        assert!(database.key(&key.id).await.unwrap().is_some());
    }
    assert!(here.database.revoke_key(&key.id, Moment(1)).await.unwrap());
    assert!(here.database.key(&key.id).await.unwrap().is_none());
    assert!(elsewhere.key(&key.id).await.unwrap().is_some(), "it is in memory, without a query");
    tokio::time::advance(EXPIRED).await;
    assert!(elsewhere.key(&key.id).await.unwrap().is_none());

    here.database.add_key(here.customer, &key, Moment(2)).await.unwrap();
    assert!(here.database.key(&key.id).await.unwrap().is_some(), "a key that is added again is valid");
}

#[tokio::test(start_paused = true)]
async fn a_revoked_key_ends_at_once_although_who_revoked_it_did_not_wait() {
    let fixture = Fixture::new(Folder::new()).await;
    let database = fixture.engine.sqlite().await;
    let key = NewKey::draw(&fixture.random).unwrap().kept;
    database.add_key(fixture.customer, &key, Moment(0)).await.unwrap();
    let busy = occupy(&database).await;
    {
        let mut gone = std::pin::pin!(database.revoke_key(&key.id, Moment(1)));
        assert!(futures_util::poll!(&mut gone).is_pending());
    }
    assert!(database.key(&key.id).await.unwrap().is_some(), "it is in memory from now on");
    let (written, ()) = tokio::join!(database.check_writer(), async { drop(busy) });
    written.unwrap();
    assert!(database.key(&key.id).await.unwrap().is_none());
}

#[tokio::test]
async fn long_reads_leave_half_of_the_connections_to_other_reads() {
    let fixture = Fixture::new(Folder::new()).await;
    let database = fixture.engine.sqlite().await;
    let scans = &database.readers.scans;
    let all = u32::try_from(scans.available_permits()).unwrap();
    let searches = scans.acquire_many(all).await.unwrap();
    let (caller, sort, now) = (fixture.customer, Sort::Likes, Moment(0));
    let list = Search { caller, text: None, sort, filter: None, limit: 10, offset: 0, now };
    let search = Search { text: Some("echo".to_owned()), ..list.clone() };
    let mut found = std::pin::pin!(database.models(&search));
    let mut audit = std::pin::pin!(database.audit());
    let copy = fixture.engine.file().with_extension("copy");
    let mut backup = std::pin::pin!(database.backup_to(&copy));
    for _ in 0..10 {
        assert!(futures_util::poll!(&mut found).is_pending());
        assert!(
            futures_util::poll!(&mut audit).is_pending() && futures_util::poll!(&mut backup).is_pending()
        );
        assert_eq!(database.models(&list).await.unwrap().1, 1);
    }
    assert!(!copy.exists(), "nothing was begun");
    drop(searches);
    assert_eq!(found.await.unwrap().1, 1);
    assert!(audit.await.unwrap().faults.is_empty() && backup.await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_changed_model_is_seen_at_once_here_and_within_ten_seconds_elsewhere() {
    let here = Fixture::new(Folder::new()).await;
    let elsewhere = here.engine.open().await;
    let is_public = async |database: &dyn Database| {
        database
            .published(MODEL)
            .await
            .unwrap()
            .is_some_and(|found| found.model.summary.visibility == Visibility::Public)
    };
    assert!(is_public(&*here.database).await && is_public(&*elsewhere).await);
    let price = Some(Money::from_smallest(5));
    let change = ModelChange { price, visibility: Some(Visibility::Private), ..ModelChange::default() };
    assert!(here.database.change_model(MODEL, change, Moment(1)).await.unwrap());
    assert!(!is_public(&*here.database).await);
    assert!(is_public(&*elsewhere).await, "it is in memory, without a query");
    tokio::time::advance(EXPIRED).await;
    assert!(!is_public(&*elsewhere).await);
    assert_eq!(
        elsewhere.published(MODEL).await.unwrap().unwrap().model.summary.price,
        Money::from_smallest(5)
    );
}
