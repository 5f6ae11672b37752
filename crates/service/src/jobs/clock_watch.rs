//! Watch over the clock: whether data may be deleted by its age, and how much time a bill may count. A clock can be
//! years off at the start of a machine, until it is corrected.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::clock::Moment;
use crate::ledger::MAX_UNMETERED;

/// Time for which the clock goes along with the steady time of this process until it counts as proven.
pub(super) const PROOF: Duration = Duration::from_hours(1);

/// Largest difference to the steady time that is no jump.
const MAX_JUMP: Duration = Duration::from_mins(5);

pub(crate) struct ClockWatch(Mutex<State>);

struct State {
    shown: Moment,
    at: Instant,
    /// Start or latest jump; None after a tester has set the clock, which is no jump.
    since: Option<Instant>,
    metered_at: Instant,
    /// Time before `metered_at` that the next bill may count too.
    unmetered: Duration,
}

impl ClockWatch {
    pub(crate) fn new(shown: Moment, at: Instant) -> Self {
        let state = State { shown, at, since: Some(at), metered_at: at, unmetered: MAX_UNMETERED };
        Self(Mutex::new(state))
    }

    /// Compares the clock with the steady time. Returns true if it is proven.
    pub(super) fn is_proven(&self, shown: Moment, at: Instant) -> bool {
        let mut state = self.0.lock();
        let expected = state.shown.after(at.saturating_duration_since(state.at));
        let jump = shown.0.saturating_sub(expected.0);
        if u128::from(jump.unsigned_abs()) > MAX_JUMP.as_millis() {
            tracing::warn!(
                seconds = jump / 1000,
                "the clock was set, or the machine slept: for an hour, nothing is billed, or deleted or failed by its age"
            );
            // From here on, a gap in the metered time is the jump, not the time of a stopped service.
            (state.since, state.unmetered) = (Some(at), Duration::ZERO);
        }
        (state.shown, state.at) = (shown, at);
        state.since.is_none_or(|since| at.saturating_duration_since(since) >= PROOF)
    }

    /// Counts an advance by a tester as time that has passed.
    #[cfg(any(test, feature = "controls"))]
    pub(crate) fn advance(&self, by: Duration) {
        let mut state = self.0.lock();
        state.since = None;
        state.unmetered = state.unmetered.saturating_add(by);
    }

    /// Returns the largest time that a bill may count: since the last one, or the start and some days before it.
    pub(super) fn billable(&self, at: Instant) -> Duration {
        let state = self.0.lock();
        at.saturating_duration_since(state.metered_at)
            .saturating_add(state.unmetered)
            .saturating_add(MAX_JUMP)
    }

    pub(super) fn billed(&self, at: Instant) {
        let mut state = self.0.lock();
        (state.metered_at, state.unmetered) = (at, Duration::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    #[test]
    fn a_clock_is_proven_an_hour_after_the_start_and_after_each_jump() {
        let (start, began) = (Moment(1_700_000_000_000), Instant::now());
        let watch = ClockWatch::new(start, began);
        let year = HOUR * 24 * 365;
        for (minutes, ahead, is_proven) in [
            (0, Duration::ZERO, false),
            (59, Duration::ZERO, false),
            (60, Duration::from_mins(4), true),
            (61, year, false),
            (120, year, false),
            (121, year, true),
            (122, Duration::ZERO, false),
            (182, Duration::ZERO, true),
        ] {
            let passed = Duration::from_mins(minutes);
            assert_eq!(watch.is_proven(start.after(passed + ahead), began + passed), is_proven, "{minutes}");
        }
    }

    #[test]
    fn a_bill_counts_the_steady_time_and_at_first_that_of_a_stopped_service() {
        let (start, began) = (Moment(0), Instant::now());
        let watch = ClockWatch::new(start, began);
        assert_eq!(watch.billable(began + HOUR), MAX_UNMETERED + HOUR + MAX_JUMP);
        watch.billed(began + HOUR);
        assert_eq!(watch.billable(began + HOUR * 3), HOUR * 2 + MAX_JUMP);
        watch.advance(HOUR * 1_000);
        assert_eq!(watch.billable(began + HOUR * 3), HOUR * 1_002 + MAX_JUMP);

        // The machine started in 1970.
        let watch = ClockWatch::new(start, began);
        watch.is_proven(Moment(1_700_000_000_000), began + HOUR);
        assert_eq!(watch.billable(began + HOUR * 2), HOUR * 2 + MAX_JUMP);
    }
}
