//! Errors of the service at start or in its storage: the operation, the cause, and a hint for the operator.

use std::error::Error as StdError;
use std::fmt;
use std::io::{self, ErrorKind};

type Cause = Box<dyn StdError + Send + Sync>;

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of the service itself, as opposed to a refused request.
#[derive(Debug)]
pub struct Error {
    doing: String,
    cause: Cause,
    disk: Option<DiskFailure>,
    /// The disk is that of a backup or an export, and not of the data folder.
    is_of_copy: bool,
    hint: Option<&'static str>,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Other,
    Unavailable,
    InDoubt,
    NotFound,
    Setting,
    FolderTaken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiskFailure {
    Full,
    /// Full disk of a database server.
    #[cfg(feature = "postgres")]
    ServerFull,
    NotWritable,
    /// Failure of SQLite to open a file, which has several causes.
    NotOpened,
}

impl Error {
    /// Creates an error of an operation. `doing` is a phrase like "opening the database".
    pub(crate) fn new(doing: impl Into<String>, cause: impl Into<Cause>) -> Self {
        let (doing, cause) = (doing.into(), cause.into());
        Self { doing, cause, disk: None, is_of_copy: false, hint: None, kind: Kind::Other }
    }

    pub(crate) fn not_found(doing: impl Into<String>, cause: impl Into<Cause>) -> Self {
        Self { kind: Kind::NotFound, ..Self::new(doing, cause) }
    }

    pub(crate) fn setting(doing: impl Into<String>, cause: impl Into<Cause>) -> Self {
        Self { kind: Kind::Setting, ..Self::new(doing, cause) }
    }

    pub(crate) fn folder_taken(doing: impl Into<String>) -> Self {
        let cause = "another service uses it; stop that one, or choose another folder";
        Self { kind: Kind::FolderTaken, ..Self::new(doing, cause) }
    }

    /// Creates an error: an external engine is busy or unreachable. Nothing was done, and a retry may succeed.
    pub(crate) fn unavailable(doing: impl Into<String>, cause: impl Into<Cause>) -> Self {
        Self { kind: Kind::Unavailable, ..Self::new(doing, cause) }
    }

    #[cfg(any(feature = "postgres", test))]
    pub(crate) fn in_doubt(doing: impl Into<String>, cause: impl Into<Cause>) -> Self {
        Self { kind: Kind::InDoubt, ..Self::new(doing, cause) }
    }

    pub(crate) fn after_a_change(self) -> Self {
        Self { kind: Kind::InDoubt, ..self }
    }

    /// Creates an error in the data folder, with the kind of a disk failure. Too many open files count as an outage.
    pub(crate) fn keeping(doing: impl Into<String>, cause: impl Into<Cause>) -> Self {
        let error = Self::new(doing, cause);
        let disk = DiskFailure::behind(&*error.cause);
        let kind = if has_too_many_files(&*error.cause) { Kind::Unavailable } else { Kind::Other };
        Self { disk, kind, ..error }
    }

    pub(crate) fn of_copy(self) -> Self {
        Self { is_of_copy: true, ..self }
    }

    pub(crate) fn with_disk_failure(self, disk: Option<DiskFailure>) -> Self {
        Self { disk, ..self }
    }

    pub(crate) fn again(&self) -> Self {
        let cause = self.cause.to_string().into();
        Self { doing: self.doing.clone(), cause, ..*self }
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn into_cause<T: StdError + 'static>(self) -> Result<T, Self> {
        match self.cause.downcast() {
            Ok(cause) => Ok(*cause),
            Err(cause) => Err(Self { cause, ..self }),
        }
    }

    pub(crate) fn with_hint(self, hint: &'static str) -> Self {
        Self { hint: Some(hint), ..self }
    }

    /// Returns a hint for the operator, unless the message contains it already.
    #[must_use]
    pub const fn hint(&self) -> Option<&'static str> {
        self.hint
    }

    pub(crate) const fn is_of_the_disk(&self) -> bool {
        self.disk.is_some()
    }

    pub(crate) const fn is_unavailable(&self) -> bool {
        matches!(self.kind, Kind::Unavailable)
    }

    pub(crate) const fn is_in_doubt(&self) -> bool {
        matches!(self.kind, Kind::InDoubt)
    }

    pub(crate) const fn is_not_found(&self) -> bool {
        matches!(self.kind, Kind::NotFound)
    }

    /// Returns true if a setting is wrong: a bucket's URL, the first account's key, or a folder with other files.
    #[must_use]
    pub const fn is_setting(&self) -> bool {
        matches!(self.kind, Kind::Setting)
    }

    /// Returns true if another service, perhaps in another process, uses the data folder, which is free after its end.
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
            // `NotADirectory` and `AlreadyExists`: a file exists instead of a folder.
            ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::NotADirectory
            | ErrorKind::AlreadyExists => Some(Self::NotWritable),
            _ => None,
        }
    }

    const fn remedy(self, is_of_copy: bool) -> &'static str {
        match self {
            Self::Full if is_of_copy => "make room on the disk of that folder, or name another folder",
            Self::NotWritable if is_of_copy => {
                "let the user of this process write to that folder, or name another one"
            }
            Self::NotOpened if is_of_copy => {
                "let the user of this process write to that folder, name one with a shorter path, or let the process \
                 open more files (`ulimit -n`)"
            }
            Self::Full => {
                "make room on the disk of the data folder, or raise the quota; a service that runs goes on \
                 by itself then"
            }
            #[cfg(feature = "postgres")]
            Self::ServerFull => "make room on the disk of the database server, or raise its quota",
            Self::NotWritable => {
                "let the user of the service write to the data folder and everything in it, or choose \
                 another one"
            }
            Self::NotOpened => {
                "let the user of the service write to the data folder and everything in it, choose one with a \
                 shorter path, or let the service open more files (`ulimit -n`)"
            }
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed: {}", self.doing, self.cause)?;
        match self.disk {
            Some(failure) => write!(f, "; {}", failure.remedy(self.is_of_copy)),
            None => Ok(()),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.cause)
    }
}
