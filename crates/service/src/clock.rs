//! Clock of the service: the system's clock, which tests can set ahead.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::{Serialize, Serializer};

/// Time in milliseconds since 1970 in UTC, as the database stores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Moment(pub(crate) i64);

impl Moment {
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

    pub(crate) const fn day(self) -> i64 {
        self.0.div_euclid(24 * 60 * 60 * 1000)
    }

    pub(crate) fn timestamp(self) -> Timestamp {
        let nearest = if self.0 < 0 { Timestamp::MIN } else { Timestamp::MAX };
        Timestamp::from_millisecond(self.0).unwrap_or(nearest)
    }
}

impl fmt::Display for Moment {
    /// Writes ISO 8601 in UTC, always with milliseconds.
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

#[derive(Debug, Clone, Default)]
pub(crate) struct Clock {
    /// Offset to the system's clock, in milliseconds.
    ahead: Arc<AtomicI64>,
    followed: Option<Followed>,
}

/// Remote clock, extrapolated by the monotonic time of this process. Changes to the system's clock have no effect.
#[derive(Debug, Clone)]
struct Followed {
    since: Instant,
    /// Time of the remote clock at `since`; each synchronization corrects it.
    began: Arc<AtomicI64>,
}

impl Clock {
    pub(crate) fn following(shown: Moment) -> Self {
        let followed = Followed { since: Instant::now(), began: Arc::new(AtomicI64::new(shown.0)) };
        Self { ahead: Arc::default(), followed: Some(followed) }
    }

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

    pub(crate) fn real_time(&self) -> Moment {
        Moment(self.now().0.saturating_sub(self.ahead()))
    }

    /// Returns the time for signatures, which object stores check by the real time, without the test offset.
    pub(crate) fn signing_time(&self) -> Timestamp {
        self.real_time().timestamp()
    }

    pub(crate) fn ahead(&self) -> i64 {
        self.ahead.load(Ordering::Relaxed)
    }

    pub(crate) fn set_ahead(&self, milliseconds: i64) {
        self.ahead.store(milliseconds, Ordering::Relaxed);
    }

    pub(crate) fn advance(&self, span: Duration) {
        let further = |ahead: i64| Some(ahead.saturating_add(milliseconds(span)));
        let _ = self.ahead.fetch_update(Ordering::Relaxed, Ordering::Relaxed, further);
    }
}

/// Returns the time between two moments; zero if the clock was set back between them.
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
    fn a_following_clock_shows_the_other_time_and_runs_between_readings() {
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
