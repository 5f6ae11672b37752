//! When a failed call is repeated, and how long that waits. The only place that decides either.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use reqwest::header::{HeaderMap, RETRY_AFTER};

use crate::client::Inner;
use crate::transport::deadline::Deadline;

/// How calls are repeated. The defaults are the values of `Retry::default()`.
#[derive(Clone, Debug)]
pub struct Retry {
    /// How often a call is sent at most.
    pub max_attempts: u32,
    /// The longest pause before the first repeat; it doubles with every further one. The pause is
    /// drawn between zero and that, so that clients do not return all at once.
    pub initial_backoff: Duration,
    /// Where doubling ends.
    pub max_backoff: Duration,
    /// The longest pause that the service may ask for in `Retry-After`.
    pub max_retry_after: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            max_attempts: 5,
            initial_backoff: Duration::from_millis(200),
            max_backoff: Duration::from_secs(10),
            max_retry_after: Duration::from_secs(60),
        }
    }
}

/// What repeating an operation can do, named where the operation is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Safety {
    /// It has no effect, or at worst leaves an unused target behind.
    Repeatable,
    /// A repeat after it worked would be refused and read as a failure.
    OnceSent,
    /// A repeat may run and bill twice. Some services promise that a refusal with 429 or 503 had no
    /// effect; only the caller knows.
    Create { repeat_refused: bool },
}

/// How an attempt failed, as far as repeating it is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Nothing reached the service.
    NothingSent,
    /// Something may have reached it, and no whole answer came back.
    Lost,
    /// It answered with a failure.
    Status(u16),
    /// It answered with something that is no answer.
    Unreadable,
    /// It would fail the same way again.
    Permanent,
}

impl Safety {
    /// Whether the call may be sent again after this failure.
    pub(crate) fn allows_repeat_after(self, failure: Failure) -> bool {
        match (self, failure) {
            (_, Failure::Permanent) => false,
            (_, Failure::NothingSent) => true,
            (Self::Repeatable, Failure::Lost | Failure::Unreadable) => true,
            (Self::Repeatable, Failure::Status(status)) => matches!(status, 408 | 429 | 502 | 503 | 504),
            (Self::Create { repeat_refused }, Failure::Status(429 | 503)) => repeat_refused,
            (Self::OnceSent | Self::Create { .. }, _) => false,
        }
    }
}

impl Retry {
    /// The pause before the next attempt, after so many.
    pub(crate) fn pause(&self, attempts: u32, retry_after: Option<Duration>) -> Duration {
        let doublings = attempts.saturating_sub(1).min(31);
        let longest = self.initial_backoff.saturating_mul(1 << doublings).min(self.max_backoff);
        let drawn = longest.mul_f64(fastrand::f64());
        retry_after.map_or(drawn, |asked| drawn.max(asked.min(self.max_retry_after)))
    }
}

impl Inner {
    /// How long to wait before something is sent again that may be, or `None` if it was often enough or
    /// there is no time.
    pub(crate) fn pause_before_repeat(
        &self,
        attempts: u32,
        asked: Option<Duration>,
        deadline: Deadline,
    ) -> Option<Duration> {
        let retry = &self.settings.retry;
        let pause = (attempts < retry.max_attempts).then(|| retry.pause(attempts, asked))?;
        (deadline.allows(pause) && self.budget.take()).then_some(pause)
    }
}

/// How long an answer asks to wait.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    read_retry_after(headers.get(RETRY_AFTER)?.to_str().ok()?, SystemTime::now())
}

