//! Locks of other programs on the file, data on the disk, and an audit of damaged rows.

use std::time::Duration;

use rusqlite::Connection;

use super::super::SqliteDatabase;
use super::Folder;
use crate::accounts::Accounts as _;
use crate::clock::Moment;
use crate::database::conformance::{Engine as _, File, Fixture};
use crate::database::{Durability, Maintenance as _};
#[cfg(debug_assertions)]
use crate::ledger::{Credit, Money};

#[tokio::test]
async fn a_write_that_another_program_does_not_let_begin_may_be_tried_again() {
    let folder = Folder::new();
    let database = folder.sqlite().await;
    let no_wait = database.exclusively(|db| Ok(db.busy_timeout(Duration::ZERO)?));
    no_wait.await.unwrap();
    let other = Connection::open(folder.file()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = database.check_writer().await.unwrap_err();
    assert!(refused.is_unavailable(), "{refused}");
    assert!(database.account("absent").await.unwrap().is_none(), "reads go on");
    other.execute_batch("ROLLBACK").unwrap();
    database.check_writer().await.unwrap();
}

#[tokio::test]
async fn a_commit_reaches_the_disk_also_where_a_sync_alone_ends_in_its_cache() {
    for (durability, synchronous, is_full) in [(Durability::Full, 2, 1), (Durability::None, 0, 0)] {
        let folder = Folder::new();
        let database = SqliteDatabase::open(&folder.file(), durability).await.unwrap();
        let read = database.exclusively(|db| {
            let read = |pragma| db.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
            Ok([read("synchronous")?, read("fullfsync")?, read("checkpoint_fullfsync")?])
        });
        assert_eq!(read.await.unwrap(), [synchronous, is_full, is_full]);
    }
}

#[tokio::test]
async fn an_audit_finds_wrong_usage_and_queued_tasks_without_a_turn() {
    let fixture = Fixture::new(Folder::new()).await;
    fixture.upload(fixture.customer, fixture.customer, &File::of_size(3), Moment(0)).await;
    fixture.create(fixture.customer, u32::MAX).await;
    fixture.engine.execute("UPDATE folder_usage SET bytes = 4; DELETE FROM turns").await;
    let faults = fixture.database.audit().await.unwrap().faults;
    assert_eq!(
        faults,
        [
            "samples/text of account 2: the usage of a folder is not that of its files; 4 is kept, 3 was computed",
            "account 2: queued tasks have no turn, so they are never claimed; 0 is kept, 1 was computed",
        ]
    );
}

#[tokio::test]
#[cfg(debug_assertions)]
async fn a_negative_purse_fails_the_write_that_finds_it() {
    let fixture = Fixture::new(Folder::new()).await;
    let credit = Credit::Free(Money::from_smallest(1));
    fixture.database.credit(fixture.customer, credit, Moment(0)).await.unwrap();
    let damage = "PRAGMA ignore_check_constraints = true; UPDATE purses SET amount = -5 WHERE purse = 'free'";
    fixture.engine.execute(damage).await;
    let failed = fixture.database.credit(fixture.customer, credit, Moment(0)).await.unwrap_err();
    assert!(failed.to_string().contains("the service has a defect"), "{failed}");
}
