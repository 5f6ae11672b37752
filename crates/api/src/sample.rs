//! Sample values of a parameter. Their JSON type shows how the parameter is sent.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::scalar::Scalar;

/// Sample value of a parameter. Samples are strings, even numeric ones, and a parameter with string samples
/// is sent as a string. An installation may return samples as numbers: then the parameter is sent as a
/// number.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sample(Scalar);

impl Sample {
    /// Returns the text of the sample, without quotes.
    pub fn as_str(&self) -> &str {
        self.0.text()
    }

    /// Returns true if the sample is a string.
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
