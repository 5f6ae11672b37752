//! Shutdown of the database during reads.

use std::pin::pin;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use futures_util::poll;
use tokio::sync::oneshot;

use super::super::statements::Statements as _;
use super::Folder;
use crate::database::Maintenance as _;
use crate::database::records::column;

const LONG: &str = "WITH RECURSIVE numbers (n) AS ( \
     SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1000000000) SELECT count(*) FROM numbers";

const READS: usize = 40;

const TIMEOUT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn reads_that_still_run_at_the_deadline_fail_and_the_database_is_closed() {
    let folder = Folder::new();
    let database = folder.sqlite().await;
    let (begin, begun) = oneshot::channel();
    let mut begin = Some(begin);
    let reads = (0..READS).map(|_| {
        let begin = begin.take();
        let database = database.clone();
        tokio::spawn(async move {
            let read = database.read(move |db| {
                if let Some(begin) = begin {
                    let _ = begin.send(());
                }
                let first = db.one(LONG, [], column::<i64>);
                assert!(first.is_err());
                Ok(db.one(LONG, [], column::<i64>)?)
            });
            read.await
        })
    });
    let reads: Vec<_> = reads.collect();
    begun.await.unwrap();
    tokio::time::timeout(TIMEOUT, database.close(Instant::now())).await.unwrap();
    for read in join_all(reads).await {
        assert!(read.unwrap().is_err());
    }
}

#[tokio::test]
async fn reads_that_end_before_the_deadline_are_waited_for() {
    let folder = Folder::new();
    let database = folder.sqlite().await;
    let (begin, begun) = oneshot::channel();
    let (end, ended) = mpsc::channel();
    let read = tokio::spawn({
        let database = database.clone();
        async move {
            let read = database.read(move |db| {
                let _ = begin.send(());
                let _ = ended.recv();
                Ok(db.one("SELECT 7", [], column::<i64>)?)
            });
            read.await
        }
    });
    begun.await.unwrap();
    let mut close = pin!(database.close(Instant::now() + TIMEOUT));
    assert!(poll!(&mut close).is_pending(), "the database is closed during a read");
    end.send(()).unwrap();
    close.await;
    assert_eq!(read.await.unwrap().unwrap(), 7);
}
