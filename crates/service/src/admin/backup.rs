//! Online backup: a copy of the database, and hard links to the blobs of its rows.

use std::fs;
use std::path::Path;

use serde::Serialize;

use super::Admin;
use crate::folder::{OBJECTS, check_outside, create_private};
use crate::{Error, Result, database, object_storage};

/// Result of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Backup {
    /// Number of objects, both uploads and outputs.
    pub objects: u64,
    /// Number of objects without bytes. Above 0, the data folder itself is damaged.
    pub missing: u64,
}

impl Admin {
    /// Writes a consistent copy of all data, with which a service can start, into an empty or new folder, while this
    /// one runs. Blobs are hard links where possible. Fails for other folders, and for one inside the data folder.
    pub async fn backup(&self, folder: &Path) -> Result<Backup> {
        let doing = || format!("writing a backup to {}", folder.display());
        check_outside(folder, self.background.folder.path(), &doing)?;
        let prepared = prepare(folder).map_err(|cause| Error::keeping(doing(), cause).of_copy())?;
        if !prepared {
            return Err(Error::new(doing(), "the folder is not empty"));
        }
        let admin = self.clone();
        let folder = folder.to_owned();
        // The backup completes even if the caller disconnects; the shutdown waits for it.
        let written = self.requests.spawn(async move { write(&admin, &folder).await }).await;
        written.map_err(|cause| Error::new("writing a backup", cause))?.map_err(Error::of_copy)
    }
}

async fn write(admin: &Admin, folder: &Path) -> Result<Backup> {
    // Blobs of the copy are not deleted until they are copied, even if their rows are deleted meanwhile.
    let _paused = admin.objects.pause_deletions();
    // The database gets its name last: without the name, a folder with missing blobs is no data folder.
    let copy = folder.join(format!("{}.partial", database::FILE));
    let names = admin.database.backup_to(&copy).await?;
    let finished = finish(admin, names, &copy, folder).await;
    if finished.is_err() {
        // The folder was empty, and the next backup, perhaps a nightly one, needs an empty folder.
        let _ = fs::remove_file(&copy);
        let _ = fs::remove_file(folder.join(database::FILE));
        let _ = tokio::fs::remove_dir_all(folder.join(OBJECTS)).await;
    }
    finished
}

async fn finish(admin: &Admin, names: Vec<String>, copy: &Path, folder: &Path) -> Result<Backup> {
    let objects = names.len() as u64;
    // Buckets have their own backups; a stopped service does not even open its bucket.
    let missing = match object_storage::are_in_bucket(&*admin.database).await? {
        true => 0,
        false => {
            let objects = folder.join(OBJECTS);
            // A blob may be a hard link to a file that others could read; the mode of the folder keeps them out.
            create_private(&objects)
                .map_err(|cause| Error::keeping("creating the folder of blobs", cause))?;
            admin.objects.copy_blobs(names, &objects).await?
        }
    };
    let finished = fs::rename(copy, folder.join(database::FILE)).and_then(|()| sync(folder));
    finished.map_err(|cause| Error::keeping(format!("writing a backup to {}", folder.display()), cause))?;
    Ok(Backup { objects, missing })
}

fn sync(folder: &Path) -> std::io::Result<()> {
    if cfg!(unix) { fs::File::open(folder)?.sync_all() } else { Ok(()) }
}

fn prepare(folder: &Path) -> std::io::Result<bool> {
    create_private(folder)?;
    Ok(fs::read_dir(folder)?.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{Replaces, Target};
    use crate::{Config, Service};

    type TestResult = std::result::Result<(), Box<dyn std::error::Error>>;

    #[tokio::test]
    async fn a_backup_that_failed_leaves_nothing_and_its_folder_takes_the_next_one() -> TestResult {
        let folder = tempfile::tempdir()?;
        let service = Service::start(Config::folder(folder.path())).await?;
        let owner = service.account("demo", "finding an account").await?;
        let now = service.clock.now();
        let target = Target::of_owner("target".to_owned(), (owner.id, &owner.bucket), "a", 1, now);
        service.database.add_target(&target, 1).await?;
        let object = target.object("abcdefgh".to_owned(), String::new(), now);
        service.database.store_upload("target", "file", &object, Replaces::Any).await?;
        // A folder instead of a blob can be neither linked nor copied.
        let blob = folder.path().join("objects/blobs/ab/abcdefgh");
        fs::create_dir_all(&blob)?;
        let copy = tempfile::tempdir()?;
        let failure = service.backup(copy.path()).await.err().ok_or("the backup lacks a blob")?;
        assert!(failure.to_string().contains("copying"), "it ends at the blobs: {failure}");
        assert_eq!(fs::read_dir(copy.path())?.count(), 0);
        fs::remove_dir(&blob)?;
        fs::write(&blob, "a")?;
        assert_eq!(service.backup(copy.path()).await?, Backup { objects: 1, missing: 0 });
        service.shutdown().await;
        Ok(())
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn nobody_else_reads_a_backup_also_in_a_folder_that_everyone_can_open() -> TestResult {
        use std::os::unix::fs::PermissionsExt as _;

        let service = Service::start(Config::ephemeral()).await?;
        let copy = tempfile::tempdir()?;
        fs::set_permissions(copy.path(), fs::Permissions::from_mode(0o755))?;
        service.backup(copy.path()).await?;
        for entry in fs::read_dir(copy.path())? {
            let entry = entry?;
            let mode = entry.metadata()?.permissions().mode();
            assert_eq!(mode & 0o077, 0, "{}", entry.path().display());
        }
        service.shutdown().await;
        Ok(())
    }

    #[tokio::test]
    async fn a_backup_that_was_begun_is_whole_when_the_service_has_ended() -> TestResult {
        let folder = tempfile::tempdir()?;
        Service::start(Config::folder(folder.path())).await?.shutdown().await;
        let service = Service::open_stopped(folder.path()).await?;
        let copy = tempfile::tempdir()?;
        let (admin, target) = (service.admin.clone(), copy.path().to_owned());
        let mut backup = Box::pin(async move { admin.backup(&target).await });
        assert!(futures_util::poll!(&mut backup).is_pending());
        drop(backup);
        service.shutdown().await;
        assert!(copy.path().join(database::FILE).exists());
        Ok(())
    }
}
