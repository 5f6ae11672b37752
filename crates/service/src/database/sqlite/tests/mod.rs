//! Tests of SQLite: conformance, and properties of this engine, with a real file.

#![expect(clippy::unwrap_used, reason = "a test may end when its set-up fails")]

mod backup;
mod cache;
mod checkpoints;
mod closing;
mod group_commit;
mod locks;
mod plans;
mod sessions;
mod upgrade;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;

use super::SqliteDatabase;
use crate::database::conformance::{Engine, conformance};
use crate::database::{Database, Durability};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("test.db")
    }

    async fn sqlite(&self) -> SqliteDatabase {
        SqliteDatabase::open(&self.file(), Durability::None).await.unwrap()
    }
}

#[async_trait]
impl Engine for Folder {
    fn another(&self) -> Self {
        Self::new()
    }

    async fn open(&self) -> Arc<dyn Database> {
        Arc::new(self.sqlite().await)
    }

    async fn execute(&self, sql: &str) {
        rusqlite::Connection::open(self.file()).unwrap().execute_batch(sql).unwrap();
    }
}

conformance!(cfg(test), crate::database::sqlite::tests::Folder::new());

#[test]
fn a_failure_of_sqlite_says_what_to_do() {
    use rusqlite::ffi;
    let of = |code| super::failure("writing", rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
    let full = [
        ffi::SQLITE_FULL,
        ffi::SQLITE_IOERR_WRITE,
        ffi::SQLITE_IOERR_FSYNC,
        ffi::SQLITE_IOERR_TRUNCATE,
        ffi::SQLITE_IOERR_SHMSIZE,
    ];
    for code in full {
        assert!(of(code).is_of_the_disk() && of(code).to_string().contains("make room"), "{}", of(code));
    }
    for code in [ffi::SQLITE_PERM, ffi::SQLITE_READONLY_DBMOVED, ffi::SQLITE_CANTOPEN_ISDIR] {
        assert!(of(code).is_of_the_disk() && of(code).to_string().contains("let the user"), "{}", of(code));
    }
    let not_opened = of(ffi::SQLITE_CANTOPEN).to_string();
    assert!(not_opened.contains("shorter path") && not_opened.contains("more files"), "{not_opened}");
    for code in [ffi::SQLITE_BUSY_SNAPSHOT, ffi::SQLITE_LOCKED] {
        assert!(of(code).is_unavailable() && of(code).hint().is_some_and(|hint| hint.contains("locked")));
    }
    for code in [ffi::SQLITE_CORRUPT_INDEX, ffi::SQLITE_NOTADB] {
        assert!(of(code).hint().is_some_and(|hint| hint.contains("damaged")));
    }
    let other = of(ffi::SQLITE_CONSTRAINT_UNIQUE);
    assert!(!other.is_of_the_disk() && !other.is_unavailable() && other.hint().is_none());
}
