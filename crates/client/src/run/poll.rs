//! Poll schedule: computes the delay before the next read of a task. Pure; does no I/O.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::transport::retry::seconds;

/// Intervals between the reads of a task during a wait.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PollInterval {
    /// Four early reads within the first second, then the intervals that the service suggests: 2 to 5 seconds
    /// for fast models, 10 to 30 for long jobs. Learns from earlier tasks: once a few tasks of the model have
    /// ended, the first read is at their duration, at most 30 seconds after the create. The default.
    #[default]
    Adaptive,
    /// Intervals that the service suggests for fast models: every 2 to 5 seconds.
    Fast,
    /// Intervals that the service suggests for long jobs: every 10 to 30 seconds.
    Long,
    /// Delays from the first on, growing by half up to the longest.
    Between {
        /// First delay.
        #[serde(with = "seconds")]
        first: Duration,
        /// Longest delay.
        #[serde(with = "seconds")]
        longest: Duration,
    },
}

impl PollInterval {
    /// Returns a constant interval.
    pub fn every(delay: Duration) -> Self {
        Self::Between { first: delay, longest: delay }
    }

    /// Returns the delay before the next read of a task of unknown duration, after `reads` reads and the time
    /// `waited`. A loop over [`Task::poll`](crate::Task::poll) sleeps for this delay.
    pub fn delay(&self, reads: u32, waited: Duration) -> Duration {
        Schedule { interval: self.clone(), learned: None, jitter: 1.0 }.delay(reads, waited)
    }
}

const GROWTH: f64 = 1.5;

const MIN_DELAY: Duration = Duration::from_millis(10);

/// Longest delay, so that adding to a clock cannot overflow.
const MAX_DELAY: Duration = Duration::from_secs(30 * 24 * 3600);

/// Times of the early reads after the create, for quick models: the suggested intervals leave the first reads open.
const EARLY_READS: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
];

/// Maximum jitter of an early read, as a share of its time: tasks created together are not read together.
const JITTER: f64 = 0.2;

/// Intervals suggested by the service.
const FAST: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(5));
const LONG: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(30));

/// Wait from which a task of unknown duration is a long job.
const LONG_AFTER: Duration = Duration::from_secs(60);

/// Duration from which a task of known duration is a long job.
const LONG_JOB: Duration = Duration::from_secs(300);

/// Delay as a share of the wait, or of the known duration: the relative lateness of noticing the end.
const FAST_SHARE: f64 = 0.45;
const LONG_SHARE: f64 = 0.08;
const KNOWN_SHARE: f64 = 1.0 / 60.0;

const MIN_SAMPLES: usize = 3;

#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    interval: PollInterval,
    learned: Option<Learned>,
    /// Factor of the times of the early reads.
    jitter: f64,
}

#[derive(Clone, Debug)]
struct Learned {
    first_read: Duration,
    delay: Duration,
    longest: Duration,
}

impl Schedule {
    /// Makes a schedule; `durations` are of earlier tasks of the model, shortest first.
    pub(crate) fn new(interval: PollInterval, durations: &[Duration]) -> Self {
        let is_adaptive = interval == PollInterval::Adaptive;
        let learned = if is_adaptive { Learned::of(durations) } else { None };
        Self { interval, learned, jitter: 1.0 + JITTER * fastrand::f64() }
    }

    pub(crate) fn delay(&self, reads: u32, waited: Duration) -> Duration {
        let is_before_first = self.learned.as_ref().is_some_and(|learned| waited < learned.first_read);
        let mut early_reads = EARLY_READS.iter().map(|read| read.mul_f64(self.jitter));
        if self.interval == PollInterval::Adaptive
            && !is_before_first
            && let Some(early) = early_reads.find(|read| *read > waited)
        {
            return (early - waited).max(MIN_DELAY);
        }
        match (&self.learned, &self.interval) {
            (Some(learned), _) if waited < learned.longest.saturating_mul(2) => learned.delay(waited),
            (_, PollInterval::Adaptive) if waited >= LONG_AFTER => {
                waited.mul_f64(LONG_SHARE).clamp(LONG.0, LONG.1)
            }
            (_, PollInterval::Adaptive) => waited.mul_f64(FAST_SHARE).clamp(FAST.0, FAST.1),
            (_, PollInterval::Fast) => grown(FAST.0, FAST.1, reads),
            (_, PollInterval::Long) => grown(LONG.0, LONG.1, reads),
            (_, PollInterval::Between { first, longest }) => grown(*first, *longest, reads),
        }
    }
}

