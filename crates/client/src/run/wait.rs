//! Waiting for one task.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use inferstore_api::types::{ModelId, TaskDetail, TaskId, TaskStatus};
use tokio::time::{Instant, sleep_until};

use crate::resources::models::Model;
use crate::resources::tasks::Task;
use crate::run::outcome::{self, Outcome};
use crate::run::poll::{PollInterval, Schedule};
use crate::run::{RunEvent, RunEvents};
use crate::transport::Core;
use crate::transport::deadline::Deadline;
use crate::transport::error::{DeadlineReached, Error, ModelOffline, Result, TaskDisposition, TaskFailure};
use crate::transport::events::{Events, Lazy, Sink, ignored};
use crate::transport::redact::MAX_MESSAGE;

/// A last read comes this long before the deadline, when the schedule has none that late.
const LAST_READ: Duration = Duration::from_millis(500);

/// How long before the deadline a task is canceled at the latest, so that the response still arrives:
/// this share of the time, up to the limit.
const CANCEL_SHARE: u32 = 5;
const MAX_CANCEL_RESERVE: Duration = Duration::from_secs(2);

/// How long after the deadline the response to a cancel is waited for.
const CANCEL_GRACE: Duration = Duration::from_millis(200);

/// A task that is queued this long may have a model that no node serves.
const ASK_SERVING_AFTER: Duration = Duration::from_secs(10);

/// How long the question for a serving node may take; it only explains the wait.
const SERVING_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a task may stay queued while no node serves its model, unless the caller says otherwise.
pub(crate) const OFFLINE_TIMEOUT: Duration = Duration::from_secs(600);

/// How a task is waited for.
#[derive(Clone, Debug)]
pub(crate) struct WaitOptions {
    pub(crate) deadline: Option<Duration>,
    pub(crate) poll: PollInterval,
    pub(crate) cancel_at_deadline: bool,
    pub(crate) offline_timeout: Option<Duration>,
}

impl Default for WaitOptions {
    fn default() -> Self {
        Self {
            deadline: None,
            poll: PollInterval::default(),
            cancel_at_deadline: false,
            offline_timeout: Some(OFFLINE_TIMEOUT),
        }
    }
}

/// The wait for a task: await it for its outcome, or read its [`events`](Self::events).
///
/// It ends when the task does, at its deadline, or when the service refuses to show the task for good
/// (401, 404 and other 4xx except 408 and 429). Failures that pass do not end it: 5xx, 429, HTML pages
/// of a gateway, dropped connections. Dropping it leaves the task alone.
#[derive(Clone, Debug)]
#[must_use = "a wait does nothing until it is awaited"]
pub struct Wait {
    task: Task,
    options: WaitOptions,
    running: Lazy<Outcome>,
}

impl Task {
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
    /// When awaited: [`Error::TaskFailed`] and [`Error::TaskCanceled`] when the task ended so,
    /// [`Error::DeadlineReached`] when it did not end in time.
    pub fn wait(&self) -> Wait {
        let options = WaitOptions { offline_timeout: None, ..WaitOptions::default() };
        Wait { task: self.clone(), options, running: Lazy::default() }
    }
}

impl Wait {
    /// Ends the wait after this time. Default: none.
    pub fn deadline(mut self, deadline: impl Into<Option<Duration>>) -> Self {
        self.options.deadline = deadline.into();
        self
    }

    /// How often the task is read. Default: [`PollInterval::Adaptive`].
    pub fn poll(mut self, interval: PollInterval) -> Self {
        self.options.poll = interval;
        self
    }

    /// Cancels the task at the deadline if it is still queued. Otherwise it stays, and is billed if it
    /// succeeds. Default: `false`.
    pub fn cancel_at_deadline(mut self, cancel: bool) -> Self {
        self.options.cancel_at_deadline = cancel;
        self
    }

    /// The wait as a stream of events.
    pub fn events(self) -> RunEvents {
        Events::new(|sink| self.run(sink))
    }

    async fn run(self, sink: Sink<RunEvent>) -> Result<Outcome> {
        self.task.check_id()?;
        let deadline = Deadline::after(self.options.deadline);
        let core = Arc::clone(&self.task.core);
        let waiter = Waiter::new(&core, self.task.id.clone(), None, self.options, deadline, sink);
        Ok(Outcome::of(waiter.run(true).await?, &core))
    }
}

impl Future for Wait {
    type Output = Result<Outcome>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let wait = self.get_mut();
        let mut running = std::mem::take(&mut wait.running);
        let polled = running.poll(context, || wait.clone().run(ignored()));
        wait.running = running;
        polled
    }
}

