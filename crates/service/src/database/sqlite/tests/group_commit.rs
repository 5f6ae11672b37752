//! Group commit: writes that share a commit do not share their failures.

use std::sync::mpsc;
use std::time::Instant;

use futures_util::future::join_all;
use rusqlite::Connection;

use super::super::SqliteDatabase;
use super::super::statements::Statements as _;
use super::Folder;
use crate::Error;
use crate::database::Maintenance as _;

#[derive(Clone, Copy)]
enum Then {
    Succeed,
    Fail,
    Panic,
    /// Rolls back the transaction, as SQLite does by itself if the disk is full.
    LoseTransaction,
}

fn note(db: &Connection, name: &str, then: Then) -> Result<(), Error> {
    db.run("INSERT INTO settings VALUES (?, 'kept')", [name])?;
    match then {
        Then::Succeed => return Ok(()),
        Then::Fail => {}
        Then::Panic => std::panic::resume_unwind(Box::new("it had to")),
        Then::LoseTransaction => db.execute_batch("ROLLBACK")?,
    }
    Err(Error::new("trying", "it had to fail"))
}

async fn write(database: &SqliteDatabase, name: &str, then: Then) -> Result<(), Error> {
    let name = name.to_owned();
    database.write(move |db| note(db, &name, then)).await
}

async fn is_kept(database: &SqliteDatabase, name: &str) -> bool {
    let (select, name) = ("SELECT 1 FROM settings WHERE name = ?", name.to_owned());
    database.read(move |db| Ok(db.is_there(select, [name])?)).await.unwrap()
}

pub(super) async fn occupy(database: &SqliteDatabase) -> mpsc::Sender<()> {
    let (end, ended) = mpsc::channel::<()>();
    let mut busy = std::pin::pin!(database.exclusively(move |_| Ok(ended.recv().is_ok())));
    assert!(futures_util::poll!(&mut busy).is_pending());
    end
}

#[tokio::test]
async fn a_write_that_fails_or_panics_is_undone_alone() {
    let folder = Folder::new();
    let database = folder.sqlite().await;
    let busy = occupy(&database).await;
    let names: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    let then = |number: usize| match number % 10 {
        3 => Then::Fail,
        7 => Then::Panic,
        _ => Then::Succeed,
    };
    let writes = names.iter().enumerate().map(|(number, name)| write(&database, name, then(number)));
    let (done, ()) = tokio::join!(join_all(writes), async { drop(busy) });
    for (number, done) in done.into_iter().enumerate() {
        let succeeds = matches!(then(number), Then::Succeed);
        assert_eq!(done.is_ok(), succeeds);
        assert_eq!(is_kept(&database, &number.to_string()).await, succeeds, "{number}");
    }
}

#[tokio::test]
async fn every_write_of_a_lost_transaction_fails_and_the_next_one_succeeds() {
    let folder = Folder::new();
    let database = folder.sqlite().await;
    let busy = occupy(&database).await;
    let lost = async {
        tokio::join!(
            write(&database, "one", Then::Succeed),
            write(&database, "two", Then::LoseTransaction),
            write(&database, "three", Then::Succeed)
        )
    };
    let (lost, ()) = tokio::join!(lost, async { drop(busy) });
    for lost in [lost.0, lost.1, lost.2] {
        // Each write fails with the error of the one that lost the transaction, so that a full disk is reported as one.
        assert_eq!(lost.unwrap_err().to_string(), "trying failed: it had to fail");
    }
    for name in ["one", "two", "three"] {
        assert!(!is_kept(&database, name).await, "{name}");
    }
    write(&database, "four", Then::Succeed).await.unwrap();
    assert!(is_kept(&database, "four").await);
}

#[tokio::test]
async fn a_write_is_done_though_its_caller_has_gone() {
    let folder = Folder::new();
    let database = folder.sqlite().await;
    let busy = occupy(&database).await;
    {
        let mut gone = std::pin::pin!(write(&database, "gone", Then::Succeed));
        assert!(futures_util::poll!(&mut gone).is_pending());
    }
    let (stays, ()) = tokio::join!(write(&database, "stays", Then::Succeed), async { drop(busy) });
    stays.unwrap();
    assert!(is_kept(&database, "gone").await && is_kept(&database, "stays").await);
}

#[tokio::test]
async fn a_query_that_panics_leaves_its_connection_to_the_next_one() {
    let folder = Folder::new();
    let database = folder.sqlite().await;
    for _ in 0..50 {
        let panicked = database.read::<()>(|_| std::panic::resume_unwind(Box::new("it had to"))).await;
        assert!(panicked.is_err());
    }
    assert!(!is_kept(&database, "anything").await);
}

#[tokio::test]
async fn a_database_that_was_closed_refuses_and_keeps_what_was_written() {
    let folder = Folder::new();
    let database = folder.sqlite().await;
    write(&database, "before", Then::Succeed).await.unwrap();
    database.check_writer().await.unwrap();
    database.close(Instant::now()).await;
    database.close(Instant::now()).await;
    assert!(write(&database, "after", Then::Succeed).await.is_err());
    assert!(database.check_writer().await.is_err());
    assert!(database.read(|_| Ok(())).await.is_err());
    assert!(!folder.0.path().join("test.db-wal").exists(), "the log was not moved into the file");
    assert!(is_kept(&folder.sqlite().await, "before").await);
}
