//! Waiting for one task: a step that reads it, and a loop that knows when to stop.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use inferstore_api::types::{self, TaskId, TaskStatus};
use tokio::time::{Instant, sleep_until};

use crate::client::Client;
use crate::deadline::Deadline;
use crate::error::{Error, Fate, Result, TaskFailure};
use crate::event::{OnEvent, RunEvent, RunEvents};
use crate::outcome::Outcome;
use crate::pace::Pace;
use crate::tasks::Task;

/// How long a task is waited for, and how. Name what differs and take the rest from the default:
///
/// ```
/// use std::time::Duration;
/// use inferstore::{Pace, Wait};
///
/// let wait = Wait { deadline: Some(Duration::from_secs(300)), pace: Pace::Long, ..Wait::default() };
/// ```
#[derive(Clone, Debug, Default)]
pub struct Wait {
    /// How long the whole may take, from the call on. In a run it bounds everything: uploads, the
    /// create, repeats and the wait. Without one the wait ends when the task does.
    pub deadline: Option<Duration>,
    /// How often the task is read.
    pub pace: Pace,
    /// Cancels the task at the deadline if it is still in the queue. Otherwise it goes on, and is
    /// billed if it succeeds.
    pub cancel_at_deadline: bool,
}

/// How long a task may answer nothing but refusals before a wait without a deadline gives up. With
/// one, no failed read ends the wait before it.
const PATIENCE_WITH_REFUSALS: Duration = Duration::from_secs(60);

/// A last read is placed so long before the deadline, when the pace has none nearer.
const LAST_LOOK: Duration = Duration::from_millis(500);

/// How long a cancel at the deadline may take; so much later than asked for is the wait over.
const TIME_TO_CANCEL: Duration = Duration::from_millis(200);

/// How many tasks are canceled at the same time, so that many fit into that.
const CANCELS_SIDE_BY_SIDE: usize = 32;

impl Task {
    /// Waits until the task has ended, and returns it if it succeeded.
    ///
    /// ```no_run
    /// # async fn example(client: inferstore::Client, id: String) -> Result<(), inferstore::Error> {
    /// use std::time::Duration;
    /// use inferstore::Wait;
    ///
    /// let wait = Wait { deadline: Some(Duration::from_secs(300)), ..Wait::default() };
    /// let outcome = client.task(id).wait(&wait).await?;
    /// println!("{} for {:?}", outcome.output, outcome.cost);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Dropping the future leaves the task alone. A read that fails does not end the wait, unless there
    /// is no deadline and the service refused it for a minute.
    ///
    /// # Errors
    ///
    /// [`Error::TaskFailed`] and [`Error::TaskCanceled`] when the task ended so,
    /// [`Error::DeadlineReached`] when it did not end in time.
    pub async fn wait(&self, wait: &Wait) -> Result<Outcome> {
        self.outcome(wait.clone(), &mut |_| {}).await
    }

    /// Waits for the task, as a stream of what happens.
    ///
    /// ```no_run
    /// # async fn example(client: inferstore::Client, id: String) -> Result<(), inferstore::Error> {
    /// use futures_util::TryStreamExt;
    /// use inferstore::{RunEvent, Wait};
    ///
    /// let mut events = client.task(id).follow(Wait::default());
    /// while let Some(event) = events.try_next().await? {
    ///     match event {
    ///         RunEvent::Status(status) => println!("{status}"),
    ///         RunEvent::Done(outcome) => println!("{}", outcome.output),
    ///         _ => {}
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It ends as [`wait`](Self::wait) does: with [`RunEvent::Done`], or with an error.
    pub fn follow(&self, wait: Wait) -> RunEvents {
        let task = self.clone();
        RunEvents::of(|mut on_event| async move { task.outcome(wait, &mut *on_event).await })
    }

    async fn outcome(&self, wait: Wait, on_event: OnEvent<'_>) -> Result<Outcome> {
        let (id, deadline) = (self.checked_id()?, Deadline::after(wait.deadline));
        let mut waiting = Waiting::begin(self.clone(), id, wait, deadline);
        waiting.read_at_once = true;
        Outcome::of(waiting.until_the_end(on_event).await?)
    }
}

/// One wait for one task.
pub(crate) struct Waiting {
    task: Task,
    id: TaskId,
    wait: Wait,
    /// Of the whole, which began earlier than the wait in a run.
    deadline: Deadline,
    /// Whether the task may have ended already.
    pub(crate) read_at_once: bool,
    reads: u32,
    seen: Option<TaskStatus>,
    patience: Patience,
}

/// How long reads have been refused.
#[derive(Debug, Default)]
pub(crate) struct Patience(Option<Instant>);

impl Patience {
    /// Whether a read that failed ends the wait: only when it would fail forever, and nobody set a
    /// deadline.
    pub(crate) fn ends_with(&mut self, error: &Error, deadline: Deadline) -> bool {
        if !matches!(error, Error::Refused(_) | Error::KeyRefused(_)) {
            self.renew();
            return false;
        }
        let since = *self.0.get_or_insert_with(Instant::now);
        deadline.at.is_none() && since.elapsed() >= PATIENCE_WITH_REFUSALS
    }

