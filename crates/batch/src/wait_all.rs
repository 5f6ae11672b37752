//! Waits for many tasks. One page of the history shows the status of a hundred tasks in one request; a task
//! is read on its own once it has ended, or if no page shows it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::future::pending;
use std::mem::take;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use inferstore::types::{TaskId, TaskStatus};
use inferstore::{Client, DeadlineReached, Error, Outcome, PollInterval, Result, TaskDisposition, TaskPoll};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::Instrument;

use crate::history::{Shown, show};

/// Time between the last read and the deadline.
const LAST_READ: Duration = Duration::from_millis(500);

/// Longest `Retry-After` that the wait follows: otherwise one response could delay all tasks by a day.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(600);

/// Timeout of a read, so that a hanging read frees its slot. Allows for a `Retry-After` of a minute within the call.
const READ_TIMEOUT: Duration = Duration::from_secs(120);

/// Timeout of the history: afterwards a round reads the tasks one by one.
const HISTORY_TIMEOUT: Duration = Duration::from_secs(5);

const MAX_CONCURRENT_READS: usize = 16;

/// Waits for many tasks at once, and returns each as it ends.
///
/// ```no_run
/// # async fn example(client: inferstore::Client, ids: Vec<String>) {
/// let mut tasks = inferstore_batch::wait_all(&client, ids);
/// while let Some((task, result)) = tasks.next().await {
///     println!("{task}: {result:?}");
/// }
/// # }
/// ```
///
/// Every task comes exactly once, with its outcome or its error; at the deadline all that are left come with
/// [`Error::DeadlineReached`]. Failures that pass do not end the wait for a task, a refusal such as 404 ends it for that
/// task. A task that stays queued is waited for until the deadline. Dropping the stream leaves the tasks alone.
pub fn wait_all<Ids: IntoIterator<Item: Into<TaskId>>>(client: &Client, tasks: Ids) -> WaitAll {
    WaitAll {
        client: client.clone(),
        deadline: None,
        poll: PollInterval::default(),
        pending: tasks.into_iter().map(Into::into).collect(),
        waiter: None,
    }
}

/// Wait for many tasks: a stream of the tasks that have ended.
#[must_use = "nothing is waited for until the stream is read"]
pub struct WaitAll {
    client: Client,
    deadline: Option<Duration>,
    poll: PollInterval,
    /// Tasks that the stream has not returned yet.
    pending: HashSet<TaskId>,
    /// Background waiter. Starts with the first read, and again if tasks are added after all others have ended.
    waiter: Option<Handle>,
}

/// Waiter in a Tokio task of its own: it reads tasks even while the program does not poll the stream.
struct Handle {
    added: UnboundedSender<TaskId>,
    ended: UnboundedReceiver<Ended>,
    /// Aborts the waiter on drop.
    _running: JoinSet<()>,
}

type Ended = (TaskId, Result<Outcome>);

impl WaitAll {
    /// Ends the wait after this time, counted from the first read. Tasks added after all others have ended
    /// get the whole time again. Default: no deadline.
    pub fn deadline(mut self, deadline: impl Into<Option<Duration>>) -> Self {
        self.deadline = deadline.into();
        self
    }

    /// Sets the interval between reads, which restarts with each added task. Default: [`PollInterval::Adaptive`].
    pub fn poll(mut self, interval: PollInterval) -> Self {
        self.poll = interval;
        self
    }

    /// Adds a task, also between two reads of the stream. A pending task is not added twice.
    pub fn add(&mut self, task: impl Into<TaskId>) {
        let task = task.into();
        if self.pending.insert(task.clone())
            && let Some(waiter) = &self.waiter
        {
            // If the waiter has ended, the stream ends.
            let _ = waiter.added.send(task);
        }
    }

    /// Returns the next task that has ended, or `None` after the last one. Dropping the future loses no task.
    pub async fn next(&mut self) -> Option<(TaskId, Result<Outcome>)> {
        StreamExt::next(self).await
    }
}

