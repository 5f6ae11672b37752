//! Errors about profiles.

/// Reason why a profile cannot be used or stored. No message contains a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct ProfileError {
    /// Kind of the failure.
    pub kind: ProfileErrorKind,
    /// Failure, on one line.
    pub message: String,
    /// Next step to try.
    pub hint: String,
}

/// Kind of a [`ProfileError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProfileErrorKind {
    /// The environment names no folder for the profiles file.
    NoFolder,
    /// The file cannot be read or written.
    File,
    /// The file is not a profiles file.
    Syntax,
    /// No profile is named or selected.
    NoneInUse,
    /// No profile has this name.
    Unknown,
    /// The key command printed no key.
    Key,
    /// The base URL, the key, the file of certificates or the proxy is invalid.
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
