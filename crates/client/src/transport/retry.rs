//! Retry policy: backoff, budget, `Retry-After`. The only place that decides about retries.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

use inferstore_api::Safety;
use reqwest::header::{DATE, HeaderMap, HeaderValue, RETRY_AFTER};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::transport::deadline::Deadline;
use crate::transport::error::Error;

/// Retry policy of failed requests. Change the fields that differ from the default:
///
/// ```
/// use inferstore::Retry;
///
/// let mut retry = Retry::default();
/// retry.max_attempts = 3;
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Retry {
    /// Maximum number of attempts of a request, other than a create that was lost. Default: 5.
    pub max_attempts: u32,
    /// Maximum backoff before the first retry; it doubles with each further one. The actual backoff is random
    /// between zero and this (full jitter). Default: 200 ms.
    #[serde(with = "seconds")]
    pub initial_backoff: Duration,
    /// Upper limit of the doubling. Default: 10 s.
    #[serde(with = "seconds")]
    pub max_backoff: Duration,
    /// Longest `Retry-After` that a call waits for; a longer one is in the error that ends the call. Default: 60 s.
    #[serde(with = "seconds")]
    pub max_retry_after: Duration,
    /// Retry budget: maximum number of retries of a client without a success in between; each success earns
    /// half a retry back. Without a budget, retries would keep a failing service down. The waits of a client
    /// have an equal budget of their own. Default: 100.
    pub budget: u32,
}

pub(crate) mod seconds {
    use std::time::Duration;

    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(duration.as_secs_f64())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        Duration::try_from_secs_f64(seconds)
            .map_err(|error| D::Error::custom(format!("{seconds} seconds: {error}")))
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            max_attempts: 5,
            initial_backoff: Duration::from_millis(200),
            max_backoff: Duration::from_secs(10),
            max_retry_after: Duration::from_secs(60),
            budget: 100,
        }
    }
}

impl Retry {
    /// Returns a policy without retries.
    pub fn none() -> Self {
        Self { max_attempts: 1, ..Self::default() }
    }

    pub(crate) fn backoff(&self, attempts: u32) -> Duration {
        let doublings = attempts.saturating_sub(1).min(31);
        let longest = self.initial_backoff.saturating_mul(1 << doublings).min(self.max_backoff);
        longest.mul_f64(fastrand::f64())
    }
}

pub(crate) fn may_retry(safety: Safety, error: &Error) -> bool {
    match (safety, error) {
        _ if error.is_certificate_refused() => false,
        (_, Error::Transport(context)) if context.is_unsent => true,
        (Safety::Repeatable, Error::Transport(_)) => true,
        (Safety::Repeatable, Error::Decode(context)) => !context.is_too_large(),
        (Safety::Repeatable, Error::Api(context)) => matches!(context.status, Some(408 | 429 | 502..=504)),
        _ => false,
    }
}

#[derive(Debug)]
pub(crate) struct Retries {
    pub(crate) policy: Retry,
    /// In half retries: a success earns one.
    budget: AtomicU32,
}

const RETRY_COST: u32 = 2;

/// Time before its deadline at which a lost create is sent once more.
const LAST_ATTEMPT: Duration = Duration::from_millis(500);

impl Retries {
    pub(crate) fn new(policy: Retry) -> Self {
        Self { budget: AtomicU32::new(policy.budget.saturating_mul(RETRY_COST)), policy }
    }

    pub(crate) fn succeeded(&self) {
        let full = self.policy.budget.saturating_mul(RETRY_COST);
        debug_assert!(self.budget.load(Relaxed) <= full, "the retry budget exceeds its limit");
        let earned = |left| (left < full).then(|| left + 1);
        let _ = self.budget.fetch_update(Relaxed, Relaxed, earned);
    }

    pub(crate) fn take(&self) -> bool {
        self.budget.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(RETRY_COST)).is_ok()
    }

    pub(crate) fn start(&self, operation: &'static str, deadline: Deadline) -> Attempts<'_> {
        let started = Instant::now();
        Attempts { retries: self, operation, deadline, started, count: 1, is_budget_exhausted: false }
    }
}

