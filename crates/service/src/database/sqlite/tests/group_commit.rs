//! Writes that share a commit do not share their failures.

use futures_util::future::join_all;
use sqlx::{Executor, SqliteConnection};

use super::super::SqliteDatabase;
use super::Fixture;
use crate::Error;

async fn note(tx: &mut SqliteConnection, name: &str) -> Result<(), Error> {
    sqlx::query("INSERT INTO settings VALUES (?, 'kept')").bind(name).execute(tx).await?;
    Ok(())
}

/// Writes a setting, and then fails if told to; `ROLLBACK` is what SQLite does by itself when the disk is
/// full.
async fn write(database: &SqliteDatabase, name: &str, then: Option<&'static str>) -> Result<(), Error> {
    let name = name.to_owned();
    database
        .together(move |tx| {
            Box::pin(async move {
                note(tx, &name).await?;
                let Some(sql) = then else { return Ok(()) };
                tx.execute(sql).await?;
                Err(Error::new("trying", "it was told to fail"))
            })
        })
        .await
}

async fn is_kept(database: &SqliteDatabase, name: &str) -> bool {
    database.setting(name).await.unwrap().is_some()
}

#[tokio::test]
async fn a_write_that_fails_is_undone_alone() {
    let Fixture { database, folder: _folder, .. } = Fixture::new(1).await;
    // As long as somebody else writes, they gather.
    let other = database.write().await.unwrap();
    let names: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    let writes = join_all(
        names
            .iter()
            .enumerate()
            .map(|(number, name)| write(&database, name, (number % 10 == 3).then_some("SELECT 1"))),
    );
    let (done, ()) = tokio::join!(writes, async { drop(other) });
    for (number, done) in done.into_iter().enumerate() {
        assert_eq!(done.is_ok(), number % 10 != 3);
        assert_eq!(is_kept(&database, &number.to_string()).await, number % 10 != 3, "{number}");
    }
}

#[tokio::test]
async fn nobody_is_told_that_a_write_was_done_whose_transaction_was_lost() {
    let Fixture { database, folder: _folder, .. } = Fixture::new(2).await;
    let other = database.write().await.unwrap();
    let lost = async {
        tokio::join!(
            write(&database, "one", None),
            write(&database, "two", Some("ROLLBACK")),
            write(&database, "three", None)
        )
    };
    let (lost, ()) = tokio::join!(lost, async { drop(other) });
    assert!(lost.0.is_err() && lost.1.is_err() && lost.2.is_err(), "{lost:?}");
    for name in ["one", "two", "three"] {
        assert!(!is_kept(&database, name).await, "{name}");
    }
    write(&database, "four", None).await.unwrap();
    assert!(is_kept(&database, "four").await);
}

#[tokio::test]
async fn a_write_is_done_though_whoever_wanted_it_has_gone() {
    let Fixture { database, folder: _folder, .. } = Fixture::new(3).await;
    let other = database.write().await.unwrap();
    {
        let mut gone = std::pin::pin!(write(&database, "gone", None));
        assert!(futures_util::poll!(&mut gone).is_pending());
    }
    let (stays, ()) = tokio::join!(write(&database, "stays", None), async { drop(other) });
    stays.unwrap();
    assert!(is_kept(&database, "gone").await && is_kept(&database, "stays").await);
}
