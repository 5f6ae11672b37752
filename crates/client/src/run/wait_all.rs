//! Waiting for many tasks at once. Pages of the task history show the status of a hundred tasks with
//! one request; a task is read by itself once it has ended, or when no page shows it.
//!
//! A page is only a hint: each round forgets where it saw the tasks of a page before it reads that page
//! again, so that a task which moved, or a page that cannot be read, is noticed in the same round.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::{self, BoxStream, Stream, StreamExt};
use inferstore_api::types::TaskId;
use tokio::sync::Notify;

use crate::memory::lock;
use crate::resources::{MAX_RECORDS, Tasks};
use crate::run::wait::{Ended, WaitOptions, Waiter};
use crate::run::{Outcome, PollInterval};
use crate::transport::{Deadline, Result, ignored};

impl Tasks {
    /// Waits for many tasks at once, and returns each as it ends.
    ///
    /// ```no_run
    /// # async fn example(client: inferstore::Client, ids: Vec<String>) {
    /// let mut tasks = client.tasks().wait_all(ids);
    /// while let Some((task, result)) = tasks.next().await {
    ///     println!("{task}: {result:?}");
    /// }
    /// # }
    /// ```
    ///
    /// Every task comes exactly once, with its outcome or its error; at the deadline all that are left
    /// come with [`Error::DeadlineReached`](crate::Error::DeadlineReached). Failures that pass do not end the wait for a task, a refusal
    /// such as 404 ends it for that task. Unlike a run, it does not ask whether nodes serve the models: a task that stays
    /// queued is waited for until the deadline. Dropping the stream leaves the tasks alone.
    pub fn wait_all<Ids: IntoIterator<Item: Into<TaskId>>>(&self, tasks: Ids) -> WaitAll {
        let ids = Mutex::new(tasks.into_iter().map(Into::into).collect());
        let added = Arc::new(Added { tasks: ids, signal: Notify::new() });
        WaitAll { tasks: self.clone(), options: WaitOptions::default(), added, ended: None }
    }
}

/// A wait for many tasks: a stream of the tasks that have ended.
#[must_use = "nothing is waited for until the stream is read"]
pub struct WaitAll {
    tasks: Tasks,
    options: WaitOptions,
    added: Arc<Added>,
    /// Starts with the first read, and again when tasks are added after its end.
    ended: Option<BoxStream<'static, Ended>>,
}

/// Tasks that no round has taken over yet, and what ends the sleep before the next one.
struct Added {
    tasks: Mutex<Vec<TaskId>>,
    signal: Notify,
}

impl WaitAll {
    /// Ends the wait after this time, from the first read on. When all tasks have ended, those that are added later
    /// have the whole time again. Default: none.
    pub fn deadline(mut self, deadline: impl Into<Option<Duration>>) -> Self {
        self.options.deadline = deadline.into();
        self
    }

    /// How often the tasks are read. Default: [`PollInterval::Adaptive`].
    pub fn poll(mut self, interval: PollInterval) -> Self {
        self.options.poll = interval;
        self
    }

    /// Cancels the tasks that are still queued at the deadline. Default: `false`.
    pub fn cancel_at_deadline(mut self, cancel: bool) -> Self {
        self.options.cancel_at_deadline = cancel;
        self
    }

    /// Adds a task, also while the stream is read. A task that is waited for already is not added again.
    pub fn add(&self, task: impl Into<TaskId>) {
        lock(&self.added.tasks).push(task.into());
        self.added.signal.notify_one();
    }

    /// The next task that has ended, or `None` when all have.
    ///
    /// Dropping the future loses no task.
    pub async fn next(&mut self) -> Option<(TaskId, Result<Outcome>)> {
        StreamExt::next(self).await
    }

    fn start(&self) -> BoxStream<'static, Ended> {
        let deadline = Deadline::after(self.options.deadline);
        let waiter = Waiter::new(&self.tasks.core, self.options.clone(), deadline, ignored());
        let ended = stream::unfold((waiter, Arc::clone(&self.added)), |(mut waiter, added)| async move {
            loop {
                let new = std::mem::take(&mut *lock(&added.tasks));
                new.into_iter().for_each(|id| waiter.add(id));
                if let Some(ended) = waiter.ended.pop_front() {
                    return Some((ended, (waiter, added)));
                }
                if waiter.pending.is_empty() {
                    return None;
                }
                waiter.round(added.signal.notified()).await;
            }
        });
        ended.boxed()
    }
}

impl Stream for WaitAll {
    type Item = (TaskId, Result<Outcome>);

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let all = self.get_mut();
        let mut ended = all.ended.take().unwrap_or_else(|| all.start());
        let next = ended.poll_next_unpin(context);
        if !matches!(next, Poll::Ready(None)) {
            all.ended = Some(ended);
        }
        next
    }
}

impl Waiter {
    /// Reads the pages that showed tasks before, if that takes fewer requests than reading the tasks, and looks for
    /// tasks that were added.
    pub(super) async fn read_history(&mut self, deadline: Deadline) {
        let positions = self.pending.values_mut().filter_map(|task| task.position.take());
        let mut pages: Vec<u64> = positions.collect();
        let searches = self.is_search_due && self.pending.len() > 1;
        let count = pages.len();
        pages.sort_unstable();
        pages.dedup_by(|position, start| *position < *start + u64::from(MAX_RECORDS));
        if pages.len() < count {
            for start in pages {
                self.read_page(start, deadline).await;
            }
            // Those that moved, or whose page could not be read, are looked for in the next round.
            let shown = self.pending.values().filter(|task| task.position.is_some()).count();
            self.is_search_due |= shown < count;
        }
        if searches {
            self.search(deadline).await;
        }
    }

    /// Finds where the history shows the tasks, from its end backwards. Stops when all are found, or when
    /// reading more pages would cost more than reading the tasks.
    async fn search(&mut self, deadline: Deadline) {
        let first = match self.tasks.page_until(1, 0, deadline).await {
            Ok(first) => first,
            Err(error) => return self.note_retry_after(&error),
        };
        let mut end = first.total.unwrap_or_default();
        for _ in 0..self.pending.len() {
            if end == 0 || self.pending.values().all(|task| task.position.is_some()) {
                break;
            }
            end = end.saturating_sub(u64::from(MAX_RECORDS));
            if !self.read_page(end, deadline).await {
                return;
            }
        }
        self.is_search_due = false;
    }

    /// Notes what a page shows, if it can be read. What it does not show is read by itself.
    async fn read_page(&mut self, start: u64, deadline: Deadline) -> bool {
        let page = match self.tasks.page_until(MAX_RECORDS, start, deadline).await {
            Ok(page) => page,
            Err(error) => {
                self.note_retry_after(&error);
                return false;
            }
        };
        for (position, record) in (start..).zip(page.records) {
            // A record without a status shows nothing of its task.
            if let Some(task) = self.pending.get_mut(&record.task_id)
                && record.status.is_some()
            {
                task.position = Some(position);
                task.status = record.status;
                task.last_error = None;
            }
        }
        true
    }
}

impl std::fmt::Debug for WaitAll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WaitAll").finish_non_exhaustive()
    }
}
