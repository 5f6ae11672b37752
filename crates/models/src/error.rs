//! Why a run gives no result. The texts are for the person who sent the inputs: which input, what is
//! wrong with it, what to try.

use std::fmt;

/// Why a run gives no result.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// An input is not there.
    Missing {
        /// The input.
        input: String,
    },
    /// An input is there, but the model cannot use it.
    Unusable {
        /// The input.
        input: String,
        /// What is wrong with it, and what to send instead.
        reason: String,
    },
    /// An input is not a picture that can be read.
    NotAPicture {
        /// The input.
        input: String,
        /// What the reader found.
        reason: String,
    },
    /// An input is larger than this run may take.
    TooLarge {
        /// The input.
        input: String,
        /// How large it is, and what is allowed.
        reason: String,
    },
    /// The time is over.
    TimedOut,
    /// The method itself could not go on.
    Failed {
        /// What happened.
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
                 WebP, GIF or BMP file"
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
