//! Connections that read, each used by one query at a time on a thread of the runtime's blocking pool.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OpenFlags};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::{SqliteDatabase, connect};
use crate::{Error, Result};

/// The connections that read. Clones share them.
#[derive(Clone)]
pub(super) struct Readers {
    idle: Arc<Mutex<Vec<Connection>>>,
    /// One permit for each connection.
    permits: Arc<Semaphore>,
    count: usize,
}

impl Readers {
    /// Opens as many connections as there are cores, and a few at least: a query may wait for the disk.
    pub(super) fn open(file: &Path) -> rusqlite::Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let count = cores.clamp(4, 16);
        let connections = (0..count).map(|_| connect(file, OpenFlags::SQLITE_OPEN_READ_ONLY));
        let idle = connections.collect::<Result<_, _>>()?;
        let permits = Arc::new(Semaphore::new(count));
        Ok(Self { idle: Arc::new(Mutex::new(idle)), permits, count })
    }

    /// Closes the connections when the queries that run have ended. Later queries fail.
    pub(super) async fn close(&self) {
        let all = u32::try_from(self.count).unwrap_or(u32::MAX);
        if let Ok(_permits) = self.permits.acquire_many(all).await {
            self.permits.close();
            self.lock().clear();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Reader<'_>> {
        let connection = self.lock().pop()?;
        Some(Reader { readers: self, connection: Some(connection) })
    }
}

/// A connection that goes back to the others when it is dropped, also by a panic.
struct Reader<'a> {
    readers: &'a Readers,
    connection: Option<Connection>,
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.readers.lock().extend(self.connection.take());
    }
}

impl SqliteDatabase {
    /// Runs a query on a connection that reads. Its statements see one moment only inside a transaction.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let closed = || Error::new("reading the database", "it was closed");
        let permit = Arc::clone(&self.readers.permits).acquire_owned().await.map_err(|_| closed())?;
        let readers = self.readers.clone();
        let done = spawn_blocking(move || {
            // Held until the connection is back, also when the caller has gone away.
            let _permit = permit;
            let reader = readers.take().ok_or_else(closed)?;
            reader.connection.as_ref().map_or_else(|| Err(closed()), query)
        });
        done.await.map_err(|cause| Error::new("reading the database", cause))?
    }
}
