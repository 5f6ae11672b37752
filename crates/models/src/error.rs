//! Errors of a run. The texts are for the person who sent the inputs: the input, the problem, and a remedy.

use std::fmt;

/// Reason why a run has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Missing input.
    Missing {
        /// Name of the input.
        input: String,
    },
    /// Input that the model cannot use.
    Unusable {
        /// Name of the input.
        input: String,
        /// Problem and remedy.
        reason: String,
    },
    /// Input that is not a readable picture.
    NotAPicture {
        /// Name of the input.
        input: String,
        /// Error of the decoder.
        reason: String,
    },
    /// Input above the limits of the run.
    TooLarge {
        /// Name of the input.
        input: String,
        /// Size and limit.
        reason: String,
    },
    /// Timeout of the run.
    TimedOut,
    /// Failure of the method itself.
    Failed {
        /// Cause.
        reason: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { input } => write!(f, "the input `{input}` is missing; send it"),
            Self::Unusable { input, reason } => write!(f, "the input `{input}` cannot be used: {reason}"),
            Self::NotAPicture { input, reason } => write!(
                f,
                "the input `{input}` is not a picture that can be read ({reason}); send a whole PNG, JPEG, \
                 WebP, GIF, BMP or TIFF file"
            ),
            Self::TooLarge { input, reason } => {
                write!(f, "the input `{input}` is too large: {reason}; send a smaller picture")
            }
            Self::TimedOut => {
                write!(f, "the run took longer than it may and was stopped; send a smaller picture")
            }
            Self::Failed { reason } => write!(f, "the model could not finish: {reason}"),
        }
    }
}

impl std::error::Error for Error {}
