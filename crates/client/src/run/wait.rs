//! Waiting for tasks until they end: when they are read, what a read means, and what the deadline does.

use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{BoxFuture, Either, FutureExt, select};
use futures_util::stream::{self, BoxStream, StreamExt};
use inferstore_api::types::{ModelId, TaskDetail, TaskId, TaskStatus};
use tokio::time::{Instant, sleep_until};

use crate::resources::{Model, Task, Tasks};
use crate::run::poll::Schedule;
use crate::run::{Outcome, PollInterval, RunEvent, RunEvents};
use crate::transport::redact::MAX_MESSAGE;
use crate::transport::{
    Core, Deadline, DeadlineReached, Error, Events, Lazy, ModelOffline, Result, Sink, TaskDisposition,
    TaskFailure, ignored, shown,
};

/// A last read comes this long before the deadline, when the schedule has none that late.
const LAST_READ: Duration = Duration::from_millis(500);

/// How long before the deadline a task is canceled at the latest, so that the response still arrives:
/// this share of the time, up to the limit.
const CANCEL_SHARE: u32 = 5;
const MAX_CANCEL_RESERVE: Duration = Duration::from_secs(2);

/// How long after the deadline the response to a cancel is waited for.
const CANCEL_GRACE: Duration = Duration::from_millis(200);

/// The shortest pause before a cancel that a limit of requests refused is sent again.
const CANCEL_BACKOFF: Duration = Duration::from_millis(100);

/// A task that is queued this long may have a model that no node serves.
const ASK_SERVING_AFTER: Duration = Duration::from_secs(10);

/// How often it is asked whether a node serves the model; more often only for a short timeout.
const SERVING_INTERVAL: Duration = Duration::from_secs(60);

/// How long the question for a serving node may take; it only explains the wait.
const SERVING_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest `Retry-After` that a wait honours: one response would delay all of its tasks by a day.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(600);

/// The history may take this share of the time of a read in each round.
const HISTORY_SHARE: u32 = 4;

/// How many tasks are read or canceled at the same time.
const MAX_CONCURRENT_READS: usize = 8;
const MAX_CONCURRENT_CANCELS: usize = 32;

/// How long a task may stay queued while no node serves its model, unless the caller says otherwise.
pub(crate) const OFFLINE_TIMEOUT: Duration = Duration::from_secs(600);

/// How tasks are waited for.
#[derive(Clone, Debug, Default)]
pub(crate) struct WaitOptions {
    pub(crate) deadline: Option<Duration>,
    pub(crate) poll: PollInterval,
    pub(crate) cancel_at_deadline: bool,
    pub(crate) offline_timeout: Option<Duration>,
}

/// The wait for a task: await it for its outcome, or read its [`events`](Self::events).
///
/// It ends when the task does, at its deadline, or when the service refuses to show the task for good
/// (401, 404 and other 4xx except 408 and 429), or in more bytes than
/// [`max_response_size`](crate::ClientBuilder::max_response_size). Failures that pass do not end it: 5xx, 429, HTML
/// pages and redirects of a gateway, dropped connections. Dropping it leaves the task alone.
#[derive(Debug)]
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
        let options = WaitOptions { offline_timeout: Some(OFFLINE_TIMEOUT), ..WaitOptions::default() };
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
    /// succeeds. The same applies after 10 minutes without a serving node ([`model`](Self::model)). Default: `false`.
    pub fn cancel_at_deadline(mut self, cancel: bool) -> Self {
        self.options.cancel_at_deadline = cancel;
        self
    }

    /// The model of the task, which its record does not have: the wait ends with [`Error::ModelOffline`] when the task
    /// stays queued for 10 minutes while no node serves the model. Default: that of the run that created the task; of a
    /// task that is known by its identifier alone none, and nothing is asked about nodes.
    pub fn model(mut self, id: impl Into<String>) -> Self {
        self.task.model = Some(ModelId::from(id.into()));
        self
    }

    /// The wait as a stream of events.
    pub fn events(self) -> RunEvents {
        Events::new(|sink| self.run(sink))
    }

    fn run(&self, sink: Sink<RunEvent>) -> BoxFuture<'static, Result<Outcome>> {
        let Task { core, id, model } = self.task.clone();
        let options = self.options.clone();
        async move {
            let deadline = Deadline::after(options.deadline);
            Waiter::new(&core, options, deadline, sink).of_model(model).one(id).await
        }
        .boxed()
    }
}

