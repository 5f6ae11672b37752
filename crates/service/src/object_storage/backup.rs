//! What a backup needs of the blobs: that none is deleted while it runs, and links to those that it names.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Objects;
use crate::admin::Backup;

/// How many backups run. While there is one, unneeded blobs stay for a later sweep.
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
    /// Links blobs into the folder of another object store, or copies them where links are impossible.
    pub(crate) fn link_blobs(self, names: &[String], to: &Path) -> io::Result<Backup> {
        let target = super::blobs::folder(to);
        fs::create_dir_all(&target)?;
        let mut missing = 0;
        for name in names {
            let from = self.0.blobs().place(name);
            let to = super::blobs::place_in(&target, name);
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent)?;
            }
            match fs::hard_link(&from, &to) {
                Ok(()) => {}
                Err(cause) if cause.kind() == ErrorKind::NotFound => missing += 1,
                Err(_) => copy(&from, &to)?,
            }
        }
        Ok(Backup { objects: names.len() as u64, missing })
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    File::open(to)?.sync_all()
}
