//! What a backup needs of object storage: that no blob is deleted while it runs, and copies of those that it
//! names.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Objects;
use crate::Error;

/// How many backups run. While there is one, unneeded blobs stay for the sweeper.
#[derive(Debug, Default)]
pub(super) struct Backups {
    running: AtomicUsize,
}

impl Backups {
    pub(super) fn are_running(&self) -> bool {
        self.running.load(Ordering::SeqCst) > 0
    }
}

/// No blob is deleted until this is dropped.
#[must_use]
pub(crate) struct DeletionsPaused(Arc<Objects>);

impl Drop for DeletionsPaused {
    fn drop(&mut self) {
        self.0.backups.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Objects {
    /// Keeps every blob that has a row now. A blob that is being deleted has lost its row before.
    pub(crate) fn pause_deletions(self: &Arc<Self>) -> DeletionsPaused {
        self.backups.running.fetch_add(1, Ordering::SeqCst);
        DeletionsPaused(Arc::clone(self))
    }
}

impl DeletionsPaused {
    /// Copies blobs into the folder of another object store. Returns how many are missing.
    pub(crate) async fn copy_blobs(&self, names: Vec<String>, folder: &Path) -> Result<u64, Error> {
        self.0.blobs.copy_to(names, folder).await
    }
}
