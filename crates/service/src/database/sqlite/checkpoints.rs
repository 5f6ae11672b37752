//! Checkpoints of the write-ahead log, on their own thread: no write waits until pages are copied to the database file.

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::statements::Statements as _;
use super::{connect, set_synchronous};
use crate::database::Durability;
use crate::{Error, Result};

const INTERVAL: Duration = Duration::from_secs(1);

/// Maximum length of the log in pages of 4 KiB. Above, writes wait for readers, so that the log can restart.
pub(super) const MAX_PAGES: i64 = 16_384;

/// Maximum time for which a checkpoint makes writes wait for readers.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_millis(100);

/// Maximum size of the log file in bytes after the log has restarted.
const MAX_IDLE_LOG: i64 = 16 << 20;

pub(super) struct Checkpoints {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpoints {
    pub(super) fn spawn(file: &Path, durability: Durability) -> Result<Self> {
        let db = connect(file, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        set_synchronous(&db, durability)?;
        db.busy_timeout(LOCK_TIMEOUT)?;
        let (stop, stopped) = channel::<()>();
        let run = move || {
            let mut is_failing = false;
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let failed = checkpoint(&db).err();
                if let Some(cause) = failed.as_ref().filter(|_| !is_failing) {
                    tracing::warn!(%cause, "the log of the database could not be moved into its file");
                }
                is_failing = failed.is_some();
            }
        };
        let thread = thread::Builder::new().name("checkpoints".to_owned()).spawn(run);
        let thread = thread.map_err(|cause| Error::new("starting the thread of checkpoints", cause))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub(super) fn configure_writer(writer: &Connection) -> rusqlite::Result<()> {
    writer.pragma_update(None, "wal_autocheckpoint", 0)?;
    writer.pragma_update(None, "journal_size_limit", MAX_IDLE_LOG)
}

pub(super) fn checkpoint(db: &Connection) -> rusqlite::Result<()> {
    // Does nothing without a commit since the last checkpoint.
    let log: i64 = db.one("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(1))?;
    if log > MAX_PAGES {
        // Overlapping reads keep the log growing. The restart waits for short reads, but not for a long backup.
        db.one("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()))?;
    }
    Ok(())
}
