//! Databases that older versions have written are opened and brought up to date.

use rusqlite::Connection;

use super::super::{SCHEMA, SqliteDatabase};
use super::{Durability, Folder};
use crate::accounts::{AccountId, Accounts as _};
use crate::ledger::Ledger as _;
use crate::object_storage::Files as _;
use crate::queue::Queue as _;

#[tokio::test]
async fn a_database_of_any_older_version_keeps_its_rows() {
    for version in 1..SCHEMA.len() {
        let folder = Folder::new();
        let old = Connection::open(folder.file()).unwrap();
        for sql in &SCHEMA[..version] {
            old.execute_batch(sql).unwrap();
        }
        old.pragma_update(None, "user_version", i64::try_from(version).unwrap()).unwrap();
        old.execute_batch(
            "INSERT INTO accounts (id, username, scope, wallet_address, bucket, created_at, metered_at, \
             stored_bytes) VALUES (1, 'anna', 'personal', '0x', 'files', 0, 0, 7); \
             INSERT INTO objects (id, bucket, key, owner, folder, category, mime, size, etag, blob, created_at) \
             VALUES ('i', 'files', 'covers/a.png', 1, 'covers', 'image', 'image/png', 7, 'e', 'b', 0);",
        )
        .unwrap();
        // As versions before the ninth left them, which counted deleted tasks.
        if version < 9 {
            old.execute_batch("UPDATE task_counts SET tasks = 7 WHERE status = 'success'").unwrap();
        }
        if version >= 4 {
            old.execute_batch("UPDATE objects SET payer = owner").unwrap();
        }
        drop(old);
        let database = folder.sqlite().await;
        assert_eq!(database.account("anna").await.unwrap().unwrap().id, AccountId(1));
        let (files, total) = database.files(AccountId(1), "covers", None, 1, 10).await.unwrap();
        assert_eq!((files[0].key.as_str(), total), ("covers/a.png", 1));
        assert_eq!(database.audit().await.unwrap().faults, Vec::<String>::new());
        assert!(database.depths().await.unwrap().iter().all(|(_, tasks)| *tasks == 0));
    }
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_refused() {
    let folder = Folder::new();
    let file = folder.file();
    Connection::open(&file).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let refused = SqliteDatabase::open(&file, Durability::None).await.err().unwrap().to_string();
    assert!(refused.contains("newer version of the service (schema 99"), "{refused}");
}
