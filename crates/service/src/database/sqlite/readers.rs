//! Pool of reader connections. Each runs one query at a time, on a thread of the runtime's blocking pool.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::{Connection, InterruptHandle, OpenFlags};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout_at;

use super::session::Session;
use super::{SqliteDatabase, connect};
use crate::{Error, Result};

const INTERRUPT_INTERVAL: Duration = Duration::from_millis(10);

#[derive(Clone)]
pub(super) struct Readers {
    idle: Arc<Mutex<Vec<Session>>>,
    permits: Arc<Semaphore>,
    /// Permits of reads that may scan a whole table: half of the connections stay free for others.
    pub(super) scans: Arc<Semaphore>,
    interrupts: Arc<[InterruptHandle]>,
}

impl Readers {
    /// Opens one connection for each core, at least four, because a query may wait for the disk.
    pub(super) fn open(file: &Path) -> rusqlite::Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let count = cores.clamp(4, 16);
        let connections = (0..count).map(|_| connect(file, OpenFlags::SQLITE_OPEN_READ_ONLY));
        let idle = connections.collect::<Result<Vec<_>, _>>()?;
        let interrupts = idle.iter().map(Connection::get_interrupt_handle).collect();
        let idle = idle.into_iter().map(Session::new).collect();
        let permits = Arc::new(Semaphore::new(count));
        let scans = Arc::new(Semaphore::new(count / 2));
        Ok(Self { idle: Arc::new(Mutex::new(idle)), permits, scans, interrupts })
    }

    /// Closes the connections after the running queries; interrupts these at the deadline. Later queries fail.
    pub(super) async fn close(&self, deadline: Instant) {
        let all = u32::try_from(self.interrupts.len()).unwrap_or(u32::MAX);
        let mut ended = pin!(self.permits.acquire_many(all));
        let mut interrupt_at = deadline;
        let ended = loop {
            if let Ok(ended) = timeout_at(interrupt_at.into(), &mut ended).await {
                break ended;
            }
            self.interrupts.iter().for_each(InterruptHandle::interrupt);
            // Repeated, because a query may have been between two statements or waiting for a connection.
            interrupt_at = Instant::now() + INTERRUPT_INTERVAL;
        };
        if let Ok(_permits) = ended {
            self.permits.close();
            self.idle.lock().clear();
        }
    }
}

impl SqliteDatabase {
    pub(super) async fn scan<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let scan = Arc::clone(&self.readers.scans).acquire_owned().await.ok();
        self.read(move |db| {
            let _scan = scan;
            query(db)
        })
        .await
    }

    /// Runs a query on a reader connection. Several statements see a consistent snapshot only inside a transaction.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.read_in_session(move |session| query(&session.lock())).await
    }

    pub(super) async fn read_in_session<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let closed = || Error::new("reading the database", "it was closed");
        let permit = Arc::clone(&self.readers.permits).acquire_owned().await.map_err(|_| closed())?;
        let readers = self.readers.clone();
        let done = spawn_blocking(move || {
            // The permit is held until the connection is returned, even if the caller was dropped.
            let _permit = permit;
            let session = readers.idle.lock().pop().ok_or_else(closed)?;
            let queried = catch_unwind(AssertUnwindSafe(|| query(&session)));
            readers.idle.lock().push(session);
            queried.unwrap_or_else(|panic| resume_unwind(panic))
        });
        done.await.map_err(|cause| Error::new("reading the database", cause))?
    }
}
