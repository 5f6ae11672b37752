//! Backups of a running database.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{Durability, Folder, SqliteDatabase};
use crate::accounts::AccountId;
use crate::catalog::{Existing, NewModel, Search, Sort};
use crate::clock::Moment;
use crate::database::Maintenance as _;
use crate::database::conformance::{Engine as _, File, Fixture, MODEL, model};
use crate::ledger::{Credit, Money, MovementSums as _};

#[tokio::test(flavor = "multi_thread")]
async fn backups_during_payments_are_whole_and_no_write_fails() {
    let fixture = Arc::new(Fixture::new(Folder::new()).await);
    let is_over = Arc::new(AtomicBool::new(false));
    let writes = tokio::spawn({
        let (fixture, is_over) = (Arc::clone(&fixture), Arc::clone(&is_over));
        async move {
            let mut number = 0_u32;
            while !is_over.load(Ordering::Relaxed) {
                number += 1;
                let credit = Credit::Paid(Money::from_smallest(1));
                fixture.database.credit(fixture.customer, credit, Moment(0)).await.unwrap();
                let file = File { name: number.to_string(), ..File::of_size(5) };
                fixture.upload(fixture.operator, fixture.customer, &file, Moment(0)).await;
            }
            number
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let mut movements = 0;
    for number in 0..5 {
        let file = folder.path().join(format!("{number}.db"));
        fixture.database.backup_to(&file).await.unwrap();
        assert!(fixture.database.backup_to(&file).await.is_err(), "a backup was overwritten");
        let backup = SqliteDatabase::open(&file, Durability::None).await.unwrap();
        let audit = backup.audit().await.unwrap();
        assert_eq!(audit.faults, Vec::<String>::new());
        assert!(audit.movements >= movements);
        movements = audit.movements;
        backup.close(Instant::now()).await;
    }
    is_over.store(true, Ordering::Relaxed);
    assert_eq!(u64::from(writes.await.unwrap()), fixture.database.audit().await.unwrap().movements);
}

#[cfg(unix)]
#[tokio::test]
async fn a_backup_is_private_and_a_failed_one_leaves_nothing() {
    use std::os::unix::fs::PermissionsExt as _;
    let (folder, fixture) = (tempfile::tempdir().unwrap(), Fixture::new(Folder::new()).await);
    let file = folder.path().join("backup.db");
    fixture.database.backup_to(&file).await.unwrap();
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(fixture.database.backup_to(&folder.path().join("nowhere/backup.db")).await.is_err());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_backup_that_a_shutdown_interrupts_leaves_nothing() {
    let (folder, data) = (tempfile::tempdir().unwrap(), Folder::new());
    let database = data.sqlite().await;
    data.execute(
        "CREATE TABLE many (number); CREATE INDEX many_by_number ON many (number); \
         WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 300000) \
         INSERT INTO many SELECT random() FROM numbers",
    )
    .await;
    let file = folder.path().join("backup.db");
    let backup = tokio::spawn({
        let (database, file) = (database.clone(), file.clone());
        async move { database.backup_to(&file).await }
    });
    while !file.exists() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    database.close(Instant::now()).await;
    assert_eq!(backup.await.unwrap().is_ok(), file.exists(), "half a backup was left");
}

#[tokio::test]
async fn a_search_after_going_back_to_a_backup_finds_what_was_in_it() {
    let (folder, fixture) = (tempfile::tempdir().unwrap(), Fixture::new(Folder::new()).await);
    let backup = folder.path().join("backup.db");
    let publish = async |description: &str| {
        let described = NewModel { description: description.to_owned(), ..model(MODEL, fixture.operator) };
        fixture.database.publish(&[described], Existing::Refresh).await.unwrap();
    };
    let found = async |text: &str| {
        let (caller, text) = (fixture.customer, Some(text.to_owned()));
        let (sort, now) = (Sort::Likes, Moment(0));
        let search = Search { caller, text, sort, filter: None, limit: 10, offset: 0, now };
        fixture.database.models(&search).await.unwrap().1
    };
    publish("as it was before").await;
    fixture.database.backup_to(&backup).await.unwrap();
    publish("as it is now").await;
    assert_eq!((found("before").await, found("now").await), (0, 1));
    fixture.database.replace_from(&backup).await.unwrap();
    assert_eq!((found("before").await, found("now").await), (1, 0));
}

#[tokio::test]
async fn a_copy_that_cannot_be_opened_leaves_the_checks_of_the_database_on() {
    let (folder, fixture) = (tempfile::tempdir().unwrap(), Fixture::new(Folder::new()).await);
    assert!(fixture.database.replace_from(folder.path()).await.is_err());
    let nobody = AccountId(99);
    assert!(fixture.database.add_member(fixture.customer, nobody).await.is_err(), "there is no such account");
}
