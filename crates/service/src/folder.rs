//! Data folder: private to its owner, locked against a second process, deleted at the end if temporary.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use inferstore_server::temporary::{self, LOCK};
use parking_lot::Mutex;

use crate::config::Data;
use crate::{Error, Result, database};

const EPHEMERAL_PREFIX: &str = "inferstore-ephemeral-";

pub(crate) const OBJECTS: &str = "objects";

pub(crate) const RUNS: &str = "runs";

pub(crate) const SOCKET: &str = "admin.sock";

/// Identifier of a folder whose database is elsewhere.
pub(crate) const FOLDER_ID: &str = "folder-id";

const ENTRIES: [&str; 8] =
    [database::FILE, "inferstore.db-shm", "inferstore.db-wal", FOLDER_ID, LOCK, OBJECTS, RUNS, SOCKET];

pub(crate) struct Folder {
    path: PathBuf,
    /// Locks held as long as any part of the service runs.
    locks: Vec<File>,
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
        permissions::check_owner(&path, &action())?;
        let file = File::options().create(true).truncate(false).write(true).open(path.join(LOCK));
        // The folder is locked too, because the lock file of a running service may have been deleted.
        let folder = cfg!(unix).then(|| File::open(&path));
        let locks: io::Result<Vec<File>> = [Some(file), folder].into_iter().flatten().collect();
        let locks = locks.map_err(|cause| Error::keeping(action(), cause))?;
        for lock in &locks {
            check_lock(lock.try_lock(), may_be_unlocked, &action())?;
        }
        match permissions::restrict(&path) {
            Ok(true) if !is_new => {
                tracing::warn!("other users had rights to the data folder; they no longer have");
            }
            Ok(_) => {}
            Err(cause) => tracing::warn!(%cause, "other users may read the data, and its secrets"),
        }
        Ok(Self { path, locks, temporary: Mutex::new(temporary) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn restrict_entries(&self) {
        // The folder itself is private already; the entries matter if the operator opens the folder later.
        for entry in ENTRIES {
            let _ = permissions::restrict(&self.path.join(entry));
        }
    }

    pub(crate) fn close(&self) {
        // Closing the file is not enough: a child process that is just spawned holds it open until its exec.
        for lock in &self.locks {
            let _ = lock.unlock();
        }
        drop(self.temporary.lock().take());
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.close();
    }
}

pub(crate) fn create_private(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

pub(crate) fn check_outside(folder: &Path, data: &Path, doing: &dyn Fn() -> String) -> Result<()> {
    match is_inside(folder, data) {
        Ok(false) => Ok(()),
        Ok(true) => {
            Err(Error::new(doing(), "the folder is inside the data folder; choose one outside of it"))
        }
        Err(cause) => Err(Error::new(doing(), cause)),
    }
}

fn is_inside(folder: &Path, outer: &Path) -> std::io::Result<bool> {
    let folder = std::path::absolute(folder)?;
    let existing = folder.ancestors().find_map(|ancestor| ancestor.canonicalize().ok());
    Ok(existing.zip(outer.canonicalize().ok()).is_some_and(|(folder, outer)| folder.starts_with(outer)))
}

pub(crate) fn if_present<T>(done: std::io::Result<T>) -> std::io::Result<Option<T>> {
    match done {
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
        done => done.map(Some),
    }
}

/// Returns true for a folder of others. Folders `lock` or `objects` say nothing: `/var` and git repositories have such.
fn is_of_others(folder: &Path) -> io::Result<bool> {
    if [database::FILE, FOLDER_ID, LOCK, "objects/id"].iter().any(|own| folder.join(own).is_file()) {
        return Ok(false);
    }
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        // The file system of an empty volume has such entries.
        let is_of_volume = name.as_encoded_bytes().starts_with(b".") || name == "lost+found";
        if !is_of_volume && !ENTRIES.iter().any(|own| name == *own) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Refuses a folder without a lock, because two services in one folder would destroy its database.
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
    use std::io::{self, ErrorKind};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::path::Path;

    use crate::{Error, Result, database};

    /// Refuses root for the folder of another user, who could not open the files that root would create.
    pub(super) fn check_owner(folder: &Path, action: &str) -> Result<()> {
        let owner = fs::metadata(folder.join(database::FILE)).or_else(|_| fs::metadata(folder));
        let owner = owner.map_or(0, |data| data.uid());
        if owner == 0 || !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let cause = format!("it belongs to user {owner}, who could not open the files that root creates");
        Err(Error::setting(action, cause)
            .with_hint("run the command as that user, such as with `sudo -u inferstore`"))
    }

    pub(super) fn restrict(path: &Path) -> io::Result<bool> {
        restrict_by(path, |permissions| fs::set_permissions(path, permissions))
    }

    /// Some file systems, such as exFAT, have no permissions: setting them succeeds there, and changes nothing.
    pub(super) fn restrict_by(
        path: &Path,
        set: impl FnOnce(Permissions) -> io::Result<()>,
    ) -> io::Result<bool> {
        let mode = || Ok::<_, io::Error>(fs::metadata(path)?.permissions().mode());
        let before = mode()?;
        if before & 0o077 == 0 {
            return Ok(false);
        }
        set(Permissions::from_mode(before & 0o700))?;
        match mode()? & 0o077 {
            0 => Ok(true),
            _ => Err(io::Error::new(ErrorKind::Unsupported, "its file system has no permissions")),
        }
    }
}

#[cfg(not(unix))]
mod permissions {
    use std::io;
    use std::path::Path;

    use crate::Result;

    pub(super) fn check_owner(_: &Path, _: &str) -> Result<()> {
        Ok(())
    }

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

    /// Only root can give files away: the test says nothing about another user, who is never refused.
    #[cfg(unix)]
    #[test]
    fn root_leaves_the_folder_of_another_user_alone() -> Result<()> {
        let failed = |cause| Error::new("preparing a folder", cause);
        let parent = tempfile::tempdir().map_err(failed)?;
        let folder = parent.path().join("data");
        fs::create_dir(&folder).map_err(failed)?;
        for place in [folder.clone(), folder.join(database::FILE)] {
            let is_given = std::os::unix::fs::chown(&place, Some(65_534), None).is_ok();
            let opened = Folder::open(&Data::Folder(folder.clone()), false).map(drop);
            assert_eq!(opened.is_err_and(|error| error.to_string().contains("65534")), is_given);
            assert_eq!(folder.join(LOCK).exists(), !is_given);
            fs::write(folder.join(database::FILE), "").map_err(failed)?;
        }
        Ok(())
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_with_files_of_others_is_refused_and_keeps_its_rights() -> Result<()> {
        use std::os::unix::fs::PermissionsExt as _;

        let failed = |cause| Error::new("preparing a folder", cause);
        let parent = tempfile::tempdir().map_err(failed)?;
        for own in ["lock", "objects"] {
            let folder = parent.path().join(own);
            for entry in [own, "refs"] {
                fs::create_dir_all(folder.join(entry)).map_err(failed)?;
            }
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).map_err(failed)?;
            let opened = Folder::open(&Data::Folder(folder.clone()), false).map(drop);
            assert!(opened.is_err_and(|error| error.to_string().contains("no data folder")), "{own}");
            let rights = fs::metadata(&folder).map_err(failed)?.permissions();
            assert_eq!(rights.mode() & 0o777, 0o755, "{own}");
        }
        Ok(())
    }

    #[cfg(unix)]
    #[test]
    fn a_file_system_that_ignores_permissions_is_noticed() -> io::Result<()> {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir()?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        let ignored = permissions::restrict_by(folder.path(), |_| Ok(()));
        assert!(ignored.is_err_and(|cause| cause.to_string().contains("no permissions")));
        assert!(permissions::restrict(folder.path())?);
        assert!(!permissions::restrict(folder.path())?);
        Ok(())
    }

    #[test]
    fn a_relative_path_is_inside_the_folder_that_it_begins_in() -> io::Result<()> {
        let current = std::env::current_dir()?;
        for folder in ["not-there", "not-there/deeper", "."] {
            assert!(is_inside(Path::new(folder), &current)?, "{folder}");
        }
        assert!(!is_inside(Path::new("../not-there"), &current)?);
        Ok(())
    }

    #[test]
    fn a_file_system_without_locks_is_refused_unless_the_operator_insists() {
        let without_locks = || Err(TryLockError::Error(ErrorKind::Unsupported.into()));
        let refusal = check_lock(without_locks(), false, "");
        assert!(refusal.is_err_and(|error| error.hint().is_some()));
        assert!(check_lock(without_locks(), true, "").is_ok());
    }
}
