//! Pairing of a folder of objects or a bucket with its database, by an identifier that both store. The sweeper deletes
//! blobs without a row, so a new or a wrong database must never be used with another database's files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::TryStreamExt as _;

use super::disk::Disk;
use super::s3::S3;
use super::{Blobs, cors};
use crate::clock::Clock;
use crate::config::Config;
use crate::config::S3Config;
use crate::database::{Database, Durability};
use crate::folder::if_present;
use crate::marker;
use crate::random::Randomness;
use crate::{Error, Result};

/// The setting of the database, and the file in the folder, that hold the identifier.
pub(crate) const SETTING: &str = "objects";
const MARKER: &str = "id";
/// Start of the identifier while an import fills the files.
const IMPORTING: &str = "import of ";
pub(crate) const IN_BUCKET: &str = "objects are in a bucket";

pub(crate) struct OpenedBlobs(pub(in crate::object_storage) Arc<dyn Blobs>);

/// Opens the blobs and pairs them with their database, never another. `is_new`: never filled; `serves`: files needed.
pub(crate) async fn open(
    config: &Config,
    folder: &Path,
    durability: Durability,
    database: &dyn Database,
    is_new: bool,
    serves: bool,
    clock: &Clock,
) -> Result<OpenedBlobs> {
    let Some(remote) = &config.objects else {
        match are_in_bucket(database).await? {
            false => pair(folder, database, is_new).await?,
            true if serves => {
                let cause = "the files of this database are in a bucket";
                return Err(Error::new(format!("opening {}", folder.display()), cause)
                    .with_hint("name the bucket with --objects"));
            }
            true => {}
        }
        return Ok(OpenedBlobs(Arc::new(Disk::open(folder, durability)?)));
    };
    let parent = folder.parent().unwrap_or(folder);
    let blobs = S3::new(remote.clone(), parent, clock.clone())?;
    pair_bucket(&blobs, database, is_new).await?;
    cors::ensure(blobs.bucket(), &config.storage_origins).await;
    Ok(OpenedBlobs(Arc::new(blobs)))
}

/// The folder or the bucket that an import fills. Until the import has ended, its marker is of no database.
pub(crate) struct Destination {
    bucket: Option<S3>,
    folder: PathBuf,
    shown: String,
    importing: String,
}

impl Destination {
    pub(crate) fn new(remote: Option<&S3Config>, folder: &Path, export: &str) -> Result<Self> {
        let bucket = match remote {
            Some(remote) => {
                Some(S3::new(remote.clone(), folder.parent().unwrap_or(folder), Clock::default())?)
            }
            None => None,
        };
        let shown = remote.map_or_else(|| folder.display().to_string(), S3Config::description);
        Ok(Self { bucket, folder: folder.to_owned(), shown, importing: format!("{IMPORTING}{export}") })
    }

    /// Opens the folder or the bucket, and marks it. It must be empty, or the same import has begun to fill it, or it has the
    /// files of the exported database, which cannot use it any more.
    pub(crate) async fn claim(&self, exported: Option<&str>) -> Result<OpenedBlobs> {
        let blobs: Arc<dyn Blobs> = match &self.bucket {
            Some(bucket) => {
                bucket.bucket().create().await?;
                Arc::new(bucket.clone())
            }
            None => Arc::new(Disk::open(&self.folder, Durability::Full)?),
        };
        let marker = self.marker().await?;
        let is_known =
            marker.as_deref().is_some_and(|marker| marker == self.importing || Some(marker) == exported);
        let is_empty = async || {
            let mut pages = blobs.blobs();
            while let Some(page) = pages.try_next().await? {
                if !page.is_empty() {
                    return Ok(false);
                }
            }
            Ok::<_, Error>(true)
        };
        if !is_known && (marker.is_some() || !is_empty().await?) {
            return Err(self.refused());
        }
        if marker.as_deref() != Some(&*self.importing) {
            self.mark(&self.importing).await?;
        }
        Ok(OpenedBlobs(blobs))
    }

    pub(crate) async fn check(&self) -> Result<()> {
        match self.is_importing().await? {
            true => Ok(()),
            false => Err(self.refused()),
        }
    }

