//! The data folder: created, locked against a second process, and removed when it is temporary.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::error::FolderTaken;
use crate::lifecycle::config::Data;

/// The data folder of one running service.
pub(crate) struct Folder {
    path: PathBuf,
    /// Held as long as the service runs.
    _lock: File,
    /// Removes the folder when it is dropped.
    _temporary: Option<tempfile::TempDir>,
}

impl Folder {
    pub(crate) fn open(data: &Data) -> Result<Self, Error> {
        let (path, temporary) = match data {
            Data::Folder(path) => (path.clone(), None),
            Data::Ephemeral => {
                let temporary = tempfile::Builder::new()
                    .prefix("inferstore-")
                    .tempdir()
                    .map_err(|cause| Error::new("creating a temporary data folder", cause))?;
                (temporary.path().to_owned(), Some(temporary))
            }
        };
        let doing = || format!("opening the data folder {}", path.display());
        fs::create_dir_all(&path).map_err(|cause| Error::keeping(doing(), cause))?;
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path.join("lock"))
            .map_err(|cause| Error::keeping(doing(), cause))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(Error::new(doing(), FolderTaken)),
            // Some file systems know no locks; a service alone in its folder needs none.
            Err(fs::TryLockError::Error(cause)) if cause.kind() == ErrorKind::Unsupported => {
                tracing::warn!("the file system of the data folder knows no locks");
            }
            Err(fs::TryLockError::Error(cause)) => return Err(Error::new(doing(), cause)),
        }
        Ok(Self { path, _lock: lock, _temporary: temporary })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}
