//! Group commit: concurrent writes share one transaction and fsync, each in a savepoint; responses follow the commit.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::SqliteDatabase;
use super::checkpoints::Checkpoints;
use super::session::Session;
use super::statements::Statements as _;
use crate::{Error, Result};

/// Maximum number of writes in one commit, so that the first of them does not wait long.
pub(super) const MAX_BATCH: usize = 64;

enum Job {
    Write(Write),
    Exclusive(Box<dyn FnOnce(&Connection) + Send>),
}

/// Writes inside a transaction, or receives the error by which the transaction was lost.
type Write = Box<dyn FnOnce(Result<&Session, &Error>) -> Written + Send>;

type Respond = Box<dyn FnOnce(Option<&Error>)>;

struct Written {
    failure: Option<Error>,
    respond: Respond,
}

#[derive(Clone)]
pub(super) struct Writer {
    jobs: Arc<Mutex<Option<Sender<Job>>>>,
    closed: Arc<Mutex<Option<oneshot::Receiver<()>>>>,
    #[cfg(test)]
    pub(super) commits: Arc<std::sync::atomic::AtomicUsize>,
}

impl Writer {
    pub(super) fn spawn(session: Session, checkpoints: Checkpoints) -> Result<Self> {
        let (jobs, waiting) = channel();
        let (on_close, closed) = oneshot::channel();
        #[cfg(test)]
        let commits = Arc::<std::sync::atomic::AtomicUsize>::default();
        #[cfg(test)]
        let counted = Arc::clone(&commits);
        let committed = move || {
            #[cfg(test)]
            counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        };
        let run = move || {
            run(&session, &waiting, committed);
            drop(checkpoints);
            drop(session);
            let _ = on_close.send(());
        };
        let spawned = thread::Builder::new().name("database".to_owned()).spawn(run);
        spawned.map_err(|cause| Error::new("starting the thread of the database", cause))?;
        let closed = Arc::new(Mutex::new(Some(closed)));
        Ok(Self {
            jobs: Arc::new(Mutex::new(Some(jobs))),
            closed,
            #[cfg(test)]
            commits,
        })
    }

    fn send(&self, job: Job) -> Result<()> {
        let jobs = self.jobs.lock();
        let sent = jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        if sent { Ok(()) } else { Err(lost()) }
    }

    pub(super) async fn close(&self) {
        self.jobs.lock().take();
        let closed = self.closed.lock().take();
        if let Some(closed) = closed {
            let _ = closed.await;
        }
    }
}

fn lost() -> Error {
    Error::new("writing to the database", "it was closed")
}

impl SqliteDatabase {
    /// Runs a write, even for a dropped caller, until after the commit. A failed or panicked write changes nothing.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.write_in_session(move |session| work(&session.lock())).await
    }

    pub(super) async fn write_in_session<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (respond, response) = oneshot::channel();
        self.writer.send(Job::Write(Box::new(move |transaction| {
            let result = match transaction {
                Ok(session) => guarded(|| work(session)),
                Err(cause) => Err(cause.again()),
            };
            let failure = result.as_ref().err().map(Error::again);
            let respond = move |failed: Option<&Error>| {
                let result = failed.map_or(result, |cause| Err(cause.again()));
                let _ = respond.send(result);
            };
            Written { failure, respond: Box::new(respond) }
        })))?;
        response.await.unwrap_or_else(|_| Err(lost()))
    }

    pub(super) async fn exclusively<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (respond, response) = oneshot::channel();
        self.writer.send(Job::Exclusive(Box::new(move |db| {
            let _ = respond.send(guarded(|| work(db)));
        })))?;
        response.await.unwrap_or_else(|_| Err(lost()))
    }
}

/// Catches a panic, so that only its write fails: SQLite's state does not depend on the service's.
fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    let panicked = |_| Err(Error::new("writing to the database", "the service has a defect: it panicked"));
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(panicked)
}

/// Commits writes that arrived during the last commit, and waits for no others: a lone write takes only its own fsync.
fn run(session: &Session, jobs: &Receiver<Job>, committed: impl Fn()) {
    while let Ok(job) = jobs.recv() {
        let mut next = Some(job);
        let mut batch = Vec::new();
        while let Some(Job::Write(write)) = next {
            batch.push(write);
            next = if batch.len() < MAX_BATCH { jobs.try_recv().ok() } else { None };
        }
        commit(session, batch);
        committed();
        if let Some(Job::Exclusive(work)) = next {
            work(&session.lock());
        }
    }
}

/// Commits a batch of writes. A write that fails is rolled back alone. If the transaction is lost (`BEGIN` or `COMMIT`
/// fails, or SQLite rolls back because the disk is full), all writes of the batch fail with the same error. Responses
/// follow the commit, because an acknowledged write survives a power loss.
fn commit(session: &Session, batch: Vec<Write>) {
    debug_assert!(session.lock().is_autocommit(), "a group commit begins inside of another transaction");
    debug_assert!(batch.len() <= MAX_BATCH, "a group commit has more writes than its limit");
    let mut responses = Vec::with_capacity(batch.len());
    let mut lost = session.lock().run("BEGIN IMMEDIATE", []).err().map(Error::from);
    for write in batch {
        let written = in_savepoint(session, write, &mut lost);
        responses.push(written.respond);
    }
    let db = session.lock();
    if lost.is_none() {
        lost = db.run("COMMIT", []).err().map(Error::from);
    }
    // SQLite rolls some failed transactions back by itself, and leaves others open.
    if !db.is_autocommit() {
        let _ = db.run("ROLLBACK", []);
    }
    debug_assert!(db.is_autocommit(), "a group commit leaves its transaction open");
    drop(db);
    for respond in responses {
        respond(lost.as_ref());
    }
}

/// Runs a write in a savepoint, so that it can be undone alone. Sets `lost` if the whole transaction is lost.
fn in_savepoint(session: &Session, write: Write, lost: &mut Option<Error>) -> Written {
    if lost.is_none() {
        *lost = session.lock().run("SAVEPOINT write", []).err().map(Error::from);
    }
    let mut written = write(lost.as_ref().map_or(Ok(session), Err));
    if lost.is_none() {
        let db = session.lock();
        let undone = if written.failure.is_none() { Ok(0) } else { db.run("ROLLBACK TO write", []) };
        let ended = undone.and_then(|_| db.run("RELEASE write", []));
        // SQLite rolls back the transaction by itself if the disk is full: the other writes fail with this error.
        *lost = ended.err().map(|cause| written.failure.take().unwrap_or_else(|| cause.into()));
    }
    written
}