impl Future for Wait {
    type Output = Result<Outcome>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let wait = self.get_mut();
        let running = wait.running.0.take().unwrap_or_else(|| wait.run(ignored()));
        wait.running.0.insert(running).poll_unpin(context)
    }
}

/// A task that is no longer waited for.
pub(super) type Ended = (TaskId, Result<Outcome>);

/// One wait, for one task or for many.
pub(crate) struct Waiter {
    pub(super) tasks: Tasks,
    options: WaitOptions,
    /// Of the whole operation, which started before the wait in a run.
    deadline: Deadline,
    schedule: Schedule,
    sink: Sink<RunEvent>,
    started: Instant,
    rounds: u32,
    /// How long a read may take: of many tasks, one that cannot be read keeps the others waiting that long.
    max_read: Option<Duration>,
    /// The delay before the next read.
    delay: Duration,
    /// No read comes earlier, because of a `Retry-After`.
    not_before: Instant,
    pub(super) pending: HashMap<TaskId, Pending>,
    pub(super) ended: VecDeque<Ended>,
    /// Those of the round that is not over.
    reads: Option<Reads>,
    /// Whether tasks are to be looked for in the history.
    pub(super) is_search_due: bool,
    /// Known when the wait belongs to a run, or the caller named it.
    model: Option<ServedModel>,
}

/// Reads of tasks that are under way.
struct Reads {
    results: BoxStream<'static, (TaskId, Result<TaskDetail>)>,
    /// The end of the wait.
    end: Deadline,
    /// Whether they began just before the end.
    are_late: bool,
}

/// A task that has not ended.
#[derive(Default)]
pub(super) struct Pending {
    /// Where the history last showed the task.
    pub(super) position: Option<u64>,
    pub(super) status: Option<TaskStatus>,
    /// Why the last read failed.
    pub(super) last_error: Option<Error>,
}

/// The model of a run, and whether it is served.
struct ServedModel {
    id: ModelId,
    next_check: Instant,
    /// When a check first saw that no node serves it, if none has seen one since.
    offline_since: Option<Instant>,
}

impl Waiter {
    /// A wait for tasks that may have ended already.
    pub(crate) fn new(
        core: &Arc<Core>,
        options: WaitOptions,
        deadline: Deadline,
        sink: Sink<RunEvent>,
    ) -> Self {
        Self {
            tasks: Tasks { core: Arc::clone(core) },
            schedule: Schedule::new(options.poll.clone(), &[]),
            options,
            deadline: Deadline { is_of_wait: true, ..deadline },
            sink,
            started: Instant::now(),
            rounds: 0,
            max_read: Some(core.timeouts.read),
            delay: Duration::ZERO,
            not_before: Instant::now(),
            pending: HashMap::new(),
            ended: VecDeque::new(),
            reads: None,
            is_search_due: false,
            model: None,
        }
    }

    /// The wait for the task of a run, which was just created: the first read comes when it is likely to end.
    pub(crate) fn of_run(mut self, model: ModelId) -> Self {
        let durations = self.tasks.core.memory.durations.of(&model);
        self.schedule = Schedule::new(self.options.poll.clone(), &durations);
        self.delay = self.schedule.delay(0, Duration::ZERO);
        self.of_model(Some(model))
    }

    /// The wait for a task of this model, if it is known.
    fn of_model(mut self, model: Option<ModelId>) -> Self {
        let next_check = self.started + ASK_SERVING_AFTER;
        self.model = model.map(|id| ServedModel { id, next_check, offline_since: None });
        self
    }

    /// Waits for this task alone.
    pub(crate) async fn one(mut self, task: TaskId) -> Result<Outcome> {
        self.max_read = None;
        self.add(task);
        loop {
            if let Some((_, end)) = self.ended.pop_front() {
                return end;
            }
            self.round(pending()).await;
        }
    }