impl Learned {
    fn of(durations: &[Duration]) -> Option<Self> {
        if durations.len() < MIN_SAMPLES {
            return None;
        }
        let median = durations[durations.len() / 2];
        let longest = *durations.last()?;
        let (least, most) = if median < LONG_JOB { FAST } else { LONG };
        let delay = median.mul_f64(KNOWN_SHARE).clamp(least, most);
        let shortest = *durations.first()?;
        let first_read = if longest - shortest > delay * 2 {
            // The end is hard to predict: begin before the shortest duration.
            shortest.saturating_sub(delay)
        } else {
            // Durations are close together: one read sees most tasks end.
            longest
        };
        Some(Self { first_read, delay, longest })
    }

    fn delay(&self, waited: Duration) -> Duration {
        match self.first_read.checked_sub(waited) {
            // Equal parts, so that the caller sees the status now and then.
            Some(until_first) if !until_first.is_zero() => {
                let parts = (until_first.as_secs_f64() / LONG.1.as_secs_f64()).ceil();
                until_first.div_f64(parts).max(MIN_DELAY)
            }
            _ => self.delay,
        }
    }
}

fn grown(first: Duration, longest: Duration, reads: u32) -> Duration {
    // Beyond that, every delay has reached the longest.
    let factor = GROWTH.powi(i32::try_from(reads.min(60)).unwrap_or_default());
    let seconds = (first.as_secs_f64() * factor).min(longest.min(MAX_DELAY).as_secs_f64());
    Duration::from_secs_f64(seconds).max(MIN_DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of reads until the end of a task is noticed, and the lateness.
    fn reads_and_lateness(schedule: &Schedule, duration: Duration) -> (u32, Duration) {
        let mut reads = 0;
        let mut waited = Duration::ZERO;
        while waited < duration {
            waited += schedule.delay(reads, waited);
            reads += 1;
        }
        (reads, waited - duration)
    }

    /// Baseline: a read at once, and one every two seconds.
    fn every_two_seconds(duration: Duration) -> (u32, Duration) {
        let rounds = (duration.as_secs_f64() / 2.0).ceil();
        (rounds as u32 + 1, Duration::from_secs_f64(rounds * 2.0) - duration)
    }

    /// Durations with a uniform spread of 20 %, in a fixed order.
    fn spread(around: Duration, count: u32) -> Vec<Duration> {
        let place = |number: u32| (f64::from(number) + 0.5) / f64::from(count);
        let mut durations: Vec<_> =
            (0..count).map(|number| around.mul_f64(0.8 + 0.4 * place(number))).collect();
        fastrand::Rng::with_seed(7).shuffle(&mut durations);
        durations
    }

    /// Returns average reads and lateness in seconds, over successive tasks.
    fn averages(around: Duration) -> ((f64, f64), (f64, f64)) {
        let durations = spread(around, 2_020);
        let (mut ours, mut theirs) = ((0.0, 0.0), (0.0, 0.0));
        for end in 20..durations.len() {
            let mut known = durations[end - 20..end].to_vec();
            known.sort_unstable();
            let schedule = Schedule::new(PollInterval::Adaptive, &known);
            for (sum, (reads, lateness)) in [
                (&mut ours, reads_and_lateness(&schedule, durations[end])),
                (&mut theirs, every_two_seconds(durations[end])),
            ] {
                sum.0 += f64::from(reads) / 2_000.0;
                sum.1 += lateness.as_secs_f64() / 2_000.0;
            }
        }
        (ours, theirs)
    }

    #[test]
    fn learned_polling_takes_fewer_reads_than_fixed_polling_and_is_no_later() {
        for seconds in [0.3, 5.0, 60.0] {
            let (ours, theirs) = averages(Duration::from_secs_f64(seconds));
            assert!(ours.0 < theirs.0, "{seconds} s: {} reads instead of {}", ours.0, theirs.0);
            // Within 2 %: for a uniform spread, no other reads two seconds apart are better.
            assert!(ours.1 <= theirs.1 * 1.02, "{seconds} s: {} s late instead of {}", ours.1, theirs.1);
        }
    }

    #[test]
    fn learned_polling_of_ten_minutes_takes_an_eighth_of_the_reads() {
        let (ours, theirs) = averages(Duration::from_secs(600));
        assert!(ours.0 <= theirs.0 / 8.0, "{} reads instead of {}", ours.0, theirs.0);
        assert!(ours.1 <= 600.0 * 0.02, "{} s late", ours.1);
    }

    #[test]
    fn a_minute_of_an_unknown_model_takes_18_reads_and_5_seconds_lateness() {
        let schedule = Schedule::new(PollInterval::Adaptive, &[]);
        let (reads, lateness) = reads_and_lateness(&schedule, Duration::from_secs(60));
        assert!(reads <= 18 && lateness <= Duration::from_secs(5), "{reads} reads, {lateness:?}");
    }

    #[test]
    fn the_end_of_a_task_within_a_second_is_seen_at_once() {
        for milliseconds in (10..=790).step_by(10) {
            let duration = Duration::from_millis(milliseconds);
            for known in [vec![], vec![Duration::from_millis(30); 20], vec![duration; 20]] {
                let (reads, lateness) =
                    reads_and_lateness(&Schedule::new(PollInterval::Adaptive, &known), duration);
                assert!(
                    reads <= 5 && lateness <= duration.mul_f64(1.6) + Duration::from_millis(120),
                    "{duration:?}: {lateness:?}"
                );
            }
        }
    }

    #[test]
    fn tasks_that_were_created_together_are_not_read_together() {
        let first = || Schedule::new(PollInterval::Adaptive, &[]).delay(0, Duration::ZERO);
        let delays: std::collections::BTreeSet<_> = std::iter::repeat_with(first).take(20).collect();
        assert!(delays.len() > 10, "{delays:?}");
        assert!(delays.iter().all(|delay| (100..=120).contains(&delay.as_millis())), "{delays:?}");
    }

    #[test]
    fn the_end_of_a_short_unknown_task_is_seen_within_2_5_seconds() {
        let schedule = Schedule::new(PollInterval::Adaptive, &[]);
        for tenths in 0..=60 {
            let duration = Duration::from_millis(tenths * 100);
            let (_, lateness) = reads_and_lateness(&schedule, duration);
            assert!(lateness <= Duration::from_millis(2_500), "{duration:?}: {lateness:?}");
        }
    }

    #[test]
    fn ten_minutes_of_an_unknown_model_take_at_most_48_reads() {
        let schedule = Schedule::new(PollInterval::Adaptive, &[]);
        let (reads, lateness) = reads_and_lateness(&schedule, Duration::from_secs(600));
        assert!(reads <= 48 && lateness <= Duration::from_secs(48), "{reads} reads, {lateness:?}");
    }

    #[test]
    fn delays_after_the_early_reads_lie_within_the_suggested_intervals() {
        let is_suggested =
            |delay: Duration| (FAST.0..=FAST.1).contains(&delay) || (LONG.0..=LONG.1).contains(&delay);
        for seconds in [0.3, 5.0, 60.0, 250.0, 600.0, 7_200.0] {
            let mut known = spread(Duration::from_secs_f64(seconds), 20);
            known.sort_unstable();
            for durations in [&known[..], &[]] {
                let schedule = Schedule::new(PollInterval::Adaptive, durations);
                let mut waited = schedule.delay(0, Duration::ZERO);
                for reads in 1..500 {
                    let delay = schedule.delay(reads, waited);
                    let is_early = waited < EARLY_READS[3].mul_f64(1.0 + JITTER);
                    assert!(is_early || is_suggested(delay), "{seconds} s, after {waited:?}: {delay:?}");
                    waited += delay;
                }
            }
        }
        for (interval, from, to) in [(PollInterval::Fast, 2, 5), (PollInterval::Long, 10, 30)] {
            let schedule = Schedule::new(interval, &known_durations());
            for reads in 0..1_000 {
                let delay = schedule.delay(reads, Duration::from_secs(u64::from(reads) * 10));
                assert!((from..=to).contains(&delay.as_secs()), "{delay:?}");
            }
        }
    }

    #[test]
    fn the_first_read_of_a_known_model_comes_within_thirty_seconds() {
        let day = vec![Duration::from_secs(24 * 3600); 5];
        let schedule = Schedule::new(PollInterval::Adaptive, &day);
        let mut waited = Duration::ZERO;
        for reads in 0..100 {
            let delay = schedule.delay(reads, waited);
            assert!((LONG.0..=LONG.1).contains(&delay), "after {waited:?}: {delay:?}");
            waited += delay;
        }
    }

    fn known_durations() -> Vec<Duration> {
        vec![Duration::from_secs(1); 5]
    }

    #[test]
    fn an_unusually_long_task_is_read_less_and_less_often() {
        let schedule = Schedule::new(PollInterval::Adaptive, &known_durations());
        assert_eq!(schedule.delay(300, Duration::from_secs(600)), Duration::from_secs(30));
    }

    #[test]
    fn three_known_durations_say_when_a_task_ends_and_two_say_nothing() {
        let first = |durations: &[u64]| {
            let durations: Vec<_> = durations.iter().copied().map(Duration::from_secs).collect();
            Schedule::new(PollInterval::Adaptive, &durations).delay(0, Duration::ZERO)
        };
        assert!(first(&[9, 9]) <= EARLY_READS[0].mul_f64(1.0 + JITTER));
        assert_eq!(first(&[9, 9, 9]), Duration::from_secs(9));
        // If they are at most two delays apart, one read can see most of them end.
        assert_eq!(first(&[10, 10, 14]), Duration::from_secs(14));
        assert_eq!(first(&[10, 10, 15]), Duration::from_secs(8));
    }

    #[test]
    fn five_minutes_are_a_long_job_and_twice_the_longest_duration_is_unusual() {
        let seconds = Duration::from_secs;
        let long = Schedule::new(PollInterval::Adaptive, &[seconds(300); 5]);
        assert_eq!(long.delay(1, seconds(300)), LONG.0);
        let minute = Schedule::new(PollInterval::Adaptive, &[seconds(60); 5]);
        assert_eq!(minute.delay(30, seconds(119)), FAST.0);
        assert_eq!(minute.delay(30, seconds(120)), LONG.0);
    }

    #[test]
    fn the_first_delay_is_the_one_that_the_caller_asks_for() {
        let (first, longest) = (Duration::from_secs(10), Duration::from_secs(1_000));
        let schedule = Schedule::new(PollInterval::Between { first, longest }, &[]);
        assert_eq!(schedule.delay(0, Duration::ZERO), first);
        assert_eq!(schedule.delay(1, first), first * 3 / 2);
    }

    #[test]
    fn a_delay_of_zero_becomes_the_shortest_delay() {
        let schedule = Schedule::new(PollInterval::every(Duration::ZERO), &[]);
        assert_eq!(schedule.delay(0, Duration::ZERO), MIN_DELAY);
    }

    #[test]
    fn the_median_duration_decides_whether_a_job_is_long() {
        let seconds = |durations: [u64; 5]| durations.map(Duration::from_secs);
        let long = Schedule::new(PollInterval::Adaptive, &seconds([1, 1, 400, 400, 400]));
        assert!(long.delay(1, Duration::from_secs(2)) >= LONG.0);
        let short = Schedule::new(PollInterval::Adaptive, &seconds([1, 1, 1, 400, 400]));
        assert!(short.delay(1, Duration::from_secs(2)) <= FAST.1);
        let minutes = Schedule::new(PollInterval::Adaptive, &seconds([60; 5]));
        assert_eq!(minutes.delay(0, Duration::ZERO), Duration::from_secs(30));
        assert_eq!(minutes.delay(1, Duration::from_secs(30)), Duration::from_secs(30));
    }

    #[test]
    fn a_delay_is_at_most_thirty_days_even_if_a_longer_one_is_asked_for() {
        let schedule = Schedule::new(PollInterval::every(Duration::MAX), &[]);
        assert_eq!(schedule.delay(1, Duration::ZERO), Duration::from_secs(30 * 86_400));
    }

    mod properties {
        use proptest::prelude::*;

        use super::*;

        fn durations() -> impl Strategy<Value = Duration> {
            prop_oneof![
                (0_u64..10_000).prop_map(Duration::from_millis),
                any::<u64>().prop_map(Duration::from_nanos),
                any::<u64>().prop_map(Duration::from_secs),
                Just(Duration::MAX),
            ]
        }

        proptest! {
            #[test]
            fn delays_grow_up_to_the_longest_and_can_be_added_to_any_clock(
                first in durations(), longest in durations(), reads in 0_u32..200, waited in durations(),
            ) {
                let schedule = Schedule::new(PollInterval::Between { first, longest }, &[]);
                let (delay, next) = (schedule.delay(reads, waited), schedule.delay(reads + 1, waited));
                prop_assert!(delay <= next && next <= longest.clamp(MIN_DELAY, MAX_DELAY));
                prop_assert!(tokio::time::Instant::now().checked_add(next).is_some());
            }

            #[test]
            fn any_history_gives_a_usable_delay(
                mut known in proptest::collection::vec(0_u64..1_000_000_000, 0..25), reads in 0_u32..200, waited in durations(),
            ) {
                known.sort_unstable();
                let known: Vec<_> = known.into_iter().map(Duration::from_millis).collect();
                let delay = Schedule::new(PollInterval::Adaptive, &known).delay(reads, waited);
                prop_assert!((MIN_DELAY..=MAX_DELAY).contains(&delay), "{:?}", delay);
            }
        }
    }
}
