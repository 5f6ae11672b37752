//! Redaction: types for secrets, which cannot be printed by accident.

use std::fmt;

#[cfg(feature = "client")]
use reqwest::header::{HeaderValue, InvalidHeaderValue};
use serde::{Deserialize, Deserializer, Serialize};
use zeroize::Zeroize;

/// `Debug` and `Display` of every secret.
const MASK: &str = "…";

/// API key. It prints as `…`; only [`expose`](Self::expose) returns the text. It deserializes from a
/// configuration and never serializes. Its memory is overwritten on drop; copies are not, such as the headers
/// of a sent request or the configuration file.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Makes a key from its text, without surrounding white space.
    pub fn new(key: impl AsRef<str>) -> Self {
        Self(key.as_ref().trim().to_owned())
    }

    /// Returns the text of the key. Keep it out of logs.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns the value of a header that prints as `Sensitive`.
    #[cfg(feature = "client")]
    pub(crate) fn to_header(&self) -> Result<HeaderValue, InvalidHeaderValue> {
        let mut value = HeaderValue::from_str(&self.0)?;
        value.set_sensitive(true);
        Ok(value)
    }
}

impl Drop for ApiKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl From<&str> for ApiKey {
    fn from(key: &str) -> Self {
        Self::new(key)
    }
}

/// As [`ApiKey::new`]; the memory of the given text is overwritten.
impl From<String> for ApiKey {
    fn from(mut text: String) -> Self {
        let key = Self::new(&text);
        text.zeroize();
        key
    }
}

impl<'de> Deserialize<'de> for ApiKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

/// Text that grants access, such as the target of a presigned upload. It prints as `…`; only
/// [`expose`](Self::expose) returns the text. It serializes as the text.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Returns the text. Keep it out of logs.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test that cannot go on says so by panicking")]
mod tests {
    use super::ApiKey;

    #[test]
    fn a_key_is_read_from_a_configuration_and_its_errors_do_not_show_it() {
        let key: ApiKey = serde_json::from_str("\" key\\n\"").expect("it is a text");
        assert_eq!(key.expose(), "key");
        assert!(serde_json::from_str::<ApiKey>("null").is_err());
    }
}
