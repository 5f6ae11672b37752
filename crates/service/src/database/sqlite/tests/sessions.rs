//! Shared work in SQLite: its parameters, and work that would wait.

use super::Folder;
use crate::Error;
use crate::database::engine::{Engine as _, How, Rows as _, params};
use crate::database::records::pair;

#[tokio::test]
async fn parameters_are_bound_by_their_numbers_in_any_order() -> Result<(), Error> {
    let folder = Folder::new();
    let database = folder.sqlite().await;
    let select = "SELECT $2 + 0, $1 || $2";
    let swapped: (i64, String) = database.one(select, params!["first", 2], pair).await?;
    assert_eq!(swapped, (2, "first2".to_owned()));
    let refused = database.is_there("SELECT 1 WHERE $2 = 1", params![1]).await;
    assert!(refused.is_err(), "a parameter is missing");
    Ok(())
}

#[tokio::test]
async fn work_that_would_wait_fails_without_effect_and_the_writer_continues() -> Result<(), Error> {
    let folder = Folder::new();
    let database = folder.sqlite().await;
    let waited: Result<(), Error> = database
        .perform(How::Transaction, (), |db, ()| {
            Box::pin(async move {
                db.run("INSERT INTO settings VALUES ('one', '')", params![]).await?;
                std::future::pending().await
            })
        })
        .await;
    assert!(waited.is_err());
    database.run("INSERT INTO settings VALUES ('two', '')", params![]).await?;
    assert!(!database.is_there("SELECT 1 FROM settings WHERE name = 'one'", params![]).await?);
    Ok(())
}
