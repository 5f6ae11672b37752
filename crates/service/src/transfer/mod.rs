//! Export of everything that a stopped service keeps into a folder, and import of it into an empty database and an
//! empty folder or bucket. Keys, balances, histories and download URLs stay valid. An import copies the blobs first,
//! and reads all rows in one transaction: an interrupted one is run again, and goes on with missing blobs.

mod manifest;
#[cfg(test)]
pub(crate) mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;

use crate::clock::Clock;
use crate::config::DatabaseUrl;
use crate::config::{Config, Data};
use crate::database::tables::{OBJECTS as OBJECTS_TABLE, TableFile, format};
use crate::database::{Database, Durability, not_empty};
use crate::folder::{Folder, OBJECTS, check_outside};
use crate::ledger::Audit;
use crate::object_storage::{BlobCopy, Destination, IN_BUCKET, PAIRING, open_blobs};
use crate::random::Randomness;
use crate::shared_files;
use crate::{Error, Result, S3Config, database};
use manifest::{FILES, Manifest, TABLES};

const IMPORT: &str = "import";

/// Location of the data of a stopped service: what `Config` names for one that runs.
#[derive(Debug, Clone)]
pub struct DataLocation {
    data_dir: PathBuf,
    database: Option<DatabaseUrl>,
    objects: Option<S3Config>,
}

/// Numbers of what was exported or imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Transferred {
    /// Accounts, the operator's among them.
    pub accounts: u64,
    /// Tasks of all accounts.
    pub tasks: u64,
    /// Objects, uploads and outputs together.
    pub objects: u64,
    /// Bytes of the objects.
    pub bytes: u64,
    /// Objects that have a row and no bytes. Above 0, the data that were exported are damaged.
    pub missing: u64,
    /// The audit of the data that were exported; that of the imported data is the same.
    pub audit: Audit,
    /// The export was imported before, and nothing was changed.
    #[serde(rename = "repeated")]
    pub is_repeated: bool,
}

impl DataLocation {
    /// The location of the data in this folder, except what a PostgreSQL or a bucket keeps.
    pub fn new(
        data_dir: impl Into<PathBuf>,
        database: Option<DatabaseUrl>,
        objects: Option<S3Config>,
    ) -> Self {
        Self { data_dir: data_dir.into(), database, objects }
    }

    /// Writes everything into a folder that is empty, missing, or left by an interrupted export; blobs are hard links
    /// where possible. Fails if a service uses the data, there is none, or the folder has other files or is read-only.
    pub async fn export(&self, folder: &Path) -> Result<Transferred, Error> {
        if self.database.is_none() && !self.data_dir.join(database::FILE).is_file() {
            let cause = format!("{} has no embedded database", self.data_dir.display());
            return Err(Error::new("exporting", cause)
                .with_hint("name the data folder with --data-dir, or a PostgreSQL with --database"));
        }
        check_outside(folder, &self.data_dir, &|| format!("exporting to {}", folder.display()))?;
        let lock = self.lock()?;
        let database = self.open(lock.as_ref()).await?;
        let exported = self.export_opened(&*database, folder).await;
        database.close(Instant::now()).await;
        exported.map_err(Error::of_copy)
    }

