//! SQLite as an engine: conformance, and what is SQLite's own, tried on a real file.

#![expect(clippy::unwrap_used, reason = "a test may end when its set-up fails")]

mod backup;
mod cache;
mod checkpoints;
mod closing;
mod group_commit;
mod locks;
mod plans;
mod upgrade;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;

use super::SqliteDatabase;
use crate::database::conformance::{Engine, conformance};
use crate::database::{Database, Durability};

/// A folder with a database, which goes with it.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("test.db")
    }

    /// The database as what it is.
    async fn sqlite(&self) -> SqliteDatabase {
        SqliteDatabase::open(&self.file(), Durability::None).await.unwrap()
    }
}

#[async_trait]
impl Engine for Folder {
    async fn open(&self) -> Arc<dyn Database> {
        Arc::new(self.sqlite().await)
    }

    async fn execute(&self, sql: &str) {
        rusqlite::Connection::open(self.file()).unwrap().execute_batch(sql).unwrap();
    }
}

conformance!(crate::database::sqlite::tests::Folder::new());
