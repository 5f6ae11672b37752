//! Handle of one task: read, wait, cancel.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use inferstore_api::operations;
use inferstore_api::types::{ModelId, TaskDetail, TaskId, TaskLogs, TaskStatus};
use tokio::time::{Instant, sleep_until};

use crate::run::poll::Schedule;
use crate::run::{Outcome, PollInterval, RunEvent, RunEvents};
use crate::transport::{
    Core, Deadline, DeadlineReached, Error, Events, MAX_MESSAGE, Result, Sink, TaskDisposition, TaskFailure,
    awaited, check_task_id,
};

/// Time between the last read and the deadline, if the schedule has no later one.
const LAST_READ: Duration = Duration::from_millis(500);

/// Reserve before the deadline for a cancel and its response: a share of the whole time, up to a maximum.
const CANCEL_SHARE: u32 = 5;
const MAX_CANCEL_RESERVE: Duration = Duration::from_secs(2);

/// Grace after the deadline for the response to a cancel.
const CANCEL_GRACE: Duration = Duration::from_millis(200);

const CANCEL_BACKOFF: Duration = Duration::from_millis(200);

/// Longest `Retry-After` that a wait follows.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(600);

/// Handle of one task, by its identifier, by which another process can pick it up. Making the handle sends nothing.
#[derive(Clone, Debug)]
pub struct Task {
    core: Arc<Core>,
    id: TaskId,
    /// Known if this client created the task, or the caller named the model.
    model: Option<ModelId>,
}

/// Result of one read of a task.
#[derive(Debug)]
#[non_exhaustive]
pub struct TaskPoll {
    /// Status, if the service stated one. A word unknown to this version is not final.
    pub status: Option<TaskStatus>,
    /// Outcome, or the error of a task that failed or was canceled; `None` while the task has not ended.
    pub outcome: Option<Result<Outcome>>,
}

impl Task {
    pub(crate) fn new(core: &Arc<Core>, id: impl Into<TaskId>) -> Self {
        Self { core: Arc::clone(core), id: id.into(), model: None }
    }

    /// Returns the identifier as given.
    pub fn id(&self) -> &TaskId {
        &self.id
    }

    /// Returns the model, if this client created the task, or [`of_model`](Self::of_model) named the model.
    pub fn model(&self) -> Option<&ModelId> {
        self.model.as_ref()
    }

    /// Sets the model, which the record of the task lacks: a wait then learns from durations of the model's tasks.
    #[must_use]
    pub fn of_model(self, model: impl Into<ModelId>) -> Self {
        Self { model: Some(model.into()), ..self }
    }

    /// Returns the current record of the task.
    pub fn get(&self) -> BoxFuture<'static, Result<TaskDetail>> {
        let task = self.clone();
        async move { task.core.get_task(&task.id, Deadline::never()).await }.boxed()
    }

    /// Reads the task once. [`wait`](Self::wait) is a loop over this, with the delays of
    /// [`PollInterval::delay`](crate::PollInterval::delay), as are the waits of
    /// [`inferstore-batch`](https://docs.rs/inferstore-batch). Retries use the retry budget of waits.
    ///
    /// # Errors
    ///
    /// The read failed. [`Error::ends_wait`] returns whether another read may succeed.
    pub fn poll(&self) -> BoxFuture<'static, Result<TaskPoll>> {
        let task = self.clone();
        let deadline = Deadline { is_of_wait: true, ..Deadline::never() };
        async move { task.poll_until(deadline).await }.boxed()
    }

    pub(crate) async fn poll_until(&self, deadline: Deadline) -> Result<TaskPoll> {
        let detail = self.core.get_task(&self.id, deadline).await?;
        let status = detail.status.clone();
        let has_ended = status.as_ref().is_some_and(TaskStatus::is_terminal);
        Ok(TaskPoll { status, outcome: has_ended.then(|| self.outcome_of(detail)) })
    }

    fn outcome_of(&self, task: TaskDetail) -> Result<Outcome> {
        match task.status {
            Some(TaskStatus::Failed) => {
                let redactor = &self.core.redactor;
                let message = task.message.filter(|message| !message.is_empty());
                let message = message.map(|message| redactor.foreign(&message, MAX_MESSAGE));
                let detail = task.result.and_then(|result| result.error);
                let detail = detail.map(|detail| redactor.foreign_json(detail));
                Err(Error::TaskFailed(Box::new(TaskFailure { task: task.task_id, message, detail })))
            }
            Some(TaskStatus::Canceled) => Err(Error::TaskCanceled(task.task_id)),
            _ => Ok(Outcome::of(task, &self.core)),
        }
    }

    /// Waits until the task has ended, and returns its outcome if it succeeded.
    ///
    /// ```no_run
    /// # async fn example(client: inferstore::Client, id: String) -> Result<(), inferstore::Error> {
    /// use std::time::Duration;
    ///
    /// let outcome = client.task(id).wait().deadline(Duration::from_secs(300)).await?;
    /// println!("{}", outcome.output);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// From the future: [`Error::TaskFailed`], [`Error::TaskCanceled`], or [`Error::DeadlineReached`].
    pub fn wait(&self) -> Wait {
        Wait { task: self.clone(), deadline: None, options: WaitOptions::default() }
    }

    /// Cancels the task if it is still queued; a canceled task is not billed. A running task cannot be interrupted. A
    /// dropped future or a lost response leaves open whether the task is canceled; read the task to see.
    ///
    /// # Errors
    ///
    /// [`Error::Api`] if the task is no longer queued; [`Error::Transport`] if the response was lost.
    pub fn cancel(&self) -> BoxFuture<'static, Result<()>> {
        let task = self.clone();
        async move { task.core.cancel_task(&task.id, Deadline::never()).await }.boxed()
    }

    /// Returns the end of the log of the task: the standard error of its model, also while the model runs. The
    /// text is as the model wrote it: mask control characters before you print it to a terminal.
    pub fn logs(&self) -> BoxFuture<'static, Result<TaskLogs>> {
        let task = self.clone();
        Box::pin(async move {
            check_task_id(&task.id)?;
            let call = task.core.call(operations::GET_TASK_LOGS).about(&task.id);
            call.send(|api| api.get_task_logs(&task.id)).await
        })
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct WaitOptions {
    pub(crate) poll: PollInterval,
    pub(crate) cancel_at_deadline: bool,
}

