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
}

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
