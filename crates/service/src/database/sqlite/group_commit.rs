//! Writes that wait at the same time share one commit: what takes long is the disk, not the rows. Each is
//! answered only after the commit, and undone alone when it fails.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use sqlx::{Executor, SqliteConnection};
use tokio::sync::oneshot;

use super::SqliteDatabase;
use crate::Error;

/// How many writes share a commit at most, so that whoever else writes does not wait long.
const MOST: usize = 64;

/// A write that waits for its turn.
struct Job {
    work: Work,
    answer: Answer,
}

/// Writes inside a transaction, and says how that went.
type Work = Box<dyn for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<(), Error>> + Send>;

/// Tells whoever waits for a write how its commit went, and what came of it.
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

impl SqliteDatabase {
    /// Does the work inside a transaction that it may share with others, and returns what came of it once
    /// that is committed. Nothing of it stays when it fails.
    pub(super) async fn together<T: Send + 'static>(
        &self,
        work: impl for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let (answer, answered) = oneshot::channel();
        let (done, mut what_came) = oneshot::channel();
        let work: Work = Box::new(move |tx| {
            Box::pin(async move {
                let result = work(tx).await;
                let went = result.as_ref().map(drop).map_err(Error::again);
                // Whoever has gone away meanwhile does not wait for it.
                let _ = done.send(result);
                went
            })
        });
        let lost = || Error::new("writing to the database", "it is too busy, or it was closed");
        let answer = Box::new(move |committed: Result<(), Error>| {
            let result = committed.and_then(|()| what_came.try_recv().unwrap_or_else(|_| Err(lost())));
            let _ = answer.send(result);
        });
        if self.waiting.push(Job { work, answer }) {
            // On a task of its own: a caller that goes away must not take the others along.
            tokio::spawn(move_on(self.clone()));
        }
        answered.await.unwrap_or_else(|_| Err(lost()))
    }
}

/// Does what waits, until nothing does.
async fn move_on(database: SqliteDatabase) {
    while database.waiting.goes_on() {
        // While this waits for its turn to write, more may come.
        let begun = database.write().await;
        let jobs = database.waiting.next();
        let (works, answers): (Vec<_>, Vec<_>) = jobs.into_iter().map(|job| (job.work, job.answer)).unzip();
        let committed = match begun {
            Ok(mut tx) => match all(&mut tx, works).await {
                Ok(()) => tx.commit().await.map_err(Error::from),
                Err(cause) => Err(cause),
            },
            Err(cause) => Err(cause),
        };
        for answer in answers {
            answer(committed.as_ref().copied().map_err(Error::again));
        }
    }
}

/// Does each work in a savepoint of its own. Fails when the transaction as a whole is lost.
async fn all(tx: &mut SqliteConnection, works: Vec<Work>) -> Result<(), Error> {
    for work in works {
        tx.execute("SAVEPOINT job").await?;
        if let Err(cause) = work(tx).await {
            // Fails when the database has given up the whole transaction by itself, for the same cause.
            tx.execute("ROLLBACK TO job").await.map_err(|_| cause)?;
        }
        tx.execute("RELEASE job").await?;
    }
    Ok(())
}
