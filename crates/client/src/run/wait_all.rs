//! Waiting for many tasks at once. Pages of the task history show the status of a hundred tasks with
//! one request; a task is read by itself once it has ended, or when no page shows it.
//!
//! A page is only a hint: each round forgets where it saw the tasks of a page before it reads that page
//! again, so that a task which moved, or a page that cannot be read, is noticed in the same round.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::{self, BoxStream, Stream, StreamExt};
use inferstore_api::types::{TaskDetail, TaskId, TaskStatus};
use tokio::time::{Instant, sleep_until};

use crate::memory::lock;
use crate::resources::tasks::{MAX_RECORDS, Task, Tasks};
use crate::run::outcome::Outcome;
use crate::run::poll::{PollInterval, Schedule};
use crate::run::wait::{WaitOptions, cancel, cancel_before, ended, ends_wait, may_be_queued};
use crate::transport::deadline::Deadline;
use crate::transport::error::{DeadlineReached, Error, Result, TaskDisposition};

/// How many tasks are read or canceled at the same time.
const MAX_CONCURRENT_READS: usize = 8;
const MAX_CONCURRENT_CANCELS: usize = 32;

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
    /// come with [`Error::DeadlineReached`]. Failures that pass do not end the wait for a task, a refusal
    /// such as 404 ends it for that task. Dropping the stream leaves the tasks alone.
    pub fn wait_all<Ids: IntoIterator<Item: Into<TaskId>>>(&self, tasks: Ids) -> WaitAll {
        let added = tasks.into_iter().map(Into::into).collect();
        let added = Arc::new(Mutex::new(added));
        WaitAll { tasks: self.clone(), options: WaitOptions::default(), added, ended: None }
    }
}

/// A wait for many tasks: a stream of the tasks that have ended.
#[must_use = "nothing is waited for until the stream is read"]
pub struct WaitAll {
    tasks: Tasks,
    options: WaitOptions,
    /// Tasks that no round has taken over yet.
    added: Arc<Mutex<Vec<TaskId>>>,
    /// Starts with the first read, and again when tasks are added after its end.
    ended: Option<BoxStream<'static, Ended>>,
}

type Ended = (TaskId, Result<Outcome>);

struct State {
    tasks: Tasks,
    options: WaitOptions,
    deadline: Deadline,
    rounds: u32,
    added: Arc<Mutex<Vec<TaskId>>>,
    pending: HashMap<TaskId, Pending>,
    ended: VecDeque<Ended>,
    /// Whether tasks are to be looked for in the history.
    is_search_due: bool,
    /// The longest `Retry-After` of the round.
    retry_after: Option<Duration>,
}

#[derive(Default)]
struct Pending {
    /// Where the history last showed the task.
    position: Option<u64>,
    status: Option<TaskStatus>,
    last_error: Option<Error>,
}

impl WaitAll {
    /// Ends the wait after this time, from the first read on. Default: none.
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
        lock(&self.added).push(task.into());
    }

    /// The next task that has ended, or `None` when all have.
    ///
    /// Dropping the future loses no task.
    pub async fn next(&mut self) -> Option<(TaskId, Result<Outcome>)> {
        StreamExt::next(self).await
    }

    fn start(&self) -> BoxStream<'static, Ended> {
        let state = State {
            tasks: self.tasks.clone(),
            options: self.options.clone(),
            deadline: Deadline::after(self.options.deadline),
            rounds: 0,
            added: Arc::clone(&self.added),
            pending: HashMap::new(),
            ended: VecDeque::new(),
            is_search_due: true,
            retry_after: None,
        };
        stream::unfold(state, State::next).boxed()
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

impl State {
    async fn next(mut self) -> Option<(Ended, Self)> {
        loop {
            let added = std::mem::take(&mut *lock(&self.added));
            for id in added {
                self.add(id);
            }
            if let Some(ended) = self.ended.pop_front() {
                return Some((ended, self));
            }
            if self.pending.is_empty() {
                return None;
            }
            let ended = self.round().await;
            self.ended.extend(ended);
        }
    }

    fn add(&mut self, id: TaskId) {
        match self.handle(&id).check_id() {
            Err(error) => self.ended.push_back((id, Err(error))),
            Ok(()) if self.pending.contains_key(&id) => {}
            Ok(()) => {
                self.pending.insert(id, Pending::default());
                self.is_search_due = true;
            }
        }
    }

    fn handle(&self, id: &TaskId) -> Task {
        Task { core: Arc::clone(&self.tasks.core), id: id.clone() }
    }

    /// Waits for the next read, reads, and returns the tasks that have ended.
    async fn round(&mut self) -> Vec<Ended> {
        let has_queued = self.pending.values().any(|task| may_be_queued(task.status.as_ref()));
        let cancels = self.options.cancel_at_deadline && has_queued;
        let deadline = cancel_before(self.deadline, cancels);
        if self.rounds > 0 {
            let waited = self.deadline.started.elapsed();
            let schedule = Schedule::new(self.options.poll.clone(), &[]);
            let delay = schedule.delay_after(self.rounds - 1, waited, self.retry_after.take());
            let next = Instant::now() + delay;
            sleep_until(deadline.at.map_or(next, |at| next.min(at))).await;
        }
        if deadline.is_over() {
            return self.give_up(cancels).await;
        }
        self.rounds += 1;
        if self.is_search_due && self.pending.len() > 1 {
            self.search(deadline).await;
        }
        self.read_pages(deadline).await;
        self.read_tasks(deadline).await
    }

