//! Error of a node: the operation and its cause.

use std::error::Error as StdError;

/// Reason why a node cannot serve. The node reports the failure of a single task to the service instead.
#[derive(Debug, thiserror::Error)]
#[error("{doing} failed: {cause}")]
pub struct Error {
    doing: String,
    #[source]
    cause: Box<dyn StdError + Send + Sync>,
}

impl Error {
    /// Makes an error from the operation (a phrase such as "reading the configuration") and its cause.
    pub fn new(doing: impl Into<String>, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { doing: doing.into(), cause: cause.into() }
    }
}
