//! Why a node cannot serve: what was being done, and why it failed.

use std::error::Error as StdError;
use std::fmt;

/// Why a node cannot serve. A failure of a single task is reported to the service instead.
#[derive(Debug)]
pub struct Error {
    doing: String,
    cause: Box<dyn StdError + Send + Sync>,
}

impl Error {
    /// Something failed while `doing` it (a phrase like "reading the configuration").
    pub fn new(doing: impl Into<String>, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
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