/// One wait for one task.
pub(crate) struct Waiter<'a> {
    core: &'a Arc<Core>,
    task: Task,
    /// Known when the wait belongs to a run.
    model: Option<ModelId>,
    options: WaitOptions,
    /// Of the whole operation, which started before the wait in a run.
    deadline: Deadline,
    schedule: Schedule,
    sink: Sink<RunEvent>,
    started: Instant,
    last_status: Option<TaskStatus>,
    last_error: Option<Error>,
    /// When the model was last known to be served, or the task not to be queued.
    last_served: Instant,
    /// Whether the caller knows that the model is offline.
    is_offline_reported: bool,
    next_serving_check: Duration,
}

impl<'a> Waiter<'a> {
    pub(crate) fn new(
        core: &'a Arc<Core>,
        task: TaskId,
        model: Option<ModelId>,
        options: WaitOptions,
        deadline: Deadline,
        sink: Sink<RunEvent>,
    ) -> Self {
        let durations = model.as_ref().map(|model| core.memory.durations.of(model)).unwrap_or_default();
        Self {
            core,
            task: Task { core: Arc::clone(core), id: task },
            model,
            schedule: Schedule::new(options.poll.clone(), &durations),
            options,
            deadline,
            sink,
            started: Instant::now(),
            last_status: None,
            last_error: None,
            last_served: Instant::now(),
            is_offline_reported: false,
            next_serving_check: ASK_SERVING_AFTER,
        }
    }

    /// Reads the task on schedule until it has ended, and returns it if it succeeded. `read_at_once`
    /// when it may have ended already.
    pub(crate) async fn run(mut self, read_at_once: bool) -> Result<TaskDetail> {
        let mut reads = 0;
        let mut delay = if read_at_once { Duration::ZERO } else { self.schedule.delay(0, Duration::ZERO) };
        loop {
            if !self.sleep(delay).await {
                return Err(self.at_deadline().await);
            }
            let mut retry_after = None;
            match self.task.get_until(self.end()).await {
                Ok(task) => {
                    if let Some(end) = self.observe(task) {
                        return end;
                    }
                    self.check_serving().await?;
                }
                Err(error) if ends_wait(&error) => return Err(error),
                Err(error) => {
                    retry_after = error.retry_after();
                    (self.sink)(RunEvent::ReadFailed(error.to_string()));
                    self.last_error = Some(error);
                }
            }
            reads += 1;
            delay = self.schedule.delay_after(reads, self.started.elapsed(), retry_after);
        }
    }

    /// Waits for the next read; `false` at the deadline.
    async fn sleep(&self, delay: Duration) -> bool {
        let now = Instant::now();
        let next = now.checked_add(delay).unwrap_or(now);
        let Some(deadline) = self.end().at else {
            sleep_until(next).await;
            return true;
        };
        if now >= deadline {
            return false;
        }
        if next < deadline {
            sleep_until(next).await;
            return true;
        }
        // One more read before the end, unless this was it.
        match deadline.checked_sub(LAST_READ).filter(|last_read| *last_read > now) {
            Some(last_read) => {
                sleep_until(last_read).await;
                true
            }
            None => {
                sleep_until(deadline).await;
                false
            }
        }
    }

    /// When the wait ends: at the deadline, or early enough to cancel a queued task before it.
    fn end(&self) -> Deadline {
        let cancels = self.options.cancel_at_deadline && may_be_queued(self.last_status.as_ref());
        cancel_before(self.deadline, cancels)
    }

    /// What a read of the task means: the end of the wait, or nothing.
    fn observe(&mut self, task: TaskDetail) -> Option<Result<TaskDetail>> {
        let status = task.status.clone()?;
        if self.last_status.as_ref() != Some(&status) {
            (self.sink)(RunEvent::Status(status.clone()));
        }
        self.last_status = Some(status.clone());
        // A word that the document does not know is no end: the service may have added one.
        if !status.is_terminal() {
            return None;
        }
        if let (Some(model), Some(duration)) = (&self.model, outcome::duration(&task)) {
            self.core.memory.durations.insert(model, duration);
        }
        Some(ended(task, self.core))
    }

    /// Finds out whether a task stays queued because no node serves its model.
    async fn check_serving(&mut self) -> Result<()> {
        let waited = self.started.elapsed();
        let Some(model) = self.model.clone() else { return Ok(()) };
        if self.last_status != Some(TaskStatus::InQueue) {
            self.last_served = Instant::now();
            return Ok(());
        }
        if waited < self.next_serving_check {
            return Ok(());
        }
        self.next_serving_check = waited.saturating_mul(2);
        let handle = Model { core: Arc::clone(self.core), id: model.to_string() };
        let end = self.end().or_earlier(Deadline::after(Some(SERVING_TIMEOUT)));
        match handle.serving_until(end).await {
            Ok(serving) if serving.serving == Some(false) => {}
            Ok(_) => {
                self.last_served = Instant::now();
                self.is_offline_reported = false;
                return Ok(());
            }
            // The check only explains the wait; it does not end it.
            Err(_) => return Ok(()),
        }
        if !self.is_offline_reported {
            self.is_offline_reported = true;
            (self.sink)(RunEvent::ModelOffline);
            tracing::warn!(%model, "a task is queued, and no node serves its model");
        }
        let Some(timeout) = self.options.offline_timeout else { return Ok(()) };
        let offline_for = self.last_served.elapsed();
        if offline_for >= timeout {
            return Err(self.offline(model).await);
        }
        let remaining = timeout.saturating_sub(offline_for);
        self.next_serving_check = self.next_serving_check.min(waited.saturating_add(remaining));
        Ok(())
    }