    /// Also waits for this task.
    pub(super) fn add(&mut self, id: TaskId) {
        match Task::new(&self.tasks.core, &id).check_id() {
            Err(error) => self.ended.push_back((id, Err(error))),
            Ok(()) if self.pending.contains_key(&id) => {}
            Ok(()) => {
                self.pending.insert(id, Pending::default());
                self.is_search_due = true;
            }
        }
    }

    /// Waits for the next reads, or until tasks are `added`, and notes the tasks that have ended. Returns with the first
    /// of them: another read may take long.
    pub(super) async fn round(&mut self, added: impl Future<Output = ()>) {
        if let Some(reads) = self.reads.take() {
            return self.finish_reads(reads).await;
        }
        let has_queued = self.pending.values().any(Pending::may_be_queued);
        let cancels = self.options.cancel_at_deadline && has_queued;
        let end = if cancels { cancel_before(self.deadline) } else { self.deadline };
        let began = Instant::now();
        let asked = self.not_before.saturating_duration_since(began);
        match select(pin!(sleep(self.delay.max(asked), end)), pin!(added)).await {
            Either::Left((true, _)) => {}
            Either::Left((false, _)) => return self.give_up(cancels).await,
            Either::Right(_) => {
                let left = self.delay.saturating_sub(began.elapsed());
                self.delay = left.min(self.schedule.delay(0, Duration::ZERO));
                return;
            }
        }
        // The history only saves reads: one that hangs leaves the time of the reads to them.
        let of_history = self.max_read.map(|longest| longest / HISTORY_SHARE);
        self.read_history(end.or_earlier(Deadline::after(of_history))).await;
        let reads = self.start_reads(end);
        self.finish_reads(reads).await;
    }

    /// Starts to read the tasks that have ended, and those that no page of the history shows.
    fn start_reads(&self, end: Deadline) -> Reads {
        let longest = self.max_read;
        let due = self.pending.iter().filter(|(_, task)| task.has_ended() || task.position.is_none());
        let due: Vec<Task> = due.map(|(id, _)| Task::new(&self.tasks.core, id)).collect();
        let reads = stream::iter(due).map(move |task| async move {
            // From its own start: those before it may have hung.
            let read = task.get_until(end.or_earlier(Deadline::after(longest))).await;
            (task.id, read)
        });
        let results = reads.buffer_unordered(MAX_CONCURRENT_READS).boxed();
        Reads { results, end, are_late: !end.allows(LAST_READ) }
    }

    /// Waits for the reads until one shows that its task has ended; after the last one the round is over.
    async fn finish_reads(&mut self, mut reads: Reads) {
        let end = reads.end;
        while let Some((id, read)) = reads.results.next().await {
            // A late read that the end cut short says nothing about the service.
            let was_cut = reads.are_late && end.is_over();
            if !(was_cut && read.as_ref().is_err_and(|error| error.status().is_none())) {
                self.observe(id, read);
            }
            // A read that waits for a permit would get the next one, and keep it from the caller, who does not poll it.
            let is_permit_free = self.tasks.core.requests.available_permits() > 0;
            if !self.ended.is_empty() && is_permit_free {
                self.reads = Some(reads);
                return;
            }
        }
        self.check_serving(end).await;
        self.rounds += 1;
        self.delay = self.schedule.delay(self.rounds, self.started.elapsed());
    }

    /// What a read of a task means: its end, or nothing.
    fn observe(&mut self, id: TaskId, read: Result<TaskDetail>) {
        let Some(pending) = self.pending.get_mut(&id) else { return };
        let core = &self.tasks.core;
        let end = match read {
            Ok(task) => {
                pending.last_error = None;
                let Some(status) = &task.status else { return };
                if pending.status.as_ref() != Some(status) {
                    (self.sink)(RunEvent::Status(status.clone()));
                    pending.status = Some(status.clone());
                }
                // A word that the document does not know is no end: the service may have added one.
                if !status.is_terminal() {
                    return;
                }
                let end = ended(task, core);
                // Only successes are samples of how long a success takes.
                if let (Some(model), Ok(Outcome { duration: Some(duration), .. })) = (&self.model, &end) {
                    core.memory.durations.add(&model.id, *duration);
                }
                end
            }
            Err(error) if ends_wait(&error) => Err(error),
            Err(error) => {
                (self.sink)(RunEvent::ReadFailed(error.to_string()));
                self.not_before = self.not_before.max(earliest_after(&error));
                pending.last_error = Some(error);
                return;
            }
        };
        self.pending.remove(&id);
        self.ended.push_back((id, end));
    }

