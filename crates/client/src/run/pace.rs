//! How often a task is read while it is waited for. Pure: from what has passed to the next pause.

use std::time::Duration;

/// How often a task is read while it is waited for.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum PollInterval {
    /// Often at first, then in steps that grow with the wait: a task of a second is noticed within
    /// half a second, one of a minute after 14 reads, one of ten minutes after 41.
    #[default]
    Adaptive,
    /// What the service suggests for fast models: every 2 to 5 seconds.
    Fast,
    /// What the service suggests for long jobs: every 10 to 30 seconds.
    Long,
    /// From the first pause on, growing by half to the longest.
    Between {
        /// The first pause.
        first: Duration,
        /// The longest pause.
        longest: Duration,
    },
}

/// By how much a pause grows over the one before.
const GROWTH: f64 = 1.5;

/// No pause is shorter, whatever a caller asks for.
const SHORTEST: Duration = Duration::from_millis(10);

/// No pause is longer either: beyond some length clocks cannot be added to.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

/// The adaptive pace: where it begins, where it levels off, and from when on it follows the wait.
const ADAPTIVE_FIRST: Duration = Duration::from_millis(500);
const ADAPTIVE_PLATEAU: Duration = Duration::from_millis(6_500);
const ADAPTIVE_LONG_WAIT: Duration = Duration::from_secs(60);
const ADAPTIVE_SHARE_OF_WAIT: f64 = 0.1;
const ADAPTIVE_LONGEST: Duration = Duration::from_secs(30);

impl PollInterval {
    /// The pause before the next read, after so many reads and so long a wait.
    pub(crate) fn pause(&self, reads: u32, waited: Duration) -> Duration {
        match self {
            Self::Adaptive if waited > ADAPTIVE_LONG_WAIT => {
                waited.mul_f64(ADAPTIVE_SHARE_OF_WAIT).clamp(ADAPTIVE_PLATEAU, ADAPTIVE_LONGEST)
            }
            Self::Adaptive => grown(ADAPTIVE_FIRST, ADAPTIVE_PLATEAU, reads),
            Self::Fast => grown(Duration::from_secs(2), Duration::from_secs(5), reads),
            Self::Long => grown(Duration::from_secs(10), Duration::from_secs(30), reads),
            Self::Between { first, longest } => grown(*first, *longest, reads),
        }
    }
}

fn grown(first: Duration, longest: Duration, reads: u32) -> Duration {
    // Past that, any pause has reached its longest.
    let factor = GROWTH.powi(i32::try_from(reads.min(60)).unwrap_or_default());
    let seconds = (first.as_secs_f64() * factor).min(longest.min(LONGEST).as_secs_f64());
    Duration::from_secs_f64(seconds).max(SHORTEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many reads it takes to see the end of a task of that length, and how late that is.
    fn reads_and_overshoot(pace: &PollInterval, length: Duration) -> (u32, Duration) {
        let (mut reads, mut waited) = (0, Duration::ZERO);
        while waited < length {
            waited += pace.pause(reads, waited);
            reads += 1;
        }
        (reads, waited - length)
    }

    #[test]
    fn a_minute_takes_at_most_15_reads_and_is_overshot_by_at_most_3_seconds() {
        let (reads, overshoot) = reads_and_overshoot(&PollInterval::Adaptive, Duration::from_secs(60));
        assert!(reads <= 15 && overshoot <= Duration::from_secs(3), "{reads} reads, {overshoot:?}");
        assert_eq!(reads, 14, "as the documentation says");
    }

    #[test]
    fn ten_minutes_take_at_most_45_reads_and_are_overshot_by_at_most_a_tenth() {
        let (reads, overshoot) = reads_and_overshoot(&PollInterval::Adaptive, Duration::from_secs(600));
        assert!(reads <= 45 && overshoot <= Duration::from_secs(60), "{reads} reads, {overshoot:?}");
        assert_eq!(reads, 41, "as the documentation says");
    }

    #[test]
    fn no_length_is_overshot_by_much() {
        for tenths in 1..36_000 {
            let length = Duration::from_millis(tenths * 100);
            let (_, overshoot) = reads_and_overshoot(&PollInterval::Adaptive, length);
            // A pause is at most half of what was waited before, and the first one.
            let allowed = (length / 2 + ADAPTIVE_FIRST).min(ADAPTIVE_PLATEAU).max(length / 10);
            assert!(overshoot <= allowed, "{length:?} was overshot by {overshoot:?}");
        }
    }

    #[test]
    fn the_suggested_paces_stay_within_what_the_service_suggests() {
        for (pace, from, to) in [(PollInterval::Fast, 2, 5), (PollInterval::Long, 10, 30)] {
            for reads in 0..1_000 {
                let pause = pace.pause(reads, Duration::from_secs(u64::from(reads) * 10));
                assert!((from..=to).contains(&pause.as_secs()), "{pace:?}: {pause:?}");
            }
        }
    }

    #[test]
    fn a_pace_of_nothing_still_leaves_the_service_some_air() {
        let pace = PollInterval::Between { first: Duration::ZERO, longest: Duration::ZERO };
        assert_eq!(pace.pause(0, Duration::ZERO), SHORTEST);
    }

    mod properties {
        use proptest::prelude::*;

        use super::*;

        fn lengths() -> impl Strategy<Value = Duration> {
            prop_oneof![
                (0_u64..10_000).prop_map(Duration::from_millis),
                any::<u64>().prop_map(Duration::from_nanos),
                any::<u64>().prop_map(Duration::from_secs),
                Just(Duration::MAX),
            ]
        }

        proptest! {
            #[test]
            fn pauses_grow_up_to_the_longest_and_can_be_added_to_any_clock(
                first in lengths(), longest in lengths(), reads in 0_u32..200, waited in lengths(),
            ) {
                let pace = PollInterval::Between { first, longest };
                let (pause, next) = (pace.pause(reads, waited), pace.pause(reads + 1, waited));
                prop_assert!(pause <= next && next <= longest.clamp(SHORTEST, LONGEST));
                prop_assert!(tokio::time::Instant::now().checked_add(next).is_some());
                for pace in [PollInterval::Adaptive, PollInterval::Fast, PollInterval::Long] {
                    let pause = pace.pause(reads, waited);
                    prop_assert!((SHORTEST..=ADAPTIVE_LONGEST).contains(&pause), "{pace:?} {pause:?}");
                }
            }
        }
    }
}
