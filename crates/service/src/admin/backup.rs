//! Online backup: a copy of the database, and links to the blobs that its rows name.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use super::Admin;
use crate::lifecycle::app::App;
use crate::{Error, Result, database, object_storage};

/// What a backup holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Backup {
    /// How many objects, uploads and outputs together.
    pub objects: u64,
    /// How many objects have a row and no bytes. Above 0, the data folder itself is damaged.
    pub missing: u64,
}

impl Admin {
    /// Writes a consistent copy of everything into a folder that is empty or does not exist yet, while the
    /// service works. The copy is a data folder: a service can be started on it. Blobs are hard links where
    /// the file system allows it, so that the copy takes little room, and lies on the same disk.
    ///
    /// # Errors
    /// When the folder is not empty or cannot be written.
    pub async fn backup(&self, folder: &Path) -> Result<Backup> {
        let doing = || format!("writing a backup to {}", folder.display());
        let prepared = prepare(folder).map_err(|cause| Error::keeping(doing(), cause))?;
        if !prepared {
            return Err(Error::new(doing(), "the folder is not empty"));
        }
        let app = Arc::clone(&self.app);
        let folder = folder.to_owned();
        // On a task of its own: when the caller goes away, the backup is finished all the same.
        let written = tokio::spawn(async move { write(&app, &folder).await }).await;
        written.map_err(|cause| Error::new("writing a backup", cause))?
    }
}

async fn write(app: &App, folder: &Path) -> Result<Backup> {
    // Blobs that the copy names stay until they are copied, even when their rows are deleted meanwhile.
    let _paused = app.objects.pause_deletions();
    let copy = folder.join(database::FILE);
    app.database.backup_to(&copy).await?;
    let names = app.database.blobs_of(&copy).await?;
    let objects = names.len() as u64;
    // A bucket has a backup of its own; a stopped service does not even open it.
    let missing = match object_storage::are_in_bucket(&*app.database).await? {
        true => 0,
        false => app.objects.copy_blobs(names, &folder.join("objects")).await?,
    };
    Ok(Backup { objects, missing })
}

/// Creates the folder for its owner alone; false when there is something in it.
fn prepare(folder: &Path) -> std::io::Result<bool> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    Ok(fs::read_dir(folder)?.next().is_none())
}