    async fn offline(&self, model: ModelId) -> Error {
        let disposition = if self.options.cancel_at_deadline {
            cancel(self.core, &self.task.id, Deadline::after(Some(MAX_CANCEL_RESERVE))).await
        } else {
            TaskDisposition::StillRunning
        };
        Error::ModelOffline(Box::new(ModelOffline { model, task: Some(self.task.id.clone()), disposition }))
    }

    async fn at_deadline(&mut self) -> Error {
        let mut canceled = None;
        if self.options.cancel_at_deadline && may_be_queued(self.last_status.as_ref()) {
            canceled = Some(cancel(self.core, &self.task.id, self.deadline).await);
        }
        let disposition = match (canceled, &self.last_status) {
            (Some(TaskDisposition::StillRunning) | None, None) => TaskDisposition::Unknown,
            (canceled, _) => canceled.unwrap_or(TaskDisposition::StillRunning),
        };
        self.deadline.reached(DeadlineReached {
            task: Some(self.task.id.clone()),
            disposition,
            last_status: self.last_status.take(),
            source: self.last_error.take().map(Box::new),
            ..DeadlineReached::default()
        })
    }
}

/// The deadline, or early enough before it for a cancel.
pub(crate) fn cancel_before(deadline: Deadline, cancel_at_deadline: bool) -> Deadline {
    match deadline.at {
        Some(at) if cancel_at_deadline => {
            let length = at.saturating_duration_since(deadline.started);
            deadline.less((length / CANCEL_SHARE).min(MAX_CANCEL_RESERVE))
        }
        _ => deadline,
    }
}

/// Whether a task that was last seen so can still be canceled.
pub(crate) fn may_be_queued(last_status: Option<&TaskStatus>) -> bool {
    matches!(last_status, None | Some(TaskStatus::InQueue))
}

/// Whether a failed read ends the wait: when every further one would fail the same way.
pub(crate) fn ends_wait(error: &Error) -> bool {
    match error {
        Error::InvalidArgument(_) => true,
        // A response above the size limit.
        Error::Decode(context) => !context.is_retry_safe,
        // A redirect to another origin.
        Error::Api(context) if context.status.is_some_and(|status| (300..400).contains(&status)) => true,
        other => other.is_permanent(),
    }
}

/// The task that has ended, if it succeeded.
pub(crate) fn ended(task: TaskDetail, core: &Core) -> Result<TaskDetail> {
    match task.status {
        Some(TaskStatus::Failed) => {
            // Perhaps an uploaded file is no longer there; the next run uploads it again.
            for url in
                task.input_data.iter().flat_map(|inputs| inputs.values()).filter_map(|input| input.as_str())
            {
                core.memory.uploads.forget_value(url);
            }
            let redactor = &core.redactor;
            let message = task.message.filter(|message| !message.is_empty());
            let message = message.map(|message| redactor.foreign(&message, MAX_MESSAGE));
            let detail = task.result.and_then(|result| result.error);
            let detail = detail.map(|detail| redactor.foreign_json(detail));
            Err(Error::TaskFailed(Box::new(TaskFailure { task: task.task_id, message, detail })))
        }
        Some(TaskStatus::Canceled) => Err(Error::TaskCanceled(task.task_id)),
        _ => Ok(task),
    }
}

/// Cancels a task that may be queued, and returns what became of it.
pub(crate) async fn cancel(core: &Arc<Core>, id: &TaskId, deadline: Deadline) -> TaskDisposition {
    let end = Deadline { at: deadline.at.and_then(|at| at.checked_add(CANCEL_GRACE)), ..deadline };
    let task = Task { core: Arc::clone(core), id: id.clone() };
    match end.timeout(task.cancel_until(end)).await {
        Some(Ok(())) => TaskDisposition::Canceled,
        // A gateway that gave up says nothing about the service behind it.
        Some(Err(Error::Api(context))) if !context.is_ambiguous() => TaskDisposition::StillRunning,
        _ => TaskDisposition::CancelUnknown,
    }
}