/// Wait for a task: await it for the outcome, or read its [`events`](Self::events).
///
/// The wait ends with the task, at its deadline, or when the service permanently refuses to return the task (401, 404
/// and other 4xx except 408 and 429), or returns more bytes than
/// [`max_response_size`](crate::Settings::max_response_size). Transient failures do not end the wait: 5xx, 429, HTML
/// pages and redirects of a gateway, dropped connections. Dropping the wait does not affect the task.
#[derive(Clone, Debug)]
#[must_use = "a wait does nothing until it is awaited"]
pub struct Wait {
    task: Task,
    deadline: Option<Duration>,
    options: WaitOptions,
}

impl Wait {
    /// Sets the timeout of the wait. Default: none.
    pub fn deadline(mut self, deadline: impl Into<Option<Duration>>) -> Self {
        self.deadline = deadline.into();
        self
    }

    /// Sets the intervals between two reads. Default: [`PollInterval::Adaptive`].
    pub fn poll(mut self, interval: PollInterval) -> Self {
        self.options.poll = interval;
        self
    }

    /// Cancels a queued task shortly before the deadline: a fifth of the deadline before it, at most 2 s.
    /// Otherwise the task continues, and is billed if it succeeds. Default: `false`.
    pub fn cancel_at_deadline(mut self, cancel: bool) -> Self {
        self.options.cancel_at_deadline = cancel;
        self
    }

    /// Returns the wait as a stream of events.
    pub fn events(self) -> RunEvents {
        Events::new(|sink| {
            Box::pin(async move {
                check_task_id(&self.task.id)?;
                let deadline = Deadline::after(self.deadline);
                wait(&self.task, self.options, deadline, &sink, Some(Duration::ZERO)).await
            })
        })
    }
}

awaited!(Wait => Outcome, |wait| wait.events().into_future());

