//! Writes that wait at the same time share one commit: what takes long is the disk, not the rows. Each is
//! answered only after the commit, and undone alone when it fails.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use sqlx::pool::PoolConnection;
use sqlx::{Connection, Executor, Sqlite, SqliteConnection};
use tokio::sync::oneshot;

use super::SqliteStore;
use crate::Error;

/// How many writes share a commit at most, so that whoever else writes does not wait long.
const MOST: usize = 64;

/// A write that waits for its turn.
type Job = Box<dyn for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Written> + Send>;

/// A write that was done, and is not committed yet.
struct Written {
    is_good: bool,
    answer: Answer,
}

/// Tells whoever waits for a write how its commit went.
type Answer = Box<dyn FnOnce(Result<(), Error>) + Send>;

/// The writes that wait, of all clones of a store.
#[derive(Clone, Default)]
pub(super) struct Waiting(Arc<Mutex<Line>>);

#[derive(Default)]
struct Line {
    jobs: Vec<Job>,
    /// Whether somebody sees to them.
    is_moving: bool,
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Waiting")
    }
}

impl Waiting {
    /// Adds a job to the line; true when nobody sees to it yet.
    fn push(&self, job: Job) -> bool {
        let mut line = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        line.jobs.push(job);
        !std::mem::replace(&mut line.is_moving, true)
    }

    /// Whether there is more to do. After a no, the next one to push has to see to it.
    fn goes_on(&self) -> bool {
        let mut line = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        line.is_moving = !line.jobs.is_empty();
        line.is_moving
    }

    fn next(&self) -> Vec<Job> {
        let mut line = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = line.jobs.len().min(MOST);
        line.jobs.drain(..count).collect()
    }
}

impl SqliteStore {
    /// Does the work inside a transaction that it may share with others, and returns what came of it once
    /// that is committed. Nothing of it stays when it fails.
    pub(super) async fn together<T: Send + 'static>(
        &self,
        work: impl for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let (sender, receiver) = oneshot::channel();
        let job: Job = Box::new(move |tx| {
            Box::pin(async move {
                let done = work(tx).await;
                let is_good = done.is_ok();
                // Whoever has gone away meanwhile does not wait for the answer.
                let answer = Box::new(move |committed: Result<(), Error>| {
                    let _ = sender.send(committed.and(done));
                });
                Written { is_good, answer }
            })
        });
        if self.waiting.push(job) {
            // On a task of its own: a caller that goes away must not take the others along.
            tokio::spawn(move_on(self.clone()));
        }
        let lost = |_| Err(Error::new("writing to the database", "it is too busy, or it was closed"));
        receiver.await.unwrap_or_else(lost)
    }
}

/// Does what waits, until nothing does.
async fn move_on(store: SqliteStore) {
    while store.waiting.goes_on() {
        // While this waits for its turn to write, more may come.
        let writer = store.writer.acquire().await;
        let jobs = store.waiting.next();
        match writer {
            Ok(writer) => share(writer, jobs).await,
            // Dropping the jobs tells those who wait for them.
            Err(cause) => tracing::error!(%cause, "no transaction could be begun"),
        }
    }
}

/// Does the jobs in one transaction, and tells each how it went.
async fn share(mut writer: PoolConnection<Sqlite>, jobs: Vec<Job>) {
    let mut answers = Vec::new();
    let done = match writer.begin_with("BEGIN IMMEDIATE").await {
        Ok(mut tx) => match all(&mut tx, jobs, &mut answers).await {
            Ok(()) => tx.commit().await,
            lost => lost,
        },
        Err(cause) => Err(cause),
    };
    if done.is_err() {
        // Whatever it is in the middle of, the next one is not.
        writer.close_on_drop();
    }
    let failure = done.err().map(|cause| cause.to_string());
    for answer in answers {
        let failure = failure.clone().map(|cause| Error::new("committing a write", cause));
        answer(failure.map_or(Ok(()), Err));
    }
}

/// Does each job in a savepoint of its own. Fails when the transaction as a whole is lost.
async fn all(tx: &mut SqliteConnection, jobs: Vec<Job>, answers: &mut Vec<Answer>) -> sqlx::Result<()> {
    for job in jobs {
        tx.execute("SAVEPOINT job").await?;
        let Written { is_good, answer } = job(tx).await;
        answers.push(answer);
        if !is_good {
            // Fails when the database has given up the whole transaction by itself.
            tx.execute("ROLLBACK TO job").await?;
        }
        tx.execute("RELEASE job").await?;
    }
    Ok(())
}