    /// Gives the files to the database with this identifier, if the import of them has not ended. Fails if the files of
    /// the database are elsewhere.
    pub(crate) async fn finish(&self, id: &str) -> Result<()> {
        match self.marker().await? {
            Some(marker) if marker == self.importing => self.mark(id).await,
            Some(marker) if marker == id => Ok(()),
            _ => {
                let cause = "the database has read this export already, and its files are elsewhere";
                Err(Error::new(format!("importing into {}", self.shown), cause).with_hint(
                    "name the folder or the bucket of the first import, or import into an empty database",
                ))
            }
        }
    }

    async fn is_importing(&self) -> Result<bool> {
        Ok(self.marker().await?.as_deref() == Some(&*self.importing))
    }

    async fn marker(&self) -> Result<Option<String>> {
        match &self.bucket {
            Some(bucket) => bucket.marker().await,
            None => marker::read(&self.folder.join(MARKER)).map_err(|cause| self.failed(cause)),
        }
    }

    async fn mark(&self, id: &str) -> Result<()> {
        match &self.bucket {
            Some(bucket) => bucket.set_marker(id).await,
            None => marker::write(&self.folder.join(MARKER), id).map_err(|cause| self.failed(cause)),
        }
    }

    fn refused(&self) -> Error {
        let cause = "it has files that are not those of this export, or that another database uses";
        Error::new(format!("importing into {}", self.shown), cause)
            .with_hint("name an empty folder, bucket or prefix")
    }

    fn failed(&self, cause: io::Error) -> Error {
        Error::keeping(format!("opening {}", self.shown), cause)
    }
}

pub(crate) async fn are_in_bucket(database: &dyn Database) -> Result<bool> {
    Ok(database.setting(IN_BUCKET).await?.is_some())
}

/// Pairs a bucket with the database; several processes may open a bucket at once.
async fn pair_bucket(blobs: &S3, database: &dyn Database, is_new: bool) -> Result<()> {
    let bucket = blobs.bucket();
    if is_new && bucket.create().await? {
        tracing::info!("{} was created", bucket.config.description());
    }
    let marker = blobs.marker().await?;
    let setting = database.setting(SETTING).await?;
    let is_right = match (&setting, &marker) {
        (Some(setting), Some(marker)) => setting == marker,
        (Some(_), None) => is_new,
        // Even without files yet: a service with the other database may be running.
        (None, Some(_)) => false,
        (None, None) => true,
    };
    if !is_right {
        return Err(of_another(format!("opening {}", bucket.config.description()), marker));
    }
    // The database decides between processes that start at the same time.
    let id = database.setting_or(SETTING, &Randomness::new(None).word(26)?).await?;
    if marker.as_deref() != Some(&*id) {
        blobs.set_marker(&id).await?;
    }
    // The bucket may contain files from now on.
    database.setting_or(IN_BUCKET, "").await.map(drop)
}

/// Fails if a bucket is no longer paired: the sweeper must not delete its blobs. A locked folder needs no check.
pub(in crate::object_storage) async fn check_bucket(blobs: &S3, database: &dyn Database) -> Result<()> {
    let marker = blobs.marker().await?;
    if marker.is_some() && marker == database.setting(SETTING).await? {
        return Ok(());
    }
    Err(of_another(format!("sweeping {}", blobs.bucket().config.description()), marker))
}

fn of_another(doing: String, marker: Option<String>) -> Error {
    let cause = match marker {
        Some(_) => "it does not belong to this database: its object `id` was written by another one",
        None => "it does not belong to this database: it has no object `id`",
    };
    Error::new(doing, cause).with_hint(
        "name the bucket and the prefix of this database; for a new database, name another prefix, or remove the \
         object `id` if the database that wrote it is gone",
    )
}