impl Stream for WaitAll {
    type Item = (TaskId, Result<Outcome>);

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { client, deadline, poll, pending, waiter } = self.get_mut();
        if pending.is_empty() {
            return Poll::Ready(None);
        }
        let start = || Waiter::start(client.clone(), poll.clone(), *deadline, pending.iter().cloned());
        let ended = ready!(waiter.get_or_insert_with(start).ended.poll_recv(context));
        match &ended {
            Some((task, _)) => _ = pending.remove(task),
            None => pending.clear(),
        }
        if pending.is_empty() {
            *waiter = None;
        }
        Poll::Ready(ended)
    }
}

impl std::fmt::Debug for WaitAll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WaitAll").field("pending", &self.pending.len()).finish_non_exhaustive()
    }
}

struct Waiter {
    client: Client,
    poll: PollInterval,
    started: Instant,
    end: Option<Instant>,
    pending: HashMap<TaskId, Pending>,
    /// Tasks to read next, longest waiting first.
    due: VecDeque<TaskId>,
    /// `None`: the read timed out.
    reads: JoinSet<(TaskId, Option<Result<TaskPoll>>)>,
    /// At most one: a hanging page does not delay the rounds.
    history: JoinSet<Shown>,
    is_search_due: bool,
    /// Earliest read of a page, from `Retry-After`.
    history_not_before: Instant,
    /// Time at which tasks were last added, and the rounds since then.
    added_at: Instant,
    rounds: u32,
    round_began: Instant,
    next_round: Instant,
    /// Earliest read of a task, from `Retry-After`.
    not_before: Instant,
}

#[derive(Default)]
struct Pending {
    position: Option<u64>,
    status: Option<TaskStatus>,
    last_error: Option<Error>,
    /// True if the task is being read, or is queued in `due`.
    is_due: bool,
}

impl Waiter {
    fn start(
        client: Client,
        poll: PollInterval,
        deadline: Option<Duration>,
        tasks: impl Iterator<Item = TaskId>,
    ) -> Handle {
        let now = Instant::now();
        let waiter = Self {
            client,
            poll,
            started: now,
            end: deadline.and_then(|deadline| now.checked_add(deadline)),
            pending: tasks.map(|task| (task, Pending::default())).collect(),
            due: VecDeque::new(),
            reads: JoinSet::new(),
            history: JoinSet::new(),
            is_search_due: true,
            history_not_before: now,
            added_at: now,
            rounds: 0,
            round_began: now,
            next_round: now,
            not_before: now,
        };
        let (added, to_add) = unbounded_channel();
        let (to_end, ended) = unbounded_channel();
        let mut running = JoinSet::new();
        running.spawn(waiter.run(to_add, to_end).in_current_span());
        Handle { added, ended, _running: running }
    }

    /// Runs until the stream is dropped.
    async fn run(mut self, mut added: UnboundedReceiver<TaskId>, ended: UnboundedSender<Ended>) {
        loop {
            let is_waiting = !self.pending.is_empty();
            let next_read = self.next_read();
            tokio::select! {
                biased;
                () = sleep_until_end(self.end), if is_waiting => self.give_up(&ended),
                task = added.recv() => match task {
                    Some(task) => self.add(task),
                    None => return,
                },
                Some(read) = self.reads.join_next() => {
                    let (task, read) = match read {
                        Ok(read) => read,
                        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
                        Err(_) => continue,
                    };
                    if let Some(task) = self.observe(task, read) {
                        // Dropping the stream aborts this task, so the receiver is alive.
                        let _ = ended.send(task);
                    }
                }
                () = sleep_until(next_read), if is_waiting => self.round().await,
            }
            self.start_reads();
        }
    }

    fn add(&mut self, task: TaskId) {
        self.pending.insert(task, Pending::default());
        self.is_search_due = true;
        let now = Instant::now();
        self.added_at = now;
        self.rounds = 0;
        self.next_round = self.next_round.min(now + self.poll.delay(0, Duration::ZERO));
    }