    pub(super) fn note_retry_after(&mut self, error: &Error) {
        self.not_before = self.not_before.max(earliest_after(error));
    }

    /// The deadline: every task that is left ends with an error; first those that can be canceled.
    async fn give_up(&mut self, cancels: bool) {
        let left = self.pending.iter().filter(|(_, task)| !cancels || task.may_be_queued());
        let left = left.map(|(id, _)| id.clone()).collect();
        let deadline = self.deadline;
        let reached = |id, disposition, task: Pending| {
            let is_unknown = task.status.is_none() && disposition == TaskDisposition::StillRunning;
            deadline.reached(DeadlineReached {
                task: Some(id),
                disposition: if is_unknown { TaskDisposition::Unknown } else { disposition },
                last_status: task.status,
                source: task.last_error.map(Box::new),
                ..DeadlineReached::default()
            })
        };
        self.abandon(left, cancels, deadline, reached).await;
    }

    /// Finds out whether the task of a run stays queued because no node serves its model.
    async fn check_serving(&mut self, end: Deadline) {
        let Some(model) = &mut self.model else { return };
        let Some((id, task)) = self.pending.iter().next() else { return };
        if task.status != Some(TaskStatus::InQueue) {
            model.offline_since = None;
            return;
        }
        let now = Instant::now();
        if now < model.next_check {
            return;
        }
        let timeout = self.options.offline_timeout.unwrap_or(Duration::MAX);
        model.next_check = now + SERVING_INTERVAL.min(timeout / 4);
        let handle = Model { core: Arc::clone(&self.tasks.core), id: model.id.to_string() };
        let end = end.or_earlier(Deadline::after(Some(SERVING_TIMEOUT)));
        let serving = match handle.serving_until(end).await {
            Ok(serving) => serving,
            Err(error) => {
                // It says nothing, and nodes may need a moment to come back to a service that was away: the time begins
                // again, and what was reported is not reported again.
                model.offline_since = model.offline_since.map(|_| now);
                model.next_check = model.next_check.max(earliest_after(&error));
                return;
            }
        };
        if serving.serving != Some(false) {
            model.offline_since = None;
            return;
        }
        if model.offline_since.is_none() {
            (self.sink)(RunEvent::ModelOffline);
            let (model, task) = (shown(model.id.as_str()), shown(id.as_str()));
            tracing::warn!(model, task, "a task is queued, and no node serves its model");
        }
        if model.offline_since.get_or_insert(now).elapsed() < timeout {
            return;
        }
        let model = model.id.clone();
        let left = vec![id.clone()];
        let offline = |id, disposition, _| {
            Error::ModelOffline(Box::new(ModelOffline { model: model.clone(), task: Some(id), disposition }))
        };
        let deadline = self.deadline.or_earlier(Deadline::after(Some(MAX_CANCEL_RESERVE)));
        self.abandon(left, self.options.cancel_at_deadline, deadline, offline).await;
    }

    /// Waits no longer for these tasks, and cancels them if asked. Those that have not ended meanwhile, and that no
    /// node has taken either, end with an error that states what became of them.
    async fn abandon(
        &mut self,
        tasks: Vec<TaskId>,
        cancels: bool,
        deadline: Deadline,
        error: impl Fn(TaskId, TaskDisposition, Pending) -> Error,
    ) {
        let tasks: Vec<Task> = tasks.iter().map(|id| Task::new(&self.tasks.core, id)).collect();
        let tasks = stream::iter(tasks).map(|task| async move {
            let left_alone = (TaskDisposition::StillRunning, None);
            let (disposition, read) = if cancels { cancel(&task, deadline).await } else { left_alone };
            (task.id, disposition, read)
        });
        let tasks: Vec<_> = tasks.buffer_unordered(MAX_CONCURRENT_CANCELS).collect().await;
        for (id, disposition, read) in tasks {
            if let Some(read) = read {
                self.observe(id.clone(), Ok(read));
                // A node has just taken it: it may end before the deadline.
                if self.pending.get(&id).is_some_and(|task| !task.may_be_queued()) {
                    continue;
                }
            }
            if let Some(task) = self.pending.remove(&id) {
                let error = error(id.clone(), disposition, task);
                self.ended.push_back((id, Err(error)));
            }
        }
    }
}