    /// Something other than a refusal came.
    pub(crate) fn renew(&mut self) {
        self.0 = None;
    }
}

impl Waiting {
    pub(crate) fn begin(task: Task, id: TaskId, wait: Wait, deadline: Deadline) -> Self {
        Self {
            task,
            id,
            wait,
            deadline,
            read_at_once: false,
            reads: 0,
            seen: None,
            patience: Patience::default(),
        }
    }

    /// Reads the task at its pace until it has ended, and returns it if it succeeded.
    pub(crate) async fn until_the_end(&mut self, on_event: OnEvent<'_>) -> Result<types::TaskDetail> {
        let began = Instant::now();
        if !self.read_at_once {
            self.pause(began).await?;
        }
        loop {
            match self.task.get_until(self.deadline).await {
                Ok(task) => {
                    self.patience.renew();
                    if let Some(end) = self.step(task, on_event) {
                        return end;
                    }
                }
                Err(error) => self.failed_read(error, on_event)?,
            }
            self.reads += 1;
            self.pause(began).await?;
        }
    }

    /// What a read means: the end of the wait, or not.
    fn step(&mut self, task: types::TaskDetail, on_event: OnEvent<'_>) -> Option<Result<types::TaskDetail>> {
        let status = task.status.clone()?;
        if self.seen.as_ref() != Some(&status) {
            on_event(RunEvent::Status(status.clone()));
        }
        self.seen = Some(status.clone());
        match status {
            TaskStatus::Success | TaskStatus::Failed | TaskStatus::Canceled => Some(ended(task)),
            // A word that the document does not know is no end: the service may have learned a new one.
            _ => None,
        }
    }

    fn failed_read(&mut self, error: Error, on_event: OnEvent<'_>) -> Result<()> {
        if self.patience.ends_with(&error, self.deadline) {
            return Err(error);
        }
        on_event(RunEvent::ReadFailed(error.headline()));
        Ok(())
    }

    /// Until the next read, or the deadline.
    async fn pause(&self, began: Instant) -> Result<()> {
        let now = Instant::now();
        let mut next = now + self.wait.pace.pause(self.reads, now - began);
        if let Some(deadline) = self.deadline.at {
            if now >= deadline {
                return Err(self.at_deadline().await);
            }
            if next >= deadline {
                // One more look before time is up, unless this was it.
                let last_look = deadline.checked_sub(LAST_LOOK).filter(|last_look| *last_look > now);
                next = last_look.unwrap_or(deadline);
            }
        }
        sleep_until(next).await;
        if self.deadline.is_over() { Err(self.at_deadline().await) } else { Ok(()) }
    }

    async fn at_deadline(&self) -> Error {
        let may_be_queued = matches!(self.seen, None | Some(TaskStatus::InQueue));
        let fates = match self.wait.cancel_at_deadline && may_be_queued {
            true => cancel_queued(&self.task.client, vec![self.id.clone()]).await,
            false => BTreeMap::new(),
        };
        let fate = fates.get(self.id.as_str()).copied().unwrap_or(Fate::GoesOn);
        self.deadline.reached(Some(self.id.clone()), fate)
    }
}

/// Cancels tasks that may still be in the queue, and says what became of each.
pub(crate) async fn cancel_queued(client: &Client, tasks: Vec<TaskId>) -> BTreeMap<String, Fate> {
    let until = Deadline::after(Some(TIME_TO_CANCEL));
    let cancel = |id: TaskId| async move {
        let fate = match client.task(&id).cancel_until(until).await {
            Ok(()) => Fate::Canceled,
            Err(Error::Refused(context)) if !context.is_ambiguous() => Fate::GoesOn,
            Err(_) => Fate::CancelUnanswered,
        };
        (id.into(), fate)
    };
    stream::iter(tasks).map(cancel).buffer_unordered(CANCELS_SIDE_BY_SIDE).collect().await
}

/// A task that has ended, as a result.
pub(crate) fn ended(task: types::TaskDetail) -> Result<types::TaskDetail> {
    match task.status {
        Some(TaskStatus::Success) => Ok(task),
        Some(TaskStatus::Canceled) => Err(Error::TaskCanceled(task.task_id)),
        _ => Err(Error::TaskFailed(Box::new(TaskFailure {
            task: task.task_id,
            message: task.message.filter(|message| !message.is_empty()),
            detail: task.result.and_then(|result| result.error),
        }))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_a_minute_of_refusals_ends_a_wait_and_only_one_without_a_deadline() {
        let refusal = Error::Refused(Box::default());
        let silence = Error::Unreachable(Box::default());
        let (forever, bounded) = (Deadline::never(), Deadline::after(Some(Duration::from_secs(3600))));
        let mut patience = Patience::default();
        assert!(!patience.ends_with(&refusal, forever), "the first one");
        tokio::time::advance(PATIENCE_WITH_REFUSALS).await;
        assert!(!patience.ends_with(&refusal, bounded), "the deadline will end it");
        assert!(patience.ends_with(&refusal, forever));
        assert!(!patience.ends_with(&silence, forever), "the network may come back");
        assert!(!patience.ends_with(&refusal, forever), "and refusals are counted anew");
    }
}