    fn next_read(&self) -> Instant {
        let next = self.next_round.max(self.not_before);
        let Some(end) = self.end.filter(|end| next >= *end) else { return next };
        end.checked_sub(LAST_READ).filter(|last| *last > self.round_began).unwrap_or(end)
    }

    /// Queues a read of every task that the history does not show as running.
    async fn round(&mut self) {
        self.round_began = Instant::now();
        self.not_before = self.round_began;
        let running = self.read_history().await;
        for (id, task) in &mut self.pending {
            if !task.is_due && !running.contains(id) {
                task.is_due = true;
                self.due.push_back(id.clone());
            }
        }
        self.rounds += 1;
        self.next_round = Instant::now() + self.poll.delay(self.rounds, self.added_at.elapsed());
    }

    async fn read_history(&mut self) -> HashSet<TaskId> {
        let mut running = HashSet::new();
        while self.history.try_join_next().is_some() {}
        let now = Instant::now();
        if self.pending.len() < 2 || !self.history.is_empty() || now < self.history_not_before {
            return running;
        }
        // Pages are only a hint: a task that moved, or whose page is unreadable, is read on its own this round.
        let wanted = self.pending.iter_mut().map(|(id, task)| (id.clone(), task.position.take())).collect();
        let shown = show(self.client.tasks(), wanted, take(&mut self.is_search_due));
        self.history.spawn(shown.in_current_span());
        let until_end = self.end.map_or(HISTORY_TIMEOUT, |end| end.saturating_duration_since(now) / 2);
        let Ok(Some(Ok(shown))) = timeout(HISTORY_TIMEOUT.min(until_end), self.history.join_next()).await
        else {
            self.is_search_due = true;
            return running;
        };
        self.is_search_due = shown.is_search_due;
        self.history_not_before = now + shown.retry_after.min(MAX_RETRY_AFTER);
        for (id, (position, status)) in shown.tasks {
            let Some(task) = self.pending.get_mut(&id) else { continue };
            task.position = Some(position);
            if !status.is_terminal() {
                running.insert(id);
            }
            task.status = Some(status);
            task.last_error = None;
        }
        running
    }

    fn start_reads(&mut self) {
        while self.reads.len() < MAX_CONCURRENT_READS && Instant::now() >= self.not_before {
            let Some(id) = self.due.pop_front() else { return };
            let read = self.client.task(id.clone()).poll();
            let read = async move { (id, timeout(READ_TIMEOUT, read).await.ok()) };
            self.reads.spawn(read.in_current_span());
        }
    }

    fn observe(&mut self, id: TaskId, read: Option<Result<TaskPoll>>) -> Option<Ended> {
        let task = self.pending.get_mut(&id)?;
        task.is_due = false;
        let end = match read? {
            Ok(TaskPoll { status, outcome, .. }) => {
                task.last_error = None;
                task.status = status.or(task.status.take());
                outcome?
            }
            Err(error) if error.ends_wait() => Err(error),
            Err(error) => {
                let asked = error.retry_after().unwrap_or_default().min(MAX_RETRY_AFTER);
                self.not_before = self.not_before.max(Instant::now() + asked);
                task.last_error = Some(error);
                return None;
            }
        };
        self.pending.remove(&id);
        Some((id, end))
    }

    fn give_up(&mut self, ended: &UnboundedSender<Ended>) {
        self.due.clear();
        self.reads = JoinSet::new();
        for (id, task) in self.pending.drain() {
            let mut reached = DeadlineReached::default();
            reached.task = Some(id.clone());
            reached.disposition = match task.status {
                Some(_) => TaskDisposition::StillRunning,
                None => TaskDisposition::Unknown,
            };
            reached.last_status = task.status;
            reached.elapsed = self.started.elapsed();
            if let Some(error) = task.last_error {
                reached = reached.with_source(error);
            }
            let _ = ended.send((id, Err(Error::DeadlineReached(Box::new(reached)))));
        }
    }
}

async fn sleep_until_end(end: Option<Instant>) {
    match end {
        Some(end) => sleep_until(end).await,
        None => pending().await,
    }
}
