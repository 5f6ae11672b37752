//! Sample values of a parameter, whose shape says how the parameter is sent.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::scalar::Scalar;

/// A sample value. Samples are strings, numeric-looking ones included, and a parameter with samples is sent
/// as a string. A number that another installation sends as a sample is kept as a number: a parameter with
/// such samples is sent as a number.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sample(Scalar);

impl Sample {
    /// The text of the sample, without quotes.
    pub fn as_str(&self) -> &str {
        self.0.text()
    }

    /// Whether the sample is a string.
    pub fn is_string(&self) -> bool {
        self.0.is_quoted()
    }
}

impl From<&str> for Sample {
    fn from(text: &str) -> Self {
        Self(Scalar::quoted(text))
    }
}

impl From<String> for Sample {
    fn from(text: String) -> Self {
        Self(Scalar::quoted(text))
    }
}

impl From<i64> for Sample {
    fn from(number: i64) -> Self {
        Self(Scalar::unquoted(number.to_string()))
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