/// Reads the task until it has ended: first after this delay, else when tasks of its model are likely to end.
/// The deadline is that of the whole operation, which in a run started before the wait.
pub(crate) async fn wait(
    task: &Task,
    options: WaitOptions,
    deadline: Deadline,
    sink: &Sink<RunEvent>,
    first: Option<Duration>,
) -> Result<Outcome> {
    let memory = &task.core.memory;
    let known = task.model.as_ref().map(|model| memory.durations_of(model)).unwrap_or_default();
    let schedule = Schedule::new(options.poll, &known);
    let deadline = Deadline { is_of_wait: true, ..deadline };
    let started = Instant::now();
    let mut status = None;
    let mut last_error = None;
    let mut delay = first.unwrap_or_else(|| schedule.delay(0, Duration::ZERO));
    let mut reads = 0;
    // Status of the last successful read; a task that was never read may be queued.
    let cancels = |status: &Option<_>| {
        options.cancel_at_deadline && status.as_ref().is_none_or(|status| *status == TaskStatus::InQueue)
    };
    let mut disposition = TaskDisposition::StillRunning;
    let (disposition, status) = loop {
        let end = if cancels(&status) { deadline.less(cancel_reserve(deadline)) } else { deadline };
        let (mut was_canceled, mut is_cut) = (false, false);
        let read = if sleep(delay, end).await {
            let is_late = !end.allows(LAST_READ);
            let read = task.poll_until(end).await;
            // A last read that the deadline cut off says nothing about the service.
            is_cut = is_late && end.is_over() && read.as_ref().is_err_and(|error| error.status().is_none());
            read
        } else if cancels(&status) {
            let limit = Deadline { at: deadline.at.and_then(|at| at.checked_add(CANCEL_GRACE)), ..deadline };
            let (after_cancel, read) = cancel(task, limit).await;
            (disposition, was_canceled) = (after_cancel, true);
            let Some(read) = read else { break (disposition, status) };
            Ok(read)
        } else {
            break (disposition, status);
        };
        reads += 1;
        delay = schedule.delay(reads, started.elapsed());
        match read {
            Ok(read) => {
                last_error = None;
                if read.status.is_some() && status != read.status {
                    status = read.status;
                    status.iter().for_each(|status| sink(RunEvent::Status(status.clone())));
                }
                if let Some(outcome) = read.outcome {
                    // Only successes are samples of the duration of a success.
                    if let (Some(model), Ok(Outcome { duration: Some(duration), .. })) =
                        (&task.model, &outcome)
                    {
                        memory.add_duration(model, *duration);
                    }
                    return outcome;
                }
                // A task that a node claimed just before the cancel may end before the deadline.
                if was_canceled && cancels(&status) {
                    break (disposition, status);
                }
                if status == Some(TaskStatus::Computing) {
                    disposition = TaskDisposition::StillRunning;
                }
            }
            Err(error) if error.ends_wait() => return Err(error),
            Err(_) if is_cut => {}
            Err(error) => {
                sink(RunEvent::ReadFailed(error.to_string()));
                delay = delay.max(error.retry_after().unwrap_or_default().min(MAX_RETRY_AFTER));
                last_error = Some(Box::new(error));
            }
        }
    };
    let is_unknown = status.is_none() && disposition == TaskDisposition::StillRunning;
    Err(deadline.reached(DeadlineReached {
        task: Some(task.id.clone()),
        disposition: if is_unknown { TaskDisposition::Unknown } else { disposition },
        last_status: status,
        source: last_error,
        ..DeadlineReached::default()
    }))
}

fn cancel_reserve(deadline: Deadline) -> Duration {
    let length = deadline.at.map(|at| at.saturating_duration_since(deadline.started));
    (length.unwrap_or_default() / CANCEL_SHARE).min(MAX_CANCEL_RESERVE)
}

/// Sleeps until the next read; false at the end of the wait.
async fn sleep(delay: Duration, end: Deadline) -> bool {
    let now = Instant::now();
    let mut next = now.checked_add(delay).unwrap_or(now);
    if let Some(end) = end.at.filter(|end| next >= *end) {
        // One more read before the end, unless this was the last.
        next = end.checked_sub(LAST_READ).filter(|last_read| *last_read > now).unwrap_or(end);
    }
    sleep_until(next).await;
    end.at.is_none_or(|end| next < end)
}

/// Cancels a task that may be queued, with retries while they may help. Returns its disposition, and, if it
/// was not canceled, its last read: the task may have ended, or an earlier cancel may have taken effect.
pub(crate) async fn cancel(task: &Task, limit: Deadline) -> (TaskDisposition, Option<TaskPoll>) {
    let mut delay = CANCEL_BACKOFF;
    // A rejected cancel says nothing about an earlier one whose response was lost.
    let mut is_in_doubt = false;
    loop {
        let Err(error) = task.core.cancel_task(&task.id, limit).await else {
            return (TaskDisposition::Canceled, None);
        };
        is_in_doubt |= error.is_in_doubt();
        delay = delay.max(error.retry_after().unwrap_or_default());
        if error.is_permanent() || !limit.allows(delay) {
            // A rate limit says nothing about the task, and a gateway timeout nothing about the service.
            let is_refused = error.is_permanent() || error.status() == Some(429);
            let read = task.poll_until(limit).await.ok();
            if read.as_ref().is_some_and(|read| matches!(read.outcome, Some(Err(Error::TaskCanceled(_))))) {
                return (TaskDisposition::Canceled, None);
            }
            let is_known = is_refused && !is_in_doubt;
            let disposition =
                if is_known { TaskDisposition::StillRunning } else { TaskDisposition::CancelUnknown };
            return (disposition, read);
        }
        tokio::time::sleep(delay).await;
        delay *= 2;
    }
}
