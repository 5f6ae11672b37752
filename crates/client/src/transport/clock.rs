//! The clock of the service, as its answers tell it. Times in its records are compared with this one,
//! so that it does not matter how wrong the clock of this machine is.

use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use reqwest::header::{DATE, HeaderMap};
use tokio::time::Instant;

/// What the clock of the service showed last, and when that was.
#[derive(Debug, Default)]
pub(crate) struct ServiceClock(Mutex<Option<(SystemTime, Instant)>>);

impl ServiceClock {
    /// Sets it by an answer that came just now.
    pub(crate) fn set_by(&self, headers: &HeaderMap) {
        let date = headers.get(DATE).and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok());
        if let Some(date) = date {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((date, Instant::now()));
        }
    }

    /// What it showed at a moment that has passed; what the clock of this machine showed, as long as
    /// no answer had a date.
    pub(crate) fn at(&self, moment: Instant) -> Option<SystemTime> {
        let shown = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (shown, seen_at) = shown.unwrap_or_else(|| (SystemTime::now(), Instant::now()));
        match seen_at.checked_duration_since(moment) {
            Some(passed) => shown.checked_sub(passed),
            None => shown.checked_add(moment.duration_since(seen_at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use reqwest::header::HeaderValue;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn moments_before_and_after_an_answer_are_told_by_its_date() {
        let clock = ServiceClock::default();
        let hour = Duration::from_secs(3600);
        let before = Instant::now();
        tokio::time::advance(hour).await;
        clock.set_by(&HeaderMap::from_iter([(
            DATE,
            HeaderValue::from_static("Wed, 21 Oct 2026 07:28:00 GMT"),
        )]));
        tokio::time::advance(hour).await;
        let shown = httpdate::parse_http_date("Wed, 21 Oct 2026 07:28:00 GMT").ok();
        assert_eq!(clock.at(before), shown.map(|shown| shown - hour));
        assert_eq!(clock.at(Instant::now()), shown.map(|shown| shown + hour));
    }

    #[test]
    fn without_a_date_the_clock_of_this_machine_is_as_good_as_any() {
        let clock = ServiceClock::default();
        clock.set_by(&HeaderMap::from_iter([(DATE, HeaderValue::from_static("yesterday"))]));
        let now = clock.at(Instant::now()).and_then(|now| now.elapsed().ok());
        assert!(now.is_some_and(|passed| passed < Duration::from_secs(60)), "{now:?}");
    }
}
