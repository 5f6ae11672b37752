//! Errors about profiles.

use std::fmt;

/// Why a profile cannot be used or stored. No message quotes a key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProfileError {
    /// The kind of the failure.
    pub kind: ProfileErrorKind,
    /// The failure, on one line.
    pub message: String,
    /// Next step to try.
    pub hint: String,
}

/// The kind of a [`ProfileError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProfileErrorKind {
    /// The environment names no folder for the file of profiles.
    NoFolder,
    /// The file cannot be read or written.
    File,
    /// The file has something else than profiles.
    Syntax,
    /// No profile is named, and none is in use.
    NoneInUse,
    /// There is no profile of this name.
    Unknown,
    /// The key command printed no key.
    Key,
    /// The profile has no valid base URL or key.
    Client,
}

impl ProfileError {
    pub(crate) fn new(kind: ProfileErrorKind, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: hint.into() }
    }

    pub(crate) fn of_file(message: String) -> Self {
        Self::new(ProfileErrorKind::File, message, "correct that on this machine and try again")
    }
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ProfileError {}
