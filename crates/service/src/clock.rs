//! What time it is, for everything in the service: the system's clock, which a tester may set ahead.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

/// A moment, in milliseconds since 1970 in UTC: what the database keeps and compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Moment(pub(crate) i64);

impl Moment {
    pub(crate) fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }

    pub(crate) fn before(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }

    /// The day since 1970 in UTC.
    pub(crate) const fn day(self) -> i64 {
        self.0.div_euclid(24 * 60 * 60 * 1000)
    }

    pub(crate) fn timestamp(self) -> Timestamp {
        Timestamp::from_millisecond(self.0).unwrap_or(Timestamp::MAX)
    }
}

impl fmt::Display for Moment {
    /// ISO 8601 in UTC, always with milliseconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.timestamp())
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The clock of one service. Clones show the same time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clock {
    /// By how many milliseconds the clock is ahead of the system's.
    ahead: Arc<AtomicI64>,
}

impl Clock {
    pub(crate) fn now(&self) -> Moment {
        Moment(Timestamp::now().as_millisecond().saturating_add(self.ahead()))
    }

    /// By how many milliseconds the clock is ahead of the system's.
    pub(crate) fn ahead(&self) -> i64 {
        self.ahead.load(Ordering::Relaxed)
    }

    pub(crate) fn set_ahead(&self, milliseconds: i64) {
        self.ahead.store(milliseconds, Ordering::Relaxed);
    }

    /// Sets the clock further ahead.
    pub(crate) fn advance(&self, span: Duration) {
        let span = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        let _ = self
            .ahead
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |ahead| Some(ahead.saturating_add(span)));
    }
}
