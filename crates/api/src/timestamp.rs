//! Timestamps, with unreadable ones preserved.

mod rfc3339;

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

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
/// One invalid timestamp must not lose a page of records, so deserialization and `Timestamp::from` accept and
/// preserve any text; [`to_system_time`](Self::to_system_time) returns `None` for an unreadable one. `parse`
/// rejects unreadable text:
///
/// ```
/// use inferstore_api::Timestamp;
///
/// assert!("2026-04-02 09:30:00.5+02:00".parse::<Timestamp>().is_ok());
/// assert!("yesterday".parse::<Timestamp>().is_err());
/// ```
///
/// Timestamps are ordered by their point in time; unreadable ones come first. They are equal if their texts
/// are; two spellings of one point in time are ordered by their text.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(Scalar);

impl Timestamp {
    /// Returns the timestamp as received.
    pub fn as_str(&self) -> &str {
        self.0.text()
    }

    /// Returns the point in time, in UTC if the text has no offset. `None`: the text is unreadable, or too
    /// early for the system clock.
    pub fn to_system_time(&self) -> Option<SystemTime> {
        let nanoseconds = rfc3339::read(self.as_str())?;
        let (moment, second) = (nanoseconds.unsigned_abs(), 1_000_000_000);
        let since_epoch =
            Duration::new((moment / second).try_into().ok()?, (moment % second).try_into().ok()?);
        // The system clock of Windows begins in 1601.
        let moved = if nanoseconds < 0 { SystemTime::checked_sub } else { SystemTime::checked_add };
        moved(&SystemTime::UNIX_EPOCH, since_epoch)
    }
}

impl FromStr for Timestamp {
    type Err = ParseTimestampError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        rfc3339::read(text).map(|_| Self::from(text)).ok_or(ParseTimestampError(()))
    }
}

/// Text that is not a date and time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseTimestampError(());

impl std::error::Error for ParseTimestampError {}

impl fmt::Display for ParseTimestampError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a timestamp: expected a date and a time such as \"2026-04-02T09:30:00Z\"")
    }
}

/// Formats in UTC with milliseconds.
impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let milliseconds = match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |before| -before),
        };
        Self(Scalar::quoted(rfc3339::write(milliseconds)))
    }
}

impl From<&str> for Timestamp {
    fn from(text: &str) -> Self {
        Self(Scalar::quoted(text))
    }
}

impl From<String> for Timestamp {
    fn from(text: String) -> Self {
        Self(Scalar::quoted(text))
    }
}

impl Ord for Timestamp {
    fn cmp(&self, other: &Self) -> Ordering {
        self.to_system_time().cmp(&other.to_system_time()).then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for Timestamp {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
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

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::Timestamp;

    #[test]
    fn a_stamp_of_any_year_is_read_or_is_none() {
        let read = |text: &str| Timestamp::from(text).to_system_time();
        let second = Duration::from_millis(1_500);
        assert_eq!(read("1969-12-31T23:59:58.5Z"), SystemTime::UNIX_EPOCH.checked_sub(second));
        assert_eq!(read("1970-01-01T00:00:01.5Z"), SystemTime::UNIX_EPOCH.checked_add(second));
        assert_eq!(Timestamp::from(SystemTime::UNIX_EPOCH - second).as_str(), "1969-12-31T23:59:58.500Z");
        for text in ["-009999-01-03T00:00:00Z", "0001-01-01T00:00:00Z", "1600-12-31T23:59:59Z"] {
            assert_eq!(read(text).is_some(), cfg!(not(windows)), "{text}");
        }
        assert_eq!(read("10000-01-01T00:00:00Z"), None);
    }

    #[test]
    fn stamps_are_ordered_by_their_point_in_time() {
        let ascending = [
            "",
            "yesterday",
            "2026-04-02T09:30:00+02:00",
            "2026-04-02T09:30:00+00:00",
            "2026-04-02T09:30:00Z",
            "2026-04-02 09:30:00.5",
            "2026-04-02T11:31:00+02:00",
        ];
        let mut stamps = ascending.map(Timestamp::from);
        stamps.reverse();
        stamps.sort();
        assert_eq!(stamps.each_ref().map(Timestamp::as_str), ascending);
    }
}