impl Pending {
    /// Whether the task can still be canceled, as far as it is known.
    fn may_be_queued(&self) -> bool {
        matches!(self.status, None | Some(TaskStatus::InQueue))
    }

    fn has_ended(&self) -> bool {
        self.status.as_ref().is_some_and(TaskStatus::is_terminal)
    }
}

/// When the service may be asked again after this error.
fn earliest_after(error: &Error) -> Instant {
    Instant::now() + error.retry_after().unwrap_or_default().min(MAX_RETRY_AFTER)
}

/// Waits for the next read; `false` at the end of the wait.
async fn sleep(delay: Duration, end: Deadline) -> bool {
    let now = Instant::now();
    let mut next = now.checked_add(delay).unwrap_or(now);
    if let Some(end) = end.at.filter(|end| next >= *end) {
        // One more read before the end, unless this was it.
        next = end.checked_sub(LAST_READ).filter(|last_read| *last_read > now).unwrap_or(end);
    }
    sleep_until(next).await;
    end.at.is_none_or(|end| next < end)
}

/// Early enough before the deadline for a cancel.
fn cancel_before(deadline: Deadline) -> Deadline {
    let length = deadline.at.map(|at| at.saturating_duration_since(deadline.started));
    deadline.less((length.unwrap_or_default() / CANCEL_SHARE).min(MAX_CANCEL_RESERVE))
}

/// Whether a failed read ends the wait: when every further one would fail the same way.
fn ends_wait(error: &Error) -> bool {
    match error {
        Error::InvalidArgument(_) => true,
        // A response above the size limit.
        Error::Decode(context) => !context.is_retry_safe,
        other => other.is_permanent(),
    }
}

/// The outcome of a task that has ended, if it succeeded.
fn ended(task: TaskDetail, core: &Arc<Core>) -> Result<Outcome> {
    match task.status {
        Some(TaskStatus::Failed) => {
            // Perhaps an uploaded file is no longer there; the next run uploads it again.
            let inputs = task.input_data.iter().flat_map(|inputs| inputs.values());
            inputs.filter_map(|input| input.as_str()).for_each(|url| core.memory.uploads.forget_value(url));
            let redactor = &core.redactor;
            let message = task.message.filter(|message| !message.is_empty());
            let message = message.map(|message| redactor.foreign(&message, MAX_MESSAGE));
            let detail = task.result.and_then(|result| result.error);
            let detail = detail.map(|detail| redactor.foreign_json(detail));
            Err(Error::TaskFailed(Box::new(TaskFailure { task: task.task_id, message, detail })))
        }
        Some(TaskStatus::Canceled) => Err(Error::TaskCanceled(task.task_id)),
        _ => Ok(Outcome::of(task, core)),
    }
}

/// Cancels a task that may be queued. Returns what became of it, and the task as it was read when the cancel
/// was refused: perhaps it had ended.
async fn cancel(task: &Task, deadline: Deadline) -> (TaskDisposition, Option<TaskDetail>) {
    let end = Deadline { at: deadline.at.and_then(|at| at.checked_add(CANCEL_GRACE)), ..deadline };
    let mut canceled = task.cancel_until(end).await;
    // A limit of requests says nothing about the task.
    while let Err(error) = &canceled
        && error.status() == Some(429)
    {
        let delay = error.retry_after().unwrap_or_default().max(CANCEL_BACKOFF);
        if !end.allows(delay) {
            break;
        }
        tokio::time::sleep(delay).await;
        canceled = task.cancel_until(end).await;
    }
    match canceled {
        Ok(()) => (TaskDisposition::Canceled, None),
        Err(error) if error.is_permanent() || error.status() == Some(429) => {
            (TaskDisposition::StillRunning, task.get_until(end).await.ok())
        }
        // A gateway that gave up says nothing about the service behind it.
        Err(_) => (TaskDisposition::CancelUnknown, None),
    }
}
