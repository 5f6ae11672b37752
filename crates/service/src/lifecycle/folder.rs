//! Data folder: created for its owner alone, locked against a second process, removed when it is temporary.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use inferstore_server::temporary::{self, LOCK};

use crate::lifecycle::config::Data;
use crate::{Error, Result, database};

/// How the names of temporary data folders begin.
const EPHEMERAL_PREFIX: &str = "inferstore-ephemeral-";

/// The folder of blobs.
pub(crate) const OBJECTS: &str = "objects";

/// The folder of runs in progress.
pub(crate) const RUNS: &str = "runs";

/// What the service puts directly into a data folder before it runs.
const ENTRIES: [&str; 7] =
    [database::FILE, "inferstore.db-shm", "inferstore.db-wal", "folder-id", LOCK, OBJECTS, RUNS];

/// The data folder of one running service.
pub(crate) struct Folder {
    path: PathBuf,
    /// Held as long as anything of the service runs.
    locks: Vec<File>,
    /// Removes the folder when it is dropped.
    temporary: Mutex<Option<tempfile::TempDir>>,
}

impl Folder {
    pub(crate) fn open(data: &Data, may_be_unlocked: bool) -> Result<Self> {
        let (path, temporary) = match data {
            Data::Folder(path) => (path.clone(), None),
            Data::Ephemeral => {
                let temporary = temporary::create(EPHEMERAL_PREFIX)
                    .map_err(|cause| Error::new("creating a temporary data folder", cause))?;
                (temporary.path().to_owned(), Some(temporary))
            }
        };
        let action = || format!("opening the data folder {}", path.display());
        let is_new = temporary.is_some() || !path.exists();
        fs::create_dir_all(&path).map_err(|cause| Error::keeping(action(), cause))?;
        if is_of_others(&path).map_err(|cause| Error::keeping(action(), cause))? {
            return Err(Error::setting(action(), "it holds other files and is no data folder")
                .with_hint("choose an empty or new folder"));
        }
        match permissions::restrict(&path) {
            Ok(true) if !is_new => {
                tracing::warn!("other users had rights to the data folder; they no longer have");
            }
            Ok(_) => {}
            // Some file systems have no rights of their own.
            Err(cause) => tracing::warn!(%cause, "other users keep their rights to the data folder"),
        }
        let file = File::options().create(true).truncate(false).write(true).open(path.join(LOCK));
        // The folder, too: somebody may have removed the file of a running service.
        let folder = cfg!(unix).then(|| File::open(&path));
        let locks: io::Result<Vec<File>> = [Some(file), folder].into_iter().flatten().collect();
        let locks = locks.map_err(|cause| Error::keeping(action(), cause))?;
        for lock in &locks {
            check_lock(lock.try_lock(), may_be_unlocked, &action())?;
        }
        Ok(Self { path, locks, temporary: Mutex::new(temporary) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the rights of others from what the service has put directly into the folder.
    pub(crate) fn restrict_entries(&self) {
        // The folder is closed to others already; this matters when its rights are widened again.
        for entry in ENTRIES {
            let _ = permissions::restrict(&self.path.join(entry));
        }
    }

    /// Leaves the folder to the next service; removes it when it is temporary.
    pub(crate) fn close(&self) {
        // Closing the file would not do: a program that another thread starts has it open too, until it begins.
        for lock in &self.locks {
            let _ = lock.unlock();
        }
        drop(self.temporary.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.close();
    }
}

/// Returns what was done with a file; None when there is no such file.
pub(crate) fn if_present<T>(done: std::io::Result<T>) -> std::io::Result<Option<T>> {
    match done {
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
        done => done.map(Some),
    }
}

/// Whether the folder has files, and none of a service: it would take the rights of others from a folder that they use.
fn is_of_others(folder: &Path) -> std::io::Result<bool> {
    let mut has_files = false;
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        if [database::FILE, LOCK, OBJECTS].iter().any(|own| name == *own) {
            return Ok(false);
        }
        // An empty volume has such files of its system.
        has_files |= !name.as_encoded_bytes().starts_with(b".") && name != "lost+found";
    }
    Ok(has_files)
}

/// Two services on one folder would destroy its database, so a folder without a lock is refused.
fn check_lock(lock: Result<(), TryLockError>, may_be_unlocked: bool, action: &str) -> Result<()> {
    match lock {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(Error::folder_taken(action)),
        Err(TryLockError::Error(cause)) if cause.kind() == ErrorKind::Unsupported => {
            if may_be_unlocked {
                tracing::warn!(
                    "the file system of the data folder has no locks; start no second service on it"
                );
                return Ok(());
            }
            let hint =
                "choose a folder on a local file system; `--allow-unlocked-data-dir` starts without a lock";
            Err(Error::new(
                action,
                "its file system has no locks, so a second service could destroy the database",
            )
            .with_hint(hint))
        }
        Err(TryLockError::Error(cause)) => Err(Error::new(action, cause)),
    }
}

#[cfg(unix)]
mod permissions {
    use std::fs::{self, Permissions};
    use std::io;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    /// Takes the rights of others; returns whether they had any.
    pub(super) fn restrict(path: &Path) -> io::Result<bool> {
        let mode = fs::metadata(path)?.permissions().mode();
        let was_open = mode & 0o077 != 0;
        if was_open {
            fs::set_permissions(path, Permissions::from_mode(mode & 0o700))?;
        }
        Ok(was_open)
    }
}

#[cfg(not(unix))]
mod permissions {
    use std::io;
    use std::path::Path;

    pub(super) fn restrict(_: &Path) -> io::Result<bool> {
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_free_at_its_end_though_a_child_process_has_its_lock_open() -> Result<()> {
        let parent = tempfile::tempdir().map_err(|cause| Error::new("creating a folder", cause))?;
        let data = Data::Folder(parent.path().join("data"));
        let folder = Folder::open(&data, false)?;
        let of_child: io::Result<Vec<_>> = folder.locks.iter().map(File::try_clone).collect();
        assert!(Folder::open(&data, false).is_err_and(|error| error.is_folder_taken()));
        drop(folder);
        assert!(of_child.is_ok() && Folder::open(&data, false).is_ok());
        Ok(())
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_in_use_is_taken_although_somebody_removed_its_lock() -> Result<()> {
        let parent = tempfile::tempdir().map_err(|cause| Error::new("creating a folder", cause))?;
        let data = Data::Folder(parent.path().join("data"));
        let folder = Folder::open(&data, false)?;
        let removed = fs::remove_file(folder.path().join(LOCK));
        removed.map_err(|cause| Error::new("removing the lock", cause))?;
        assert!(Folder::open(&data, false).is_err_and(|error| error.is_folder_taken()));
        drop(folder);
        Folder::open(&data, false).map(drop)
    }

    #[test]
    fn a_file_system_without_locks_is_refused_unless_the_operator_insists() {
        let without_locks = || Err(TryLockError::Error(ErrorKind::Unsupported.into()));
        let refusal = check_lock(without_locks(), false, "");
        assert!(refusal.is_err_and(|error| error.hint().is_some()));
        assert!(check_lock(without_locks(), true, "").is_ok());
    }
}
