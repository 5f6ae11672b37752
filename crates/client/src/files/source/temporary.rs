//! Files of ours that do not stay: deleted when they are dropped, unless they were kept.

use std::io;
use std::path::{Path, PathBuf};

use tokio::fs::{File, OpenOptions};

/// How many names are tried before the folder itself must be the problem.
const TRIES: u32 = 16;

/// The path of a file that is deleted with this value.
#[derive(Debug)]
pub(crate) struct TemporaryFile {
    path: PathBuf,
}

impl TemporaryFile {
    /// A new file that only this user can read, among the temporary files of the system.
    pub(crate) async fn private() -> io::Result<(Self, File)> {
        let mut options = OpenOptions::new();
        #[cfg(unix)]
        options.mode(0o600);
        Self::create(&std::env::temp_dir(), "inferstore-", &mut options).await
    }

    /// A new file in the folder of `target`, so that it can take its place in one step.
    pub(crate) async fn beside(target: &Path) -> io::Result<(Self, File)> {
        let folder = match target.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        Self::create(folder, ".inferstore-", &mut OpenOptions::new()).await
    }

    async fn create(folder: &Path, prefix: &str, options: &mut OpenOptions) -> io::Result<(Self, File)> {
        let mut tries = 0;
        loop {
            tries += 1;
            let path = folder.join(format!("{prefix}{:016x}.part", fastrand::u64(..)));
            match options.write(true).create_new(true).open(&path).await {
                Ok(file) => return Ok((Self { path }, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < TRIES => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it the file at `target`. Without `overwrite` it is an error if there is one by now.
    pub(crate) async fn keep_as(mut self, target: &Path, overwrite: bool) -> io::Result<()> {
        if overwrite {
            tokio::fs::rename(&self.path, target).await?;
            self.path = PathBuf::new();
            return Ok(());
        }
        // A rename replaces what is there; a second name for the same file does not. The first one goes
        // when `self` is dropped.
        match tokio::fs::hard_link(&self.path, target).await {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
            // Not every file system knows second names.
            Err(_) if !tokio::fs::try_exists(target).await? => {
                tokio::fs::rename(&self.path, target).await?;
                self.path = PathBuf::new();
                Ok(())
            }
            Err(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Ok(()) => Ok(()),
        }
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() {
            // Whoever cleans the folder will find what cannot be deleted now.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