async fn pair(folder: &Path, database: &dyn Database, is_new: bool) -> Result<()> {
    let action = || format!("opening {}", folder.display());
    let failed = |cause| Error::keeping(action(), cause);
    let path = folder.join(MARKER);
    let marker = marker::read(&path).map_err(failed)?;
    let setting = database.setting(SETTING).await?;
    let belong_together = match (&setting, &marker) {
        (Some(setting), Some(marker)) => setting == marker,
        (None, Some(_)) => false,
        // Folders of earlier versions have no identifier.
        (_, None) => !is_new,
    };
    if marker.as_deref().is_some_and(|marker| marker.starts_with(IMPORTING)) {
        let hint = "run the import again, or move the data folder away to begin without its data";
        return Err(Error::new(action(), "an import into it has not ended").with_hint(hint));
    }
    if !belong_together && has_blobs(folder).map_err(failed)? {
        let cause = "it holds the files of another database, and the one in use is new, empty or not that one; \
                     put that database back (both inferstore.db and inferstore.db-wal), or name it with \
                     --database or INFERSTORE_DATABASE if it is in PostgreSQL, or move the folder away to \
                     begin without files";
        return Err(Error::new(action(), cause));
    }
    // With a shared database, another process may own the folder; `shared_files` checks this.
    if setting.is_some() && !is_new && !database.is_shared() && !folder.exists() {
        let cause = "the files of this database are not there; put the folder back, or create an empty one to go on \
                     without them";
        return Err(Error::new(action(), cause));
    }
    let id = match setting.or_else(|| marker.clone()) {
        Some(id) => id,
        // Not seeded: a seed makes accounts and keys reproducible, but the identifier must be unique.
        None => Randomness::new(None).word(26)?,
    };
    // The file is written first, because a folder without an identifier counts as one of an earlier version.
    if marker.as_deref() != Some(&*id) {
        marker::write(&path, &id).map_err(failed)?;
    }
    database.setting_or(SETTING, &id).await?;
    Ok(())
}

fn has_blobs(folder: &Path) -> io::Result<bool> {
    let Some(blobs) = if_present(fs::read_dir(folder.join("blobs")))? else { return Ok(false) };
    for sub_folder in blobs {
        let path = sub_folder?.path();
        if path.is_dir() && fs::read_dir(path)?.next().is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::object_storage::remote_tests::{TestResult, bucket};
    use crate::{AdminClient, Service};

    #[tokio::test]
    async fn a_service_with_files_in_a_bucket_starts_and_is_administered() -> TestResult {
        let folder = tempfile::tempdir()?;
        let (data, backup) = (folder.path().join("data"), folder.path().join("backup"));
        let service = Service::start(Config::folder(&data)).await?;
        service.database.setting_or(IN_BUCKET, "").await?;
        service.shutdown().await;
        let refused = Service::start(Config::folder(&data)).await.err();
        assert!(refused.is_some_and(|error| error.hint().is_some_and(|hint| hint.contains("--objects"))));

        let mut admin = AdminClient::open(&data).await?;
        let body = format!("{{\"folder\": {:?}}}", backup.display().to_string());
        let written = admin.call("POST", &["backups"], Some(body)).await;
        assert!(written.is_ok_and(|written| written["missing"] == 0));
        assert!(!backup.join("objects").exists(), "the bucket has a backup of its own");
        admin.close().await;
        Ok(())
    }

    #[tokio::test]
    #[ignore = "needs the object store of .ci/cluster"]
    async fn a_bucket_that_another_database_has_taken_over_is_not_swept() -> TestResult {
        let folder = tempfile::tempdir()?;
        let remote = bucket()?;
        let store = S3::new(remote.clone(), folder.path(), Clock::default())?;
        let service = Service::start(Config { objects: Some(remote), ..Config::ephemeral() }).await?;
        let stray = service.objects.blobs.begin()?.commit().await?.name;
        let soon = SystemTime::now() + Duration::from_hours(1);
        let sweep = || service.objects.sweep(soon);

        let id = store.marker().await?.ok_or("the bucket has no identifier")?;
        store.set_marker("another").await?;
        let skipped = sweep().await.err().ok_or("the sweep judges blobs of another database")?;
        assert!(skipped.to_string().contains("does not belong to this database"), "{skipped}");
        assert!(store.orphans().try_concat().await?.is_empty());
        store.set_marker(&id).await?;
        sweep().await?;
        assert_eq!(store.orphans().try_concat().await?.pop().map(|orphan| orphan.name), Some(stray));
        Ok(())
    }
}
