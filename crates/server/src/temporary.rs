//! Temporary folders, private to their owner. Later processes remove the folders of killed ones.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

/// File that a process holds locked while it uses a folder.
pub const LOCK: &str = "lock";

/// Minimum age of an abandoned folder: a younger one may not be locked yet.
const MIN_AGE: Duration = Duration::from_mins(1);

/// Creates a temporary folder, and removes abandoned ones with its prefix. The caller has to lock its file `LOCK`.
pub fn create(prefix: &str) -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    let folder = builder.tempdir()?;
    remove_abandoned(folder.path(), prefix, MIN_AGE);
    Ok(folder)
}

/// Creates a temporary folder and locks it until the file is closed.
pub fn create_locked(prefix: &str) -> io::Result<(TempDir, File)> {
    let folder = create(prefix)?;
    let lock = File::create(folder.path().join(LOCK))?;
    let _ = lock.try_lock();
    Ok((folder, lock))
}

fn remove_abandoned(own: &Path, prefix: &str, min_age: Duration) {
    let Some(owner) = owner(own) else { return };
    for entry in own.parent().and_then(|parent| fs::read_dir(parent).ok()).into_iter().flatten().flatten() {
        let is_of_kind = entry.file_name().to_string_lossy().starts_with(prefix);
        // Anyone may create a symbolic link in a shared temporary folder, or a lock that is a pipe, which would block.
        let is_of_owner = self::owner(&entry.path()) == Some(owner);
        let is_folder = entry.metadata().is_ok_and(|metadata| metadata.is_dir());
        // The lock is as old as its process; a folder without one is being made.
        let lock = fs::symlink_metadata(entry.path().join(LOCK)).or_else(|_| entry.metadata()).ok();
        let metadata = lock.filter(|_| is_of_kind && is_of_owner && is_folder);
        let age = metadata.and_then(|metadata| metadata.modified().ok()?.elapsed().ok());
        if age.is_none_or(|age| age < min_age) {
            continue;
        }
        let lock = File::options().write(true).open(entry.path().join(LOCK));
        if lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(unix)]
fn owner(path: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    fs::symlink_metadata(path).ok().map(|metadata| metadata.uid())
}

#[cfg(not(unix))]
fn owner(_: &Path) -> Option<u32> {
    Some(0)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn temporary_folders_of_killed_processes_are_removed_and_no_others() -> io::Result<()> {
        let parent = tempfile::tempdir()?;
        let folder = |name: &str| -> io::Result<(PathBuf, File)> {
            let path = parent.path().join(name);
            fs::create_dir(&path)?;
            let lock = File::create(path.join(LOCK))?;
            Ok((path, lock))
        };
        let (killed, _) = folder("inferstore-kind-killed")?;
        let (running, lock) = folder("inferstore-kind-running")?;
        lock.lock()?;
        let (kept, _) = folder("inferstore-data")?;
        remove_abandoned(&running, "inferstore-kind-", MIN_AGE);
        assert!(killed.exists(), "it may be about to be locked");
        // A process that was killed a moment ago has used its folder until then; the lock is from its start.
        let (busy, lock_of_busy) = folder("inferstore-kind-busy")?;
        lock_of_busy.set_modified(std::time::SystemTime::now() - 2 * MIN_AGE)?;
        drop(lock_of_busy);
        remove_abandoned(&running, "inferstore-kind-", MIN_AGE);
        assert!(!busy.exists());
        remove_abandoned(&running, "inferstore-kind-", Duration::ZERO);
        assert!(!killed.exists() && running.exists() && kept.exists());
        Ok(())
    }

    #[cfg(unix)]
    #[test]
    fn a_temporary_folder_of_another_user_is_not_even_opened() -> io::Result<()> {
        let parent = tempfile::tempdir()?;
        let foreign = parent.path().join("inferstore-kind-foreign");
        fs::create_dir(&foreign)?;
        drop(File::create(foreign.join(LOCK))?);
        let own = parent.path().join("inferstore-kind-own");
        fs::create_dir(&own)?;
        if std::os::unix::fs::chown(&foreign, Some(65_534), None).is_ok() {
            remove_abandoned(&own, "inferstore-kind-", Duration::ZERO);
            assert!(foreign.exists());
        }
        Ok(())
    }

    #[cfg(unix)]
    #[test]
    fn a_temporary_folder_is_for_its_user_alone_and_locked() -> io::Result<()> {
        use std::os::unix::fs::PermissionsExt;
        let (folder, lock) = create_locked("inferstore-kind-")?;
        assert_eq!(folder.path().metadata()?.permissions().mode() & 0o077, 0);
        let other = File::options().write(true).open(folder.path().join(LOCK))?;
        assert!(other.try_lock().is_err());
        drop(lock);
        assert!(other.try_lock().is_ok());
        Ok(())
    }
}