    /// Finds where the history shows the tasks, from its end backwards. Stops when all are found, or when
    /// reading more pages would cost more than reading the tasks.
    async fn search(&mut self, deadline: Deadline) {
        let first = match self.tasks.page_until(1, 0, deadline).await {
            Ok((first, _)) => first,
            Err(error) => return self.note_retry_after(&error),
        };
        let mut end = first.total.unwrap_or_default();
        let mut pages = 0;
        while end > 0
            && pages < self.pending.len()
            && self.pending.values().any(|task| task.position.is_none())
        {
            let start = end.saturating_sub(u64::from(MAX_RECORDS));
            self.read_page(start, deadline).await;
            end = start;
            pages += 1;
        }
        self.is_search_due = false;
    }

    /// Reads the pages that showed tasks before, if that takes fewer requests than reading the tasks.
    async fn read_pages(&mut self, deadline: Deadline) {
        let mut positions: Vec<u64> = self.pending.values().filter_map(|task| task.position).collect();
        positions.sort_unstable();
        let mut pages: Vec<u64> = Vec::new();
        for position in &positions {
            if pages.last().is_none_or(|start| *position >= start + u64::from(MAX_RECORDS)) {
                pages.push(*position);
            }
        }
        for task in self.pending.values_mut() {
            task.position = None;
        }
        if pages.len() < positions.len() {
            for start in pages {
                self.read_page(start, deadline).await;
            }
        }
    }

    async fn read_page(&mut self, start: u64, deadline: Deadline) {
        let page = match self.tasks.page_until(MAX_RECORDS, start, deadline).await {
            Ok((page, _)) => page,
            // What the page does not show is read by itself.
            Err(error) => return self.note_retry_after(&error),
        };
        for (position, record) in (start..).zip(page.records) {
            if let Some(task) = self.pending.get_mut(&record.task_id) {
                task.position = Some(position);
                task.status = record.status;
            }
        }
    }

    /// Reads the tasks that have ended, and those that no page shows.
    async fn read_tasks(&mut self, deadline: Deadline) -> Vec<Ended> {
        let has_ended = |task: &Pending| task.status.as_ref().is_some_and(TaskStatus::is_terminal);
        let due = self.pending.iter().filter(|(_, task)| has_ended(task) || task.position.is_none());
        let due: Vec<Task> = due.map(|(id, _)| self.handle(id)).collect();
        let reads = stream::iter(due).map(|task| async move {
            let read = task.get_until(deadline).await;
            (task.id, read)
        });
        let reads: Vec<_> = reads.buffer_unordered(MAX_CONCURRENT_READS).collect().await;
        reads.into_iter().filter_map(|(id, read)| self.observe(id, read)).collect()
    }

    fn note_retry_after(&mut self, error: &Error) {
        self.retry_after = self.retry_after.max(error.retry_after());
    }

    /// What a read of the task means: its end, or nothing.
    fn observe(&mut self, id: TaskId, read: Result<TaskDetail>) -> Option<Ended> {
        let core = Arc::clone(&self.tasks.core);
        let end = match read {
            Ok(task) if task.status.as_ref().is_some_and(TaskStatus::is_terminal) => {
                ended(task, &core).map(|task| Outcome::of(task, &core))
            }
            Ok(task) => {
                let pending = self.pending.get_mut(&id)?;
                pending.status = task.status;
                return None;
            }
            Err(error) if ends_wait(&error) => Err(error),
            Err(error) => {
                self.note_retry_after(&error);
                let pending = self.pending.get_mut(&id)?;
                pending.last_error = Some(error);
                return None;
            }
        };
        self.pending.remove(&id)?;
        Some((id, end))
    }

    /// The deadline: every task that is left ends with an error that states what became of it; first those
    /// that can be canceled.
    async fn give_up(&mut self, cancels: bool) -> Vec<Ended> {
        let deadline = self.deadline;
        let core = &self.tasks.core;
        let left = self.pending.extract_if(|_, task| !cancels || may_be_queued(task.status.as_ref()));
        let left: Vec<_> = left.collect();
        let ends = stream::iter(left).map(|(id, task)| async move {
            let mut disposition = TaskDisposition::StillRunning;
            if cancels {
                disposition = cancel(core, &id, deadline).await;
            }
            if task.status.is_none() && disposition == TaskDisposition::StillRunning {
                disposition = TaskDisposition::Unknown;
            }
            let reached = deadline.reached(DeadlineReached {
                task: Some(id.clone()),
                disposition,
                last_status: task.status,
                source: task.last_error.map(Box::new),
                ..DeadlineReached::default()
            });
            (id, Err(reached))
        });
        ends.buffer_unordered(MAX_CONCURRENT_CANCELS).collect().await
    }
}

impl std::fmt::Debug for WaitAll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WaitAll").finish_non_exhaustive()
    }
}