/// Attempts of one operation. The first one is not counted against the budget.
pub(crate) struct Attempts<'a> {
    retries: &'a Retries,
    operation: &'static str,
    deadline: Deadline,
    pub(crate) started: Instant,
    pub(crate) count: u32,
    /// True if only the budget prevented the next attempt.
    pub(crate) is_budget_exhausted: bool,
}

impl Attempts<'_> {
    /// Waits for the backoff; false if attempts, budget or time are exhausted, or `Retry-After` is too long. Only its
    /// idempotency key returns the task of a lost create, so only time ends its attempts: what is `left` for it.
    pub(crate) async fn backoff(&mut self, retry_after: Option<Duration>, left: Option<Duration>) -> bool {
        let policy = &self.retries.policy;
        let left = left.and_then(|left| left.checked_sub(LAST_ATTEMPT)).filter(|left| !left.is_zero());
        if (left.is_none() && self.count >= policy.max_attempts) || retry_after > Some(policy.max_retry_after)
        {
            return false;
        }
        let backoff = policy.backoff(self.count).min(left.unwrap_or(Duration::MAX));
        let backoff = backoff.max(retry_after.unwrap_or_default());
        if !self.deadline.allows(backoff) {
            return false;
        }
        self.is_budget_exhausted = left.is_none() && !self.retries.take();
        if self.is_budget_exhausted {
            warn!(operation = self.operation, "the retry budget is exhausted; the call is not retried");
            return false;
        }
        self.count += 1;
        debug_assert!(
            left.is_some() || self.count <= policy.max_attempts,
            "a call has more attempts than its policy allows"
        );
        debug_assert!(
            backoff <= policy.max_backoff.max(policy.max_retry_after),
            "a backoff exceeds its limit"
        );
        info!(operation = self.operation, attempt = self.count, ?backoff, "retrying");
        sleep(backoff).await;
        true
    }
}

/// Returns the `Retry-After` of a response; a date counts from its `Date`, whatever the clock of this machine.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let header = headers.get(RETRY_AFTER)?.to_str().ok()?;
    let now = headers.get(DATE).and_then(http_date).unwrap_or_else(SystemTime::now);
    parse_retry_after(header, now)
}

pub(crate) fn http_date(header: &HeaderValue) -> Option<SystemTime> {
    httpdate::parse_http_date(header.to_str().ok()?).ok()
}

