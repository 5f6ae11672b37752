//! When something has to be over, and since when that counts.

use std::time::Duration;

use inferstore_api::types::TaskId;
use tokio::time::{Instant, timeout_at};

use crate::transport::error::{DeadlineReached, Error, Result, TaskDisposition};

/// The time that something may take, from its beginning on; perhaps as long as it wants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    pub(crate) started: Instant,
    /// When it has to be over, if ever.
    pub(crate) at: Option<Instant>,
}

impl Deadline {
    /// From now on, so long.
    pub(crate) fn after(length: Option<Duration>) -> Self {
        let started = Instant::now();
        // A length beyond the reach of the clock is as good as none.
        Self { started, at: length.and_then(|length| started.checked_add(length)) }
    }

    pub(crate) fn never() -> Self {
        Self::after(None)
    }

    /// Since the same beginning, but not beyond the other either.
    pub(crate) fn or_earlier(self, other: Self) -> Self {
        Self { at: self.at.into_iter().chain(other.at).min(), ..self }
    }

    pub(crate) fn is_over(self) -> bool {
        self.at.is_some_and(|at| Instant::now() >= at)
    }

    /// Whether something can still begin after a pause.
    pub(crate) fn allows(self, pause: Duration) -> bool {
        self.at.is_none_or(|at| Instant::now().checked_add(pause).is_some_and(|then| then < at))
    }

    /// What the work comes to, or `None` when time is up.
    pub(crate) async fn cut<T>(self, work: impl Future<Output = T>) -> Option<T> {
        match self.at {
            Some(at) => timeout_at(at, work).await.ok(),
            None => Some(work.await),
        }
    }

    /// What the work comes to, if that is before the deadline; it creates no task.
    pub(crate) async fn bound<T>(self, work: impl Future<Output = Result<T>>) -> Result<T> {
        match self.cut(work).await {
            // A call that ran into the deadline says so in its own words.
            Some(Err(Error::Transport(_))) if self.is_over() => {
                Err(self.reached(None, TaskDisposition::NotCreated))
            }
            Some(done) => done,
            None => Err(self.reached(None, TaskDisposition::NotCreated)),
        }
    }

    /// The error that says so.
    pub(crate) fn reached(self, task: Option<TaskId>, fate: TaskDisposition) -> Error {
        Error::DeadlineReached(Box::new(DeadlineReached { task, fate, elapsed: self.started.elapsed() }))
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_is_cut_at_the_deadline_and_not_before() {
        let second = Duration::from_secs(1);
        let deadline = Deadline::after(Some(second));
        assert_eq!(deadline.bound(ready(Ok(7))).await.ok(), Some(7));
        assert!(deadline.allows(second / 2) && !deadline.allows(second) && !deadline.is_over());
        let cut = deadline.bound(pending::<Result<()>>()).await;
        let Err(Error::DeadlineReached(reached)) = cut else { unreachable!("nothing else ends it") };
        assert_eq!(
            (reached.elapsed, reached.fate, reached.task),
            (second, TaskDisposition::NotCreated, None)
        );
        assert!(deadline.is_over());
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_deadline_nothing_is_cut() {
        for length in [None, Some(Duration::MAX)] {
            let forever = Deadline::after(length);
            let slow = tokio::time::sleep(Duration::from_secs(1_000_000));
            assert!(forever.cut(slow).await.is_some() && forever.allows(Duration::MAX / 4));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn of_two_deadlines_the_earlier_holds() {
        let (soon, late) = (Deadline::after(Some(Duration::from_secs(1))), Deadline::after(None));
        assert_eq!(late.or_earlier(soon).at, soon.at);
        assert_eq!(soon.or_earlier(late).at, soon.at);
    }
}
