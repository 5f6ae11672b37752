//! Waiting for many tasks at once. Most of them are read through pages of the task history, a
//! hundred with one request; a task is read by itself only once it has ended, to learn its result.

use std::collections::{BTreeMap, HashMap, VecDeque};

use futures_util::stream::{self, Stream, StreamExt};
use inferstore_api::types::{self, TaskId, TaskStatus};
use tokio::time::{Instant, sleep_until};

use crate::deadline::Deadline;
use crate::error::{Fate, Result};
use crate::outcome::Outcome;
use crate::tasks::{MAX_RECORDS, Tasks};
use crate::wait::{Patience, Wait, cancel_queued, ended};

/// How many tasks are read by themselves at the same time.
const SIDE_BY_SIDE: usize = 8;

impl Tasks {
    /// Waits for many tasks at once and returns each as it ends.
    ///
    /// ```no_run
    /// # async fn example(client: inferstore::Client, ids: Vec<String>) {
    /// use futures_util::StreamExt;
    /// use inferstore::Wait;
    ///
    /// let mut ended = std::pin::pin!(client.tasks().wait_all(ids, Wait::default()));
    /// while let Some((task, result)) = ended.next().await {
    ///     println!("{task}: {result:?}");
    /// }
    /// # }
    /// ```
    ///
    /// Every task comes exactly once, with its outcome or its error; at the deadline all that are left
    /// come with [`Error::DeadlineReached`](crate::Error::DeadlineReached). Reads that fail do not end the wait, unless there is no deadline and a task was refused for a
    /// minute. Dropping the stream leaves the tasks alone.
    pub fn wait_all<Ids: IntoIterator<Item: ToString>>(
        &self,
        tasks: Ids,
        wait: Wait,
    ) -> impl Stream<Item = (TaskId, Result<Outcome>)> + Send + use<Ids> {
        let mut many = Many {
            tasks: self.clone(),
            deadline: Deadline::after(wait.deadline),
            wait,
            rounds: 0,
            pending: HashMap::new(),
            ended: VecDeque::new(),
            history_was_searched: false,
        };
        for id in tasks {
            match self.client.task(id.to_string()).checked_id() {
                Ok(id) => {
                    drop(many.pending.insert(id.to_string(), Pending::new(id)));
                }
                Err(error) => many.ended.push_back((TaskId::new(id.to_string()), Err(error))),
            }
        }
        stream::unfold(many, |mut many| async move { many.next().await.map(|ended| (ended, many)) }).boxed()
    }
}

struct Many {
    tasks: Tasks,
    wait: Wait,
    deadline: Deadline,
    rounds: u32,
    pending: HashMap<String, Pending>,
    ended: VecDeque<(TaskId, Result<Outcome>)>,
    history_was_searched: bool,
}

struct Pending {
    id: TaskId,
    /// Its place in the history, which only grows at its end.
    position: Option<u64>,
    status: Option<TaskStatus>,
    patience: Patience,
}

impl Many {
    async fn next(&mut self) -> Option<(TaskId, Result<Outcome>)> {
        loop {
            if let Some(ended) = self.ended.pop_front() {
                return Some(ended);
            }
            if self.pending.is_empty() {
                return None;
            }
            if self.rounds > 0 {
                self.pause().await;
            }
            if self.deadline.is_over() {
                self.give_up().await;
                continue;
            }
            self.rounds += 1;
            self.round().await;
        }
    }

    async fn pause(&self) {
        let now = Instant::now();
        let next = now + self.wait.pace.pause(self.rounds - 1, now - self.deadline.started);
        sleep_until(self.deadline.at.map_or(next, |deadline| next.min(deadline))).await;
    }