/// Reads `Retry-After`: seconds, or a date.
pub(crate) fn read_retry_after(header: &str, now: SystemTime) -> Option<Duration> {
    let header = header.trim();
    if let Ok(seconds) = header.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(header).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

/// How many repeats a client may still send. When a service is down, every call fails, and repeats
/// of them all would keep it down; so a repeat costs, and only successes earn.
#[derive(Debug)]
pub(crate) struct Budget(AtomicU32);

/// In units of which a repeat costs two and a success earns one.
const FULL: u32 = 200;
const COST: u32 = 2;

impl Budget {
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(FULL))
    }

    /// Takes a repeat from the budget, if there is one left.
    pub(crate) fn take(&self) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(COST)).is_ok()
    }

    pub(crate) fn earn(&self) {
        // Full is full.
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| (left < FULL).then_some(left + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_create_is_never_repeated_once_it_may_have_been_sent() {
        let create = Safety::Create { repeat_refused: false };
        let statuses = (100..=599).map(Failure::Status);
        for failure in statuses.chain([Failure::Lost, Failure::Unreadable, Failure::Permanent]) {
            assert!(!create.allows_repeat_after(failure), "{failure:?}");
        }
        assert!(create.allows_repeat_after(Failure::NothingSent));
    }

    #[test]
    fn a_caller_may_have_refused_creates_repeated() {
        let create = Safety::Create { repeat_refused: true };
        let repeated: Vec<_> =
            (100..=599).filter(|status| create.allows_repeat_after(Failure::Status(*status))).collect();
        assert_eq!(repeated, [429, 503]);
        assert!(!create.allows_repeat_after(Failure::Lost));
    }

    #[test]
    fn pauses_grow_stay_below_their_ceiling_and_honour_the_service() {
        let retry = Retry::default();
        for attempts in 1..100 {
            let ceiling = (retry.initial_backoff * 2_u32.pow(attempts.min(20) - 1)).min(retry.max_backoff);
            assert!(retry.pause(attempts, None) <= ceiling);
        }
        let asked = Duration::from_secs(30);
        assert!(retry.pause(1, Some(asked)) >= asked);
        assert!(retry.pause(1, Some(asked * 100)) <= retry.max_retry_after, "but only so far");
    }

    #[test]
    fn retry_after_is_read_as_seconds_and_as_a_date() {
        let now =
            httpdate::parse_http_date("Wed, 21 Oct 2026 07:28:00 GMT").unwrap_or(SystemTime::UNIX_EPOCH);
        assert_eq!(read_retry_after(" 7 ", now), Some(Duration::from_secs(7)));
        assert_eq!(read_retry_after("Wed, 21 Oct 2026 07:28:30 GMT", now), Some(Duration::from_secs(30)));
        assert_eq!(read_retry_after("Wed, 21 Oct 2026 07:00:00 GMT", now), Some(Duration::ZERO), "the past");
        assert_eq!(read_retry_after("soon", now), None);
    }

    #[test]
    fn the_budget_ends_and_successes_refill_it() {
        let budget = Budget::new();
        let repeats = std::iter::from_fn(|| budget.take().then_some(())).take(10_000).count();
        assert_eq!(repeats, 100);
        budget.earn();
        assert!(!budget.take());
        budget.earn();
        assert!(budget.take());
    }

    mod properties {
        use proptest::prelude::*;

        use super::*;

        fn lengths() -> impl Strategy<Value = Duration> {
            prop_oneof![any::<u64>().prop_map(Duration::from_secs), Just(Duration::ZERO), Just(Duration::MAX)]
        }

        proptest! {
            #[test]
            fn a_pause_is_at_least_what_is_asked_for_and_within_both_limits(
                initial_backoff in lengths(), max_backoff in lengths(), max_retry_after in lengths(),
                attempts in any::<u32>(), asked in proptest::option::of(lengths()),
            ) {
                let retry = Retry { initial_backoff, max_backoff, max_retry_after, ..Retry::default() };
                let pause = retry.pause(attempts, asked);
                let granted = asked.map_or(Duration::ZERO, |asked| asked.min(max_retry_after));
                prop_assert!((granted..=granted.max(max_backoff)).contains(&pause));
                let deadline = Deadline::after(Some(Duration::from_secs(3600)));
                prop_assert!(!deadline.allows(pause) || pause < Duration::from_secs(3600));
            }

            #[test]
            fn seconds_and_dates_say_the_same(seconds in 0_u64..4_000_000_000, text in any::<String>()) {
                let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600);
                let asked = Some(Duration::from_secs(seconds));
                prop_assert_eq!(read_retry_after(&seconds.to_string(), now), asked);
                let date = httpdate::fmt_http_date(now + Duration::from_secs(seconds));
                prop_assert_eq!(read_retry_after(&date, now), asked);
                let _ = read_retry_after(&text, now);
            }
        }
    }
}
