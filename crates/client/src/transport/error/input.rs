//! Errors of inputs and outputs of a run: files, and invalid inputs.

use std::error::Error as StdError;
use std::time::Duration;

use thiserror::Error;

use crate::transport::redact::{Redactor, printable};

const MAX_SHOWN: usize = 20;

/// Error of one file: local, in transfer, or in object storage.
#[derive(Debug, Error)]
#[error("{}{}: {message}", field.as_ref().map(|field| format!("{field}: ")).unwrap_or_default(), printable_name(file))]
#[non_exhaustive]
pub struct FileError {
    /// Input field of the file, if it was an input of a run.
    pub field: Option<String>,
    /// Path or name of the file, or the host of a download.
    pub file: String,
    /// Class of the error.
    pub kind: FileErrorKind,
    /// Problem, on one line, without the cause that [`source`](StdError::source) returns.
    pub message: String,
    /// HTTP status of object storage, if it responded.
    pub status: Option<u16>,
    /// `Retry-After` of object storage.
    pub retry_after: Option<Duration>,
    pub(crate) source: Option<Box<dyn StdError + Send + Sync>>,
}

/// Class of a file error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileErrorKind {
    /// No such file on this machine, or at the URL of a download.
    NotFound,
    /// The file cannot be read.
    Unreadable,
    /// The file is empty; the storage accepts no empty files.
    Empty,
    /// The file, or the content of a download, is larger than its limit.
    TooLarge,
    /// The content changed during the transfer.
    Changed,
    /// The file has no valid name for storage.
    InvalidName,
    /// The explicit MIME type is invalid.
    InvalidMimeType,
    /// The destination of a download exists, and must not or cannot be replaced; or a file is stored under the name of an
    /// upload that must not replace it.
    AlreadyExists,
    /// The destination of a download cannot be written.
    Unwritable,
    /// The service returned an invalid upload target.
    InvalidTarget,
    /// Object storage denied access: the presigned target or the URL is invalid or has expired.
    Forbidden,
    /// Object storage rejected the request for another reason.
    Rejected,
    /// The certificate of object storage is not trusted, has expired, or is for another name.
    CertificateRefused,
    /// Object storage was unreachable, failed, or the connection broke, after all retries.
    Transport,
}

impl FileError {
    /// Makes an error about `file`, for tests and for implementations outside of this crate.
    pub fn new(file: impl Into<String>, kind: FileErrorKind, message: impl Into<String>) -> Self {
        Self {
            field: None,
            file: file.into(),
            kind,
            message: message.into(),
            status: None,
            retry_after: None,
            source: None,
        }
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { source: Some(source.into()), ..self }
    }

    /// Returns the hint: what to try.
    pub fn hint(&self) -> &'static str {
        match self.kind {
            FileErrorKind::NotFound if self.status.is_some() => {
                "check the URL; the file may have been deleted"
            }
            FileErrorKind::NotFound => "check the path",
            FileErrorKind::Unreadable => {
                "check the permissions; File::reader reads anything but regular files"
            }
            FileErrorKind::Empty => "give a file with content",
            FileErrorKind::TooLarge => "use a smaller file; the limit of a download is its max_size",
            FileErrorKind::Changed => "try again when the content no longer changes",
            FileErrorKind::InvalidName => "give the file a name",
            FileErrorKind::InvalidMimeType => "give a MIME type such as image/png",
            FileErrorKind::AlreadyExists => "choose another name, or allow overwriting (regular files only)",
            FileErrorKind::Unwritable => "check the folder, its permissions and the free space",
            FileErrorKind::InvalidTarget => "report this to the operator of the service",
            FileErrorKind::Forbidden => "get a new URL; if that fails too, check the balance and the clocks",
            FileErrorKind::Rejected => "fix what the message names; the same transfer fails again",
            FileErrorKind::CertificateRefused => {
                "trust the authority of the certificate, or correct the address"
            }
            FileErrorKind::Transport if self.status.is_some() => "try again later",
            FileErrorKind::Transport => "check the network and try again",
        }
    }
}

/// Returns the name of a file on one line; a name may contain anything, or be empty.
fn printable_name(file: &str) -> String {
    let file = printable(file);
    if file.is_empty() { "the file".to_owned() } else { file }
}

/// Inputs that do not match the model. Nothing was sent. `Display` is one line; [`violations`](Self::violations) lists.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", listed(violations))]
#[non_exhaustive]
pub struct InvalidInputs {
    /// All violations, in the order of the model's parameters; undeclared inputs come last.
    pub violations: Vec<Violation>,
    /// Names of all declared parameters, in order.
    pub parameters: Vec<String>,
}

impl InvalidInputs {
    /// Makes an error of these violations, for tests.
    pub fn new(violations: Vec<Violation>, parameters: Vec<String>) -> Self {
        Self { violations, parameters }
    }

    /// Redacts the secrets that the declaration of the model may contain.
    pub(crate) fn redacted(mut self, redactor: &Redactor) -> Self {
        let violations = self.violations.iter_mut();
        let texts = violations.flat_map(|violation| [&mut violation.field, &mut violation.message]);
        texts.chain(&mut self.parameters).for_each(|text| *text = redactor.mask(text));
        self
    }

    /// Returns true if one of the violations is of this kind.
    pub fn has(&self, kind: ViolationKind) -> bool {
        self.violations.iter().any(|violation| violation.kind == kind)
    }
}

fn listed(violations: &[Violation]) -> String {
    let shown: Vec<_> = violations.iter().take(MAX_SHOWN).map(|violation| &*violation.message).collect();
    let shown = shown.join("; ");
    match violations.len().saturating_sub(MAX_SHOWN) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}

/// One input, and the reason why it does not match. `Display` is the message, which begins with the input's name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct Violation {
    /// Name of the input, exactly as given or declared.
    pub field: String,
    /// Kind of the violation.
    pub kind: ViolationKind,
    /// Message: one bounded line, without control characters and the query of a URL, which may be a signature.
    pub message: String,
}

impl Violation {
    /// Makes a violation. The message should be one line and begin with the name of the input.
    pub fn new(field: impl Into<String>, kind: ViolationKind, message: impl Into<String>) -> Self {
        Self { field: field.into(), kind, message: message.into() }
    }
}

/// Kind of a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ViolationKind {
    /// A required input is absent or null.
    Missing,
    /// The model declares no parameter of this name.
    Undeclared,
    /// The value has another type than the parameter, such as a list where a number belongs.
    WrongType,
    /// The number is below the minimum or above the maximum.
    OutOfRange,
    /// The value is not one of the options, which are compared exactly.
    NotAnOption,
    /// The value of a file parameter is not an absolute URL over http or https.
    NotAUrl,
    /// The file has a MIME type that the parameter does not accept.
    MimeType,
    /// The picture has more pixels than the parameter accepts.
    TooManyPixels,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_error_is_one_line_and_does_not_repeat_its_cause() {
        let error = FileError::new("a\nb\u{1b}.jpg", FileErrorKind::Empty, "it is empty");
        assert_eq!(error.to_string(), "a b.jpg: it is empty");
        let mut error = FileError::new("photo.jpg", FileErrorKind::Unreadable, "it cannot be read")
            .with_source("the disk is gone");
        assert_eq!(error.to_string(), "photo.jpg: it cannot be read");
        error.field = Some("input".to_owned());
        assert_eq!(error.to_string(), "input: photo.jpg: it cannot be read");
        assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("the disk is gone"));
    }
}