pub(crate) fn parse_retry_after(header: &str, now: SystemTime) -> Option<Duration> {
    let header = header.trim();
    if let Ok(seconds) = header.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(header).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::CallContext;

    fn status(status: u16) -> Error {
        Error::Api(Box::new(CallContext::new("", Some(status))))
    }

    fn lost(is_unsent: bool) -> Error {
        Error::Transport(Box::new(CallContext { is_unsent, ..CallContext::default() }))
    }

    fn undecodable() -> Error {
        Error::Decode(Box::default())
    }

    #[test]
    fn a_create_is_never_sent_again_once_it_may_have_been_sent() {
        for error in (100..=599).map(status).chain([lost(false), undecodable()]) {
            assert!(!may_retry(Safety::Billed, &error), "{error:?}");
            assert!(!may_retry(Safety::Once, &error), "{error:?}");
        }
        assert!(may_retry(Safety::Billed, &lost(true)));
        assert!(may_retry(Safety::Once, &lost(true)));
    }

    #[test]
    fn a_read_is_retried_after_failures_that_pass() {
        let is_retried = |number: &u16| may_retry(Safety::Repeatable, &status(*number));
        let retried: Vec<_> = (100..=599).filter(is_retried).collect();
        assert_eq!(retried, [408, 429, 502, 503, 504]);
        assert!(may_retry(Safety::Repeatable, &lost(false)));
        assert!(may_retry(Safety::Repeatable, &undecodable()));
    }

    #[tokio::test(start_paused = true)]
    async fn backoffs_double_up_to_their_limit_and_honour_retry_after() {
        let policy = Retry::default();
        for attempts in 1..100 {
            let limit = (policy.initial_backoff * 2_u32.pow(attempts.min(20) - 1)).min(policy.max_backoff);
            let backoffs: Vec<_> = (0..200).map(|_| policy.backoff(attempts)).collect();
            assert!(backoffs.iter().all(|backoff| *backoff <= limit), "{attempts}");
            assert!(backoffs.iter().any(|backoff| *backoff > limit / 2), "{attempts}");
        }
        let retries = Retries::new(policy);
        let asked = Duration::from_secs(30);
        let mut attempts = retries.start("getTask", Deadline::never());
        assert!(attempts.backoff(Some(asked), None).await);
        assert!(attempts.started.elapsed() >= asked && attempts.count == 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_retry_after_beyond_the_limit_ends_the_call_at_once() {
        let retries = Retries::new(Retry::default());
        let mut attempts = retries.start("getTask", Deadline::never());
        assert!(!attempts.backoff(Some(Duration::from_secs(61)), None).await);
        assert_eq!(attempts.started.elapsed(), Duration::ZERO);
        assert!(attempts.backoff(Some(Duration::from_secs(60)), None).await);
    }

    #[tokio::test(start_paused = true)]
    async fn no_retry_starts_after_the_deadline_or_the_last_attempt() {
        let retries = Retries::new(Retry::default());
        let mut attempts = retries.start("getTask", Deadline::after(Some(Duration::from_secs(5))));
        assert!(!attempts.backoff(Some(Duration::from_secs(5)), None).await);
        let once = Retries::new(Retry::none());
        assert!(!once.start("getTask", Deadline::never()).backoff(None, None).await);
    }

    #[test]
    fn successes_never_earn_more_than_the_whole_budget() {
        let retries = Retries::new(Retry { budget: 1, ..Retry::default() });
        retries.succeeded();
        assert!(retries.take());
        retries.succeeded();
        assert!(!retries.take(), "one success is half a retry");
    }

    #[test]
    fn the_budget_ends_and_successes_refill_it() {
        let retries = Retries::new(Retry::default());
        assert_eq!(std::iter::from_fn(|| retries.take().then_some(())).take(10_000).count(), 100);
        retries.succeeded();
        assert!(!retries.take());
        retries.succeeded();
        assert!(retries.take());
        for _ in 0..1_000 {
            retries.succeeded();
        }
        assert_eq!(
            std::iter::from_fn(|| retries.take().then_some(())).take(10_000).count(),
            100,
            "and no more"
        );
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_by_the_clock_of_the_service() {
        let headers = |pairs: &[(reqwest::header::HeaderName, &'static str)]| -> HeaderMap {
            pairs
                .iter()
                .map(|(name, value)| {
                    (name.clone(), value.parse().unwrap_or(reqwest::header::HeaderValue::from_static("")))
                })
                .collect()
        };
        assert_eq!(retry_after(&headers(&[(RETRY_AFTER, " 7 ")])), Some(Duration::from_secs(7)));
        let date = (DATE, "Wed, 21 Oct 2015 07:28:00 GMT");
        let later = (RETRY_AFTER, "Wed, 21 Oct 2015 07:28:30 GMT");
        assert_eq!(retry_after(&headers(&[date.clone(), later])), Some(Duration::from_secs(30)));
        let past = (RETRY_AFTER, "Wed, 21 Oct 2015 07:00:00 GMT");
        assert_eq!(retry_after(&headers(&[date, past])), Some(Duration::ZERO));
        assert_eq!(retry_after(&headers(&[(RETRY_AFTER, "soon")])), None);
    }

    mod properties {
        use proptest::prelude::*;

        use super::*;

        proptest! {
            #[test]
            fn seconds_and_dates_mean_the_same(seconds in 0_u64..4_000_000_000, text in any::<String>()) {
                let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600);
                let asked = Some(Duration::from_secs(seconds));
                prop_assert_eq!(parse_retry_after(&seconds.to_string(), now), asked);
                let date = httpdate::fmt_http_date(now + Duration::from_secs(seconds));
                prop_assert_eq!(parse_retry_after(&date, now), asked);
                let _ = parse_retry_after(&text, now);
            }
        }
    }
}