    async fn export_opened(&self, database: &dyn Database, folder: &Path) -> Result<Transferred> {
        if database.is_empty().await? {
            return Err(Error::new("exporting", "the database is empty")
                .with_hint("unset INFERSTORE_DATABASE to export the database of a data folder"));
        }
        let objects = self.data_dir.join(OBJECTS);
        let mut config = Config::folder(&self.data_dir);
        config.objects = self.objects.clone();
        let clock = Clock::default();
        let blobs = open_blobs(&config, &objects, Durability::Full, database, false, true, &clock);
        let blobs = blobs.await?;
        if self.objects.is_none() {
            shared_files::check(&self.data_dir, database).await?;
        }
        manifest::begin(folder)?;
        let tables = database.export_tables(&folder.join(TABLES)).await?;
        let audit = database.audit().await?;
        let named = manifest::blobs_of(&TableFile::path(&folder.join(TABLES), OBJECTS_TABLE))?;
        let count = named.len();
        let copies = blobs.export(named, &folder.join(FILES)).await?;
        let manifest = Manifest {
            format: format(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            pairing: database.setting(PAIRING).await?,
            tables,
            files: manifest::write_files(folder, &copies)?,
            bytes: copies.iter().map(|copy| copy.size).sum(),
            missing: count.saturating_sub(copies.len()) as u64,
            audit,
        };
        manifest.write(folder)?;
        Ok(manifest.transferred())
    }

    /// Reads an export into an empty database, and an empty folder or bucket. An interrupted import goes on when run
    /// again; one that is done changes nothing. Fails if the export is incomplete or was changed, if the database or
    /// the storage is not empty or cannot be written, or if the imported ledger has other sums than the exported one.
    pub async fn import(&self, folder: &Path) -> Result<Transferred, Error> {
        let (manifest, id) = Manifest::read(folder)?;
        let copies = manifest.check(folder)?;
        let destination = Destination::new(self.objects.as_ref(), &self.data_dir.join(OBJECTS), &id)?;
        let lock = self.lock()?;
        // A kill leaves no new database that a service would start on.
        if self.database.is_none() && !self.data_dir.join(database::FILE).is_file() {
            destination.claim(manifest.pairing.as_deref()).await?;
        }
        let database = self.open(lock.as_ref()).await?;
        let imported = self.import_opened(&*database, folder, manifest, copies, (id, destination)).await;
        database.close(Instant::now()).await;
        imported
    }

    async fn import_opened(
        &self,
        database: &dyn Database,
        folder: &Path,
        manifest: Manifest,
        copies: Vec<BlobCopy>,
        (id, destination): (String, Destination),
    ) -> Result<Transferred> {
        let remote = self.objects.as_ref();
        if database.setting(IMPORT).await?.as_ref() == Some(&id) {
            // An earlier import may have been killed between its rows and the marker of the files.
            if let Some(pairing) = database.setting(PAIRING).await? {
                destination.finish(&pairing).await?;
            }
            return Ok(Transferred { is_repeated: true, ..manifest.transferred() });
        }
        if !database.is_empty().await? {
            return Err(not_empty());
        }
        let blobs = destination.claim(manifest.pairing.as_deref()).await?;
        blobs.import(copies, &folder.join(FILES)).await?;
        destination.check().await?;
        // Not the identifier of the export: it can be imported into several databases.
        let pairing = Randomness::new(None).word(26)?;
        let mut settings = vec![(PAIRING.to_owned(), pairing.clone()), (IMPORT.to_owned(), id)];
        settings.extend(remote.map(|_| (IN_BUCKET.to_owned(), String::new())));
        database.import_tables(&folder.join(TABLES), &manifest.tables, settings).await?;
        destination.finish(&pairing).await?;
        if remote.is_none() {
            shared_files::check(&self.data_dir, database).await?;
        }
        if database.audit().await? != manifest.audit {
            return Err(Error::new("importing", "the audit finds other sums than before the export"));
        }
        Ok(manifest.transferred())
    }

    /// Locks the data folder against a service where anything is in it.
    fn lock(&self) -> Result<Option<Folder>> {
        let is_used = self.database.is_none() || self.objects.is_none();
        is_used.then(|| Folder::open(&Data::Folder(self.data_dir.clone()), false)).transpose()
    }

    async fn open(&self, folder: Option<&Folder>) -> Result<Arc<dyn Database>> {
        let database = match &self.database {
            Some(url) => database::connect(&url.0).await?,
            None => database::open(&self.data_dir, Durability::Full).await?,
        };
        if let Some(folder) = folder {
            folder.restrict_entries();
        }
        Ok(database)
    }
}
