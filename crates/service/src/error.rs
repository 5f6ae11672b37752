//! What can go wrong when the service starts or keeps its data: what was being done, and why it failed.

use std::error::Error as StdError;
use std::fmt;

/// A failure of the service itself, as opposed to a request that it refuses.
#[derive(Debug)]
pub struct Error {
    doing: String,
    cause: Box<dyn StdError + Send + Sync>,
}

impl Error {
    /// Something failed while `doing` it (a phrase like "opening the database").
    pub(crate) fn new(doing: impl Into<String>, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { doing: doing.into(), cause: cause.into() }
    }

    /// Whether the service did not start because another one, perhaps in another process, uses the data
    /// folder. It is free again as soon as that one has ended.
    ///
    /// ```
    /// # use inferstore_service::{Config, Service};
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// let first = Service::start(Config::folder(folder.path())).await?;
    /// let second = Service::start(Config::folder(folder.path())).await;
    /// assert!(second.is_err_and(|error| error.is_folder_taken()));
    /// # first.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_folder_taken(&self) -> bool {
        self.cause.is::<FolderTaken>()
    }
}

/// Another service uses the data folder.
#[derive(Debug)]
pub(crate) struct FolderTaken;

impl fmt::Display for FolderTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another service uses it; stop that one, or choose another folder")
    }
}

impl StdError for FolderTaken {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed: {}", self.doing, self.cause)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.cause)
    }
}

impl From<sqlx::Error> for Error {
    fn from(cause: sqlx::Error) -> Self {
        Self::new("using the database", cause)
    }
}
