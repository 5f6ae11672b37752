//! Deadlines: a start time and an optional end that bounds a whole operation.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::transport::error::{DeadlineReached, Error, Result, TaskDisposition};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    pub(crate) started: Instant,
    pub(crate) at: Option<Instant>,
    /// True if the operation is a wait, whose calls have a retry budget of their own.
    pub(crate) is_of_wait: bool,
    /// Disposition of the task in the error after a timeout.
    pub(crate) disposition: TaskDisposition,
}

impl Deadline {
    pub(crate) fn after(duration: Option<Duration>) -> Self {
        let started = Instant::now();
        // A duration that overflows `Instant` means no deadline.
        let at = duration.and_then(|duration| started.checked_add(duration));
        Self { started, at, is_of_wait: false, disposition: TaskDisposition::NotCreated }
    }

    /// As [`after`](Self::after), for an upload or a download outside of a run.
    pub(crate) fn of_transfer(duration: Option<Duration>) -> Self {
        Self { disposition: TaskDisposition::NoTask, ..Self::after(duration) }
    }

    pub(crate) fn never() -> Self {
        Self::after(None)
    }

    pub(crate) fn or_earlier(self, other: Self) -> Self {
        Self { at: self.at.into_iter().chain(other.at).min(), ..self }
    }

    /// Returns an end that is earlier by `reserve`, for work before the deadline.
    pub(crate) fn less(self, reserve: Duration) -> Self {
        Self { at: self.at.map(|at| at.checked_sub(reserve).unwrap_or(at).max(self.started)), ..self }
    }

    pub(crate) fn is_over(self) -> bool {
        self.at.is_some_and(|at| Instant::now() >= at)
    }

    /// Returns true if work can still start after this delay.
    pub(crate) fn allows(self, delay: Duration) -> bool {
        self.at.is_none_or(|at| Instant::now().checked_add(delay).is_some_and(|then| then < at))
    }

    pub(crate) async fn timeout<T>(self, work: impl Future<Output = T>) -> Option<T> {
        match self.at {
            Some(at) => timeout_at(at, work).await.ok(),
            None => Some(work.await),
        }
    }

    /// Runs a future that creates no task until the deadline.
    pub(crate) async fn bound<T>(self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let source = match self.timeout(work).await {
            // A transport failure at the deadline is caused by the deadline.
            Some(Err(error @ Error::Transport(_))) if self.is_over() => Some(Box::new(error)),
            Some(done) => return done,
            None => None,
        };
        let disposition = self.disposition;
        Err(self.reached(DeadlineReached { disposition, source, ..DeadlineReached::default() }))
    }

    pub(crate) fn reached(self, reached: DeadlineReached) -> Error {
        Error::DeadlineReached(Box::new(DeadlineReached { elapsed: self.started.elapsed(), ..reached }))
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_is_cut_off_at_the_deadline_and_not_before() {
        let second = Duration::from_secs(1);
        let deadline = Deadline::after(Some(second));
        assert_eq!(deadline.bound(ready(Ok(7))).await.ok(), Some(7));
        let failed = deadline.bound(ready(Err::<(), _>(Error::Transport(Box::default())))).await;
        assert!(matches!(failed, Err(Error::Transport(_))), "it failed before the deadline");
        assert!(deadline.allows(second / 2) && !deadline.allows(second) && !deadline.is_over());
        let timed_out = deadline.bound(pending::<Result<()>>()).await;
        let Err(Error::DeadlineReached(reached)) = timed_out else { unreachable!("nothing else ends it") };
        assert_eq!((reached.elapsed, reached.disposition), (second, TaskDisposition::NotCreated));
        assert_eq!(reached.task, None);
        assert!(deadline.is_over());
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_deadline_nothing_is_cut_off() {
        for duration in [None, Some(Duration::MAX)] {
            let forever = Deadline::after(duration);
            let slow = tokio::time::sleep(Duration::from_secs(1_000_000));
            assert!(forever.timeout(slow).await.is_some() && forever.allows(Duration::MAX / 4));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn of_two_deadlines_the_earlier_one_applies_and_a_reserve_ends_before_it() {
        let soon = Deadline::after(Some(Duration::from_secs(1)));
        let late = Deadline::never();
        assert_eq!(late.or_earlier(soon).at, soon.at);
        assert_eq!(soon.or_earlier(late).at, soon.at);
        let end = |deadline: Deadline| deadline.at.map(|at| at - deadline.started);
        assert_eq!(end(soon.less(Duration::from_millis(400))), Some(Duration::from_millis(600)));
        assert_eq!(end(soon.less(Duration::from_secs(5))), Some(Duration::ZERO));
    }
}
