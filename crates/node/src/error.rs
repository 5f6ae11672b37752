//! Error of a node: the operation and its cause.

use std::error::Error as StdError;
use std::fmt;

/// Reason why a node cannot serve. The node reports the failure of a single task to the service instead.
#[derive(Debug)]
pub struct Error {
    doing: String,
    cause: Box<dyn StdError + Send + Sync>,
}

impl Error {
    /// Makes an error from the operation (a phrase such as "reading the configuration") and its cause.
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