    /// Reads what is pending, the cheaper way, and moves what has ended.
    async fn round(&mut self) {
        if !self.history_was_searched && self.pending.len() > 1 {
            self.search_history().await;
        }
        let windows = self.windows();
        let alone: Vec<TaskId> = if windows.len() < self.pending.len() {
            for start in windows {
                self.read_window(start).await;
            }
            // What has ended is read for its result; what the history does not show, for its status.
            let to_read = self.pending.values().filter(|task| task.has_ended() || task.position.is_none());
            to_read.map(|task| task.id.clone()).collect()
        } else {
            self.pending.values().map(|task| task.id.clone()).collect()
        };
        let (client, deadline) = (&self.tasks.client, self.deadline);
        let read = stream::iter(alone).map(|id| async move {
            let task = client.task(&id).get_until(deadline).await;
            (id, task)
        });
        let read: Vec<(TaskId, Result<types::TaskDetail>)> =
            read.buffer_unordered(SIDE_BY_SIDE).collect().await;
        for (id, task) in read {
            self.learn(&id, task);
        }
    }

    /// Takes what a read says of a task, which may be its end.
    fn learn(&mut self, id: &TaskId, read: Result<types::TaskDetail>) {
        let Some(pending) = self.pending.get_mut(id.as_str()) else { return };
        let end = match read {
            Ok(task) => {
                pending.patience.renew();
                pending.status.clone_from(&task.status);
                pending.has_ended().then(|| ended(task).and_then(Outcome::of))
            }
            Err(error) => pending.patience.ends_with(&error, self.deadline).then_some(Err(error)),
        };
        if let Some(end) = end
            && let Some(pending) = self.pending.remove(id.as_str())
        {
            self.ended.push_back((pending.id, end));
        }
    }

    /// Finds where the tasks stand in the history, from its end backwards. Stops when all are found,
    /// or when reading the rest of the history would cost more than reading the tasks.
    async fn search_history(&mut self) {
        let Ok(first) = self.tasks.page_until(1, 0, self.deadline).await else { return };
        let mut end = first.total.unwrap_or_default();
        let mut pages = 0;
        while end > 0
            && pages < self.pending.len()
            && self.pending.values().any(|task| task.position.is_none())
        {
            let start = end.saturating_sub(u64::from(MAX_RECORDS));
            self.read_window(start).await;
            end = start;
            pages += 1;
        }
        self.history_was_searched = true;
    }

    /// Where pages have to begin to show every pending task whose place is known.
    fn windows(&self) -> Vec<u64> {
        let mut positions: Vec<u64> = self.pending.values().filter_map(|task| task.position).collect();
        positions.sort_unstable();
        let mut windows: Vec<u64> = Vec::new();
        for position in positions {
            if windows.last().is_none_or(|start| position >= start + u64::from(MAX_RECORDS)) {
                windows.push(position);
            }
        }
        windows
    }

    /// Reads one page and takes from it what it says of the pending tasks.
    async fn read_window(&mut self, start: u64) {
        let Ok(page) = self.tasks.page_until(MAX_RECORDS, start, self.deadline).await else { return };
        for (position, record) in (start..).zip(page.records) {
            if let Some(task) = self.pending.get_mut(record.task_id.as_str()) {
                task.position = Some(position);
                task.status = record.status;
            }
        }
    }

    /// The deadline: every task that is left comes with an error that says what became of it.
    async fn give_up(&mut self) {
        let fates: BTreeMap<String, _> = match self.wait.cancel_at_deadline {
            true => {
                let queued =
                    self.pending.values().filter(|task| task.may_be_queued()).map(|task| task.id.clone());
                cancel_queued(&self.tasks.client, queued.collect()).await
            }
            false => BTreeMap::new(),
        };
        for (id, task) in self.pending.drain() {
            let fate = fates.get(&id).copied().unwrap_or(Fate::GoesOn);
            let reached = self.deadline.reached(Some(task.id.clone()), fate);
            self.ended.push_back((task.id, Err(reached)));
        }
    }
}

impl Pending {
    fn new(id: TaskId) -> Self {
        Self { id, position: None, status: None, patience: Patience::default() }
    }

    fn has_ended(&self) -> bool {
        matches!(self.status, Some(TaskStatus::Success | TaskStatus::Failed | TaskStatus::Canceled))
    }

    fn may_be_queued(&self) -> bool {
        matches!(self.status, None | Some(TaskStatus::InQueue))
    }
}
