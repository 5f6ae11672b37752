//! What can go wrong when the service starts or keeps its data: what was being done, why it failed, and
//! what an operator can do about it.

use std::error::Error as StdError;
use std::fmt;
use std::io::{self, ErrorKind};

/// A failure of the service itself, as opposed to a request that it refuses.
#[derive(Debug)]
pub struct Error {
    doing: String,
    cause: Box<dyn StdError + Send + Sync>,
    trouble: Option<Trouble>,
    hint: Option<&'static str>,
}

/// What is wrong with the data folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    NoRoom,
    NotWritable,
}

impl Error {
    /// Something failed while `doing` it (a phrase like "opening the database").
    pub(crate) fn new(doing: impl Into<String>, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { doing: doing.into(), cause: cause.into(), trouble: None, hint: None }
    }

    /// The same for what concerns the data folder: it says what to try when that is full or not writable.
    pub(crate) fn keeping(
        doing: impl Into<String>,
        cause: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        let error = Self::new(doing, cause);
        Self { trouble: Trouble::behind(&*error.cause), ..error }
    }

    /// The same failure, for another one who waited for the same thing.
    pub(crate) fn again(&self) -> Self {
        Self { doing: self.doing.clone(), cause: self.cause.to_string().into(), trouble: self.trouble, hint: self.hint }
    }

    /// Adds what to try.
    pub(crate) fn with_hint(self, hint: &'static str) -> Self {
        Self { hint: Some(hint), ..self }
    }

    /// What to try, where the message does not say it already.
    #[must_use]
    pub const fn hint(&self) -> Option<&'static str> {
        self.hint
    }

    /// Whether the service works, and only cannot write anything.
    pub(crate) const fn is_of_the_disk(&self) -> bool {
        self.trouble.is_some()
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

impl Trouble {
    fn behind(cause: &(dyn StdError + 'static)) -> Option<Self> {
        let of_io = cause.downcast_ref().and_then(Self::of_io);
        of_io
            .or_else(|| cause.downcast_ref().and_then(Self::of_the_database))
            .or_else(|| cause.source().and_then(Self::behind))
    }

    fn of_io(cause: &io::Error) -> Option<Self> {
        match cause.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => Some(Self::NoRoom),
            // The last two: a file stands where a folder has to be.
            ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::NotADirectory
            | ErrorKind::AlreadyExists => Some(Self::NotWritable),
            _ => None,
        }
    }

    /// By the result codes of SQLite.
    fn of_the_database(cause: &sqlx::Error) -> Option<Self> {
        let code = cause.as_database_error()?.code()?;
        match code.parse::<i32>().ok()? {
            // SQLITE_FULL; SQLITE_IOERR when writing, syncing, and making files longer or shorter, which
            // is how SQLite tells of quotas and limits.
            13 | 778 | 1034 | 1546 | 4874 => Some(Self::NoRoom),
            // SQLITE_PERM, SQLITE_READONLY, SQLITE_CANTOPEN
            code if matches!(code & 0xff, 3 | 8 | 14) => Some(Self::NotWritable),
            _ => None,
        }
    }

    const fn remedy(self) -> &'static str {
        match self {
            Self::NoRoom => {
                "make room on the disk of the data folder, or raise the quota; a service that runs goes on \
                 by itself then"
            }
            Self::NotWritable => {
                "let the user of the service write to the data folder and everything in it, or choose \
                 another one"
            }
        }
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
        write!(f, "{} failed: {}", self.doing, self.cause)?;
        match self.trouble {
            Some(trouble) => write!(f, "; {}", trouble.remedy()),
            None => Ok(()),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.cause)
    }
}

impl From<sqlx::Error> for Error {
    fn from(cause: sqlx::Error) -> Self {
        Self::keeping("using the database", cause)
    }
}
