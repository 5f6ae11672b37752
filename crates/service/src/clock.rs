//! What time it is, for everything in the service: the system's clock, which a tester may set ahead.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::{Serialize, Serializer};

/// A moment, in milliseconds since 1970 in UTC: what the database keeps and compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Moment(pub(crate) i64);

impl Moment {
    /// The last one that has a date.
    #[cfg(feature = "controls")]
    pub(crate) fn last() -> Self {
        Self(Timestamp::MAX.as_millisecond())
    }

    pub(crate) fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(milliseconds(span)))
    }

    pub(crate) fn before(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(milliseconds(span)))
    }

    /// The day since 1970 in UTC.
    pub(crate) const fn day(self) -> i64 {
        self.0.div_euclid(24 * 60 * 60 * 1000)
    }

    pub(crate) fn timestamp(self) -> Timestamp {
        let nearest = if self.0 < 0 { Timestamp::MIN } else { Timestamp::MAX };
        Timestamp::from_millisecond(self.0).unwrap_or(nearest)
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

fn milliseconds(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

/// The clock of one service. Clones show the same time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clock {
    /// By how many milliseconds the clock is ahead of the system's.
    ahead: Arc<AtomicI64>,
    /// The clock that this one follows in place of the system's.
    followed: Option<Followed>,
}

/// A clock elsewhere, by the time since this process began to follow it: what is done to the clock of the system
/// does not matter.
#[derive(Debug, Clone)]
struct Followed {
    since: Instant,
    /// What the other clock showed then, corrected with every look at it.
    began: Arc<AtomicI64>,
}

impl Clock {
    /// A clock that follows another one, which shows this moment now.
    pub(crate) fn following(shown: Moment) -> Self {
        let followed = Followed { since: Instant::now(), began: Arc::new(AtomicI64::new(shown.0)) };
        Self { ahead: Arc::default(), followed: Some(followed) }
    }

    /// Corrects a clock that follows another one, which showed a moment at an instant.
    pub(crate) fn correct(&self, shown: Moment, at: Instant) {
        if let Some(Followed { since, began }) = &self.followed {
            began.store(shown.0.saturating_sub(milliseconds(at - *since)), Ordering::Relaxed);
        }
    }

    pub(crate) fn now(&self) -> Moment {
        let now = match &self.followed {
            Some(Followed { since, began }) => {
                began.load(Ordering::Relaxed).saturating_add(milliseconds(since.elapsed()))
            }
            None => Timestamp::now().as_millisecond(),
        };
        Moment(now.saturating_add(self.ahead()))
    }

    /// The time without what a tester has set the clock ahead by.
    pub(crate) fn real_time(&self) -> Moment {
        Moment(self.now().0.saturating_sub(self.ahead()))
    }

    /// The time of signatures: no object store follows a tester.
    pub(crate) fn signing_time(&self) -> Timestamp {
        self.real_time().timestamp()
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
        let further = |ahead: i64| Some(ahead.saturating_add(milliseconds(span)));
        let _ = self.ahead.fetch_update(Ordering::Relaxed, Ordering::Relaxed, further);
    }
}

/// Returns the time between two moments; zero when the clock was set back between them.
pub(crate) fn elapsed(since: Moment, now: Moment) -> Duration {
    Duration::from_millis(u64::try_from(now.0.saturating_sub(since.0)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retention_without_an_end_reaches_back_before_every_date() {
        let earliest = Moment(1_767_225_600_000).before(Duration::MAX).timestamp();
        assert!(earliest < Timestamp::UNIX_EPOCH, "{earliest}");
        assert_eq!(Moment(0).after(Duration::MAX).timestamp().as_second(), Timestamp::MAX.as_second());
    }

    #[test]
    fn a_clock_that_follows_another_shows_its_time_and_goes_on_between_two_looks() {
        let clock = Clock::following(Moment(5_000));
        let shown = clock.now().0;
        assert!((5_000..6_000).contains(&shown), "{shown}");
        clock.correct(Moment(900_000), Instant::now());
        clock.advance(Duration::from_secs(1));
        let shown = clock.now().0;
        assert!((901_000..902_000).contains(&shown), "{shown}");
        let signed = clock.signing_time().as_millisecond();
        assert!((900_000..901_000).contains(&signed), "{signed}");
    }
}
