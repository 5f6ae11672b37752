//! Checkpoints: the write-ahead log moves into the file, and long reads do not stop writes.

use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};

use super::super::checkpoints::{LOCK_TIMEOUT, MAX_PAGES, checkpoint};
use super::super::connect;
use super::super::statements::Statements as _;
use super::Folder;
use crate::database::Settings as _;

fn checkpointer(folder: &Folder) -> Connection {
    let db = connect(&folder.file(), OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap();
    db.busy_timeout(LOCK_TIMEOUT).unwrap();
    db
}

#[tokio::test]
async fn what_was_committed_is_in_the_file_after_a_checkpoint() {
    let folder = Folder::new();
    let database = folder.sqlite().await;
    database.setting_or("name", "value").await.unwrap();
    checkpoint(&checkpointer(&folder)).unwrap();
    let copy = folder.0.path().join("copy.db");
    std::fs::copy(folder.file(), &copy).unwrap();
    assert!(Connection::open(copy).unwrap().is_there("SELECT 1 FROM settings", []).unwrap());
}

#[tokio::test]
async fn no_write_waits_for_a_checkpoint_of_its_own() {
    let folder = Folder::new();
    let database = folder.sqlite().await;
    let pages =
        database.write(|db| Ok(db.one("PRAGMA wal_autocheckpoint", [], |row| row.get::<i64>(0))?)).await;
    assert_eq!(pages.unwrap(), 0);
}

#[tokio::test]
async fn a_long_read_beside_a_long_log_makes_no_write_wait_for_its_end() {
    let folder = Folder::new();
    let database = folder.sqlite().await;
    let reader = connect(&folder.file(), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let snapshot = reader.unchecked_transaction().unwrap();
    assert!(!snapshot.is_there("SELECT 1 FROM settings", []).unwrap());
    let bytes = 4096 * (MAX_PAGES + 1);
    let fill = "INSERT INTO settings VALUES ('large', CAST(zeroblob(?) AS TEXT))";
    database.write(move |db| Ok(db.run(fill, [bytes])?)).await.unwrap();
    let checkpoints = tokio::task::spawn_blocking({
        let db = checkpointer(&folder);
        move || checkpoint(&db).unwrap()
    });
    let begun = Instant::now();
    for number in 0..5 {
        database.setting_or(&number.to_string(), "value").await.unwrap();
    }
    checkpoints.await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(20), "a write waited for a read");
    drop(snapshot);
    checkpoint(&checkpointer(&folder)).unwrap();
}
