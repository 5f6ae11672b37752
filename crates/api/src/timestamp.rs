//! Timestamps that keep what they cannot read.

use std::fmt;
use std::time::SystemTime;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::scalar::Scalar;

/// A point in time as the service wrote it, ISO 8601 in UTC.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use inferstore_api::Timestamp;
///
/// let stamp = Timestamp::from("1970-01-01T00:01:00Z");
/// assert_eq!(stamp.to_system_time(), Some(UNIX_EPOCH + Duration::from_secs(60)));
/// ```
///
/// An odd stamp in one record must not lose a page of good ones, so any value is accepted and kept;
/// [`to_system_time`](Self::to_system_time) says whether it could be read.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Timestamp(Scalar);

impl Timestamp {
    /// The stamp as it came.
    pub fn as_str(&self) -> &str {
        self.0.text()
    }

    /// The point in time, or `None` if the stamp cannot be read. A stamp that names no offset is
    /// taken as UTC.
    pub fn to_system_time(&self) -> Option<SystemTime> {
        let text = self.as_str();
        let zoned = text.parse::<jiff::Timestamp>();
        let stamp = zoned.or_else(|_| {
            text.parse::<jiff::civil::DateTime>()?
                .to_zoned(jiff::tz::TimeZone::UTC)
                .map(|zoned| zoned.timestamp())
        });
        stamp.ok().map(SystemTime::from)
    }
}

impl From<&str> for Timestamp {
    fn from(text: &str) -> Self {
        Self(Scalar::quoted(text))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Scalar::deserialize(deserializer).map(Self)
    }
}
