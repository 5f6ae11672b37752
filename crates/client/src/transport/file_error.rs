//! What can go wrong with a file.

use std::error::Error as StdError;
use std::fmt;

/// A file that could not be read, uploaded, downloaded or written.
#[derive(Debug)]
#[non_exhaustive]
pub struct FileError {
    /// The input field that named the file, if it was an input.
    pub field: Option<String>,
    /// The file, by the name or path that was given, or the host for a download.
    pub file: String,
    /// What went wrong.
    pub problem: String,
    pub(crate) source: Option<Box<dyn StdError + Send + Sync>>,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(field) = &self.field {
            write!(f, "{field}: ")?;
        }
        write!(f, "{}: {}", self.file, self.problem)
    }
}
