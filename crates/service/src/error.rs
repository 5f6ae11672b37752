//! What can go wrong when the service starts or keeps its data: what was being done, why it failed, and
//! what an operator can do about it.

use std::error::Error as StdError;
use std::fmt;
use std::io::{self, ErrorKind};

type Cause = Box<dyn StdError + Send + Sync>;

/// What the parts of the service return.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of the service itself, as opposed to a request that it refuses.
#[derive(Debug)]
pub struct Error {
    doing: String,
    cause: Cause,
    disk: Option<DiskFailure>,
    hint: Option<&'static str>,
    kind: Kind,
}

/// What a caller does about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Other,
    Unavailable,
    #[cfg_attr(
        not(any(feature = "postgres", test)),
        expect(dead_code, reason = "SQLite knows what it committed")
    )]
    InDoubt,
    NotFound,
    Setting,
    FolderTaken,
}

/// Why nothing can be written to the data folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiskFailure {
    /// The disk is full, or a quota is used up.
    Full,
    NotWritable,
}

impl Error {
    /// Something failed while `doing` it (a phrase like "opening the database").
    pub(crate) fn new(doing: impl Into<String>, cause: impl Into<Cause>) -> Self {
        Self { doing: doing.into(), cause: cause.into(), disk: None, hint: None, kind: Kind::Other }
    }

    /// The same for something that is named and does not exist.
    pub(crate) fn not_found(doing: impl Into<String>, cause: impl Into<Cause>) -> Self {
        Self { kind: Kind::NotFound, ..Self::new(doing, cause) }
    }

    /// The same for a setting that is wrong.
    pub(crate) fn setting(doing: impl Into<String>, cause: impl Into<Cause>) -> Self {
        Self { kind: Kind::Setting, ..Self::new(doing, cause) }
    }

    /// The same for a data folder that another service uses.
    pub(crate) fn folder_taken(doing: impl Into<String>) -> Self {
        let cause = "another service uses it; stop that one, or choose another folder";
        Self { kind: Kind::FolderTaken, ..Self::new(doing, cause) }
    }

    /// The same for an engine that others keep or use, such as an object store, and that is busy or cannot be reached:
    /// nothing was done, and a retry may succeed.
    pub(crate) fn unavailable(doing: impl Into<String>, cause: impl Into<Cause>) -> Self {
        Self { kind: Kind::Unavailable, ..Self::new(doing, cause) }
    }

    /// The same for a write that may have been committed.
    #[cfg(any(feature = "postgres", test))]
    pub(crate) fn in_doubt(doing: impl Into<String>, cause: impl Into<Cause>) -> Self {
        Self { kind: Kind::InDoubt, ..Self::new(doing, cause) }
    }

    /// The same for what concerns the data folder: it says what to try when that is full or not writable. Too many open
    /// files are an outage, which passes.
    pub(crate) fn keeping(doing: impl Into<String>, cause: impl Into<Cause>) -> Self {
        let error = Self::new(doing, cause);
        let disk = DiskFailure::behind(&*error.cause);
        let kind = if has_too_many_files(&*error.cause) { Kind::Unavailable } else { Kind::Other };
        Self { disk, kind, ..error }
    }

    /// The same failure, with what the engine of the database reports of the disk.
    pub(crate) fn with_disk_failure(self, disk: Option<DiskFailure>) -> Self {
        Self { disk, ..self }
    }

    /// The same failure, for another one who waited for the same thing.
    pub(crate) fn again(&self) -> Self {
        let cause = self.cause.to_string().into();
        Self { doing: self.doing.clone(), cause, ..*self }
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
        self.disk.is_some()
    }

    /// Whether a retry may succeed, because an engine that others keep or use is busy or cannot be reached now.
    pub(crate) const fn is_unavailable(&self) -> bool {
        matches!(self.kind, Kind::Unavailable)
    }

    /// Whether a write failed in such a way that it may have been committed.
    pub(crate) const fn is_in_doubt(&self) -> bool {
        matches!(self.kind, Kind::InDoubt)
    }

    /// Whether something that is named does not exist.
    pub(crate) const fn is_not_found(&self) -> bool {
        matches!(self.kind, Kind::NotFound)
    }

    /// Whether a setting is wrong: the URL of object storage, the key of the first account, or a data folder that holds
    /// other files.
    #[must_use]
    pub const fn is_setting(&self) -> bool {
        matches!(self.kind, Kind::Setting)
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
    pub const fn is_folder_taken(&self) -> bool {
        matches!(self.kind, Kind::FolderTaken)
    }
}

fn has_too_many_files(cause: &(dyn StdError + 'static)) -> bool {
    let code = cause.downcast_ref().and_then(io::Error::raw_os_error);
    // ENFILE and EMFILE.
    cfg!(unix) && matches!(code, Some(23 | 24))
}

impl DiskFailure {
    fn behind(cause: &(dyn StdError + 'static)) -> Option<Self> {
        let of_io = cause.downcast_ref().and_then(Self::of_io);
        of_io.or_else(|| cause.source().and_then(Self::behind))
    }

    fn of_io(cause: &io::Error) -> Option<Self> {
        match cause.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => Some(Self::Full),
            // The last two: a file stands where a folder has to be.
            ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::NotADirectory
            | ErrorKind::AlreadyExists => Some(Self::NotWritable),
            _ => None,
        }
    }

    const fn remedy(self) -> &'static str {
        match self {
            Self::Full => {
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed: {}", self.doing, self.cause)?;
        match self.disk {
            Some(failure) => write!(f, "; {}", failure.remedy()),
            None => Ok(()),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.cause)
    }
}
