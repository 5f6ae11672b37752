//! Creating a task at most once.
//!
//! The service knows no idempotency key, so a second create runs and bills a second task. The protocol:
//!
//! 1. A create that certainly reached nothing (connection refused) is sent again.
//! 2. A create that the service rejected is not, unless the caller allows it for 429 and 503.
//! 3. A create whose response was lost (timeout, dropped connection, 5xx of a gateway) is looked for in
//!    the task history: the model, the inputs and the time must match, and the task must not belong to
//!    another create of this client. Exactly one match is adopted; anything else is
//!    [`Error::OutcomeUnknown`].
//! 4. A prepared run that an earlier process may have created is looked for in the same way, and created when
//!    no create of it can appear any more, and its limits still hold.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use futures_util::stream::{self, StreamExt};
use inferstore_api::Decimal;
use inferstore_api::operations;
use inferstore_api::types::{ModelId, TaskId, TaskInput, TaskRecord};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::memory::{CreateKey, Fingerprint, PendingCreate, RunKey, RunState, fingerprint, lock};
use crate::resources::{MAX_RECORDS, Model, Task, Tasks};
use crate::run::execution::check_limits;
use crate::transport::{CallContext, Core, Deadline, DeadlineReached, Error, Result, UnknownOutcome, shown};

/// How many times the history is searched: the service may still be working on the create.
const MAX_SEARCHES: u32 = 3;

/// The shortest pause between two searches that end when no create can appear any more.
const MIN_PAUSE: Duration = Duration::from_millis(100);

/// How far the times of the service may be off for a task still to match.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(60);

/// How long before a create its task may have been created by the times of the service, which are whole seconds in part.
/// One from earlier on is a candidate, and perhaps that of another program with the same inputs.
const ADOPT_TOLERANCE: Duration = Duration::from_secs(5);

/// How many tasks are read at the same time to learn their inputs.
const MAX_CONCURRENT_READS: usize = 8;

/// A run whose inputs are checked and uploaded, and whose task is created by
/// [`Client::adopt_or_start`](crate::Client::adopt_or_start).
///
/// It serializes: note it in a journal before its task is created. After a crash, read it back and
/// hand it to `adopt_or_start` again, which finds the task that it may have become, or creates it.
///
/// ```no_run
/// # async fn example(client: inferstore::Client, inputs: inferstore::Inputs) -> Result<(), Box<dyn std::error::Error>> {
/// let prepared = client.model("haze-removal").prepare(inputs).await?;
/// std::fs::write("run.json", serde_json::to_vec(&prepared)?)?;
/// let task = client.adopt_or_start(prepared).await?; // a crash up to here costs nothing twice
/// std::fs::write("task.txt", task.id().as_str())?;
/// # Ok(())
/// # }
/// ```
///
/// Two prepared runs with the same inputs are distinguished by their uploaded files. Those without files
/// are not, but each becomes one task: a task that is known already is never adopted again. Make known
/// what a journal lists with [`Tasks::claim`](crate::Tasks::claim) before the first `adopt_or_start`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PreparedRun {
    /// The model.
    pub model: ModelId,
    /// The inputs as they are sent, with the URLs of the uploaded files. With others, it is another run.
    pub inputs: Map<String, Value>,
    /// The URLs of the files that were uploaded for this run.
    pub uploaded: Vec<String>,
    /// When it was prepared, by the clock of the service: that of this machine may be set back before the run is read
    /// again.
    pub prepared_at: SystemTime,
    /// The most that it may cost. Checked again before the create, because the price may have changed since; set it to
    /// apply another limit.
    #[serde(default)]
    pub max_cost: Option<Decimal>,
    /// Whether a node must serve the model. Checked again before the create.
    #[serde(default)]
    pub require_serving: bool,
    /// Drawn at random.
    pub(crate) id: String,
    #[serde(skip)]
    pub(crate) sent_before: SentBefore,
}

/// When a create of a prepared run may have been sent last: before it came into this process, or by a client of this
/// one. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct SentBefore(Arc<Mutex<Instant>>);

impl Default for SentBefore {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

/// Two prepared runs are equal when their creates are.
impl PartialEq for SentBefore {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl PreparedRun {
    pub(super) fn key(&self) -> RunKey {
        (self.id.clone(), (self.model.clone(), fingerprint_of(&self.inputs)))
    }
}

/// Finds the task that a prepared run has become, or creates it.
pub(crate) async fn adopt_or_start(core: Arc<Core>, prepared: PreparedRun) -> Result<Task> {
    let run = core.memory.own_tasks.prepared_run(prepared.key(), RunState::Unknown);
    let mut state = run.lock().await;
    let model = Model { core: Arc::clone(&core), id: prepared.model.to_string() };
    let create = Create::new(Arc::clone(&core), prepared.model.clone(), TaskInput(prepared.inputs));
    let adopted = match &*state {
        RunState::Created(id) => Some(id.clone()),
        RunState::New => None,
        RunState::Unknown => create.adopt(prepared.prepared_at, &prepared.sent_before).await?,
    };
    let id = match adopted {
        Some(id) => id,
        None => {
            *state = RunState::New;
            check_limits(&model, prepared.max_cost.as_ref(), prepared.require_serving, create.deadline)
                .await?;
            *state = RunState::Unknown;
            *lock(&prepared.sent_before.0) = Instant::now();
            create.send(&|| true).await.inspect_err(|error| {
                if !matches!(error, Error::OutcomeUnknown(_)) {
                    *state = RunState::New;
                }
            })?
        }
    };
    *state = RunState::Created(id.clone());
    drop(state);
    Ok(Task { model: Some(prepared.model), ..Task::new(&core, id) })
}

/// Whether the caller still waits for the task.
type IsWanted<'a> = dyn Fn() -> bool + Sync + 'a;

/// A create, with all that is needed to recognize its task.
pub(crate) struct Create {
    pub(crate) core: Arc<Core>,
    pub(super) input: TaskInput,
    pub(super) key: CreateKey,
    /// Sends it again after 429 and 503.
    pub(crate) retry_on_rejection: bool,
    /// Sends it again when its response was lost, and the history, read after this time, shows no
    /// matching task.
    pub(crate) retry_if_absent_after: Option<Duration>,
    pub(crate) deadline: Deadline,
}

/// What a search of the history found.
#[derive(Default)]
struct Found {
    /// Oldest first.
    matches: Vec<TaskId>,
    /// Those that were created before, unless the times of the service are off.
    earlier: Vec<TaskId>,
    /// Whether everything that may match could be read.
    is_complete: bool,
}

impl Found {
    fn all(self) -> Vec<TaskId> {
        [self.earlier, self.matches].concat()
    }
}

impl Create {
    /// A create without a deadline, which is sent again only when nothing reached the service.
    pub(crate) fn new(core: Arc<Core>, model: ModelId, input: TaskInput) -> Self {
        let key = (model, fingerprint_of(&input.0));
        let deadline = Deadline::never();
        Self { core, input, key, retry_on_rejection: false, retry_if_absent_after: None, deadline }
    }

    /// Creates the task, or finds the one that a lost create became. Sends nothing once `is_wanted` is false.
    pub(crate) async fn send(&self, is_wanted: &IsWanted<'_>) -> Result<TaskId> {
        let own_tasks = &self.core.memory.own_tasks;
        let gate = own_tasks.gate(&self.key).read_owned();
        let Some(_shared) = self.deadline.timeout(gate).await else {
            return Err(self.deadline.reached(DeadlineReached::default()));
        };
        // One for all attempts: a task of an earlier one is a task of this create.
        let pending = own_tasks.start_create(self.key.clone());
        let mut is_in_doubt = false;
        let mut sent = 0;
        loop {
            sent += 1;
            let result = self.send_once(&pending, is_wanted).await;
            if let Err(Error::OutcomeUnknown(unknown)) = &result {
                // It may still add its task to the history.
                is_in_doubt = true;
                if unknown.shows_nothing() && self.may_send_again(sent) {
                    warn!(sent, "the history shows no trace of a lost create, so it is sent again");
                    continue;
                }
            }
            if !is_in_doubt {
                pending.settle();
            }
            return result.map_err(|error| self.ended(error, is_in_doubt));
        }
    }

    /// The error of a create, with what it does not know: whether an attempt before the last one created a task.
    fn ended(&self, mut error: Error, is_in_doubt: bool) -> Error {
        if is_in_doubt && let Some(context) = error.context_mut() {
            return self.unknown(std::mem::take(context), Vec::new(), true);
        }
        if matches!(error, Error::Transport(_)) && self.deadline.is_over() {
            let source = Some(Box::new(error));
            return self.deadline.reached(DeadlineReached { source, ..DeadlineReached::default() });
        }
        error
    }

    /// Adopts the oldest matching task that this client does not know yet. Returns `None` once no create that was
    /// sent before can appear in the history any more.
    async fn adopt(&self, prepared_at: SystemTime, sent_before: &SentBefore) -> Result<Option<TaskId>> {
        let own_tasks = &self.core.memory.own_tasks;
        // No create of this client with the same inputs is under way during the search.
        let _alone = own_tasks.gate(&self.key).write_owned().await;
        for search in 1.. {
            // How long a create of the same run may still appear in the history.
            let of_others = own_tasks.settle_time.saturating_sub(lock(&sent_before.0).elapsed());
            let unsettled = of_others.max(own_tasks.doubt_left(&self.key));
            let found = self.search(|_| Some(prepared_at)).await?;
            let mut matches = found.earlier.iter().chain(&found.matches);
            if let Some(task) = matches.find(|task| own_tasks.claim(task)) {
                info!(task = shown(task.as_str()), "a prepared run was found in the history");
                return Ok(Some(task.clone()));
            }
            if !found.is_complete {
                let context = CallContext::new(operations::CREATE_TASK.id, None);
                return Err(self.unknown(context, found.all(), false));
            }
            if unsettled.is_zero() {
                break;
            }
            sleep(unsettled.min(self.pause(search).max(MIN_PAUSE.saturating_mul(search)))).await;
        }
        Ok(None)
    }

    fn may_send_again(&self, sent: u32) -> bool {
        let retries = &self.core.retries;
        let is_allowed = self.retry_if_absent_after.is_some() && !self.deadline.is_over();
        is_allowed && sent < retries.policy.max_attempts && retries.take()
    }

    async fn send_once(&self, pending: &PendingCreate<'_>, is_wanted: &IsWanted<'_>) -> Result<TaskId> {
        let sent_at = Instant::now();
        let service_time = self.core.service_time();
        // By the clock of the service, which shows this time now. A machine that was suspended since counted less of it.
        let since = |now: SystemTime| {
            let counted = now.checked_sub(sent_at.elapsed())?;
            Some(service_time.map_or(counted, |shown| shown.min(counted)))
        };
        let call = self.core.call(operations::CREATE_TASK).until(self.deadline);
        let call = call.retry_on_rejection(self.retry_on_rejection);
        let sent = call.send(async |api: &_| {
            // Checked last, after the wait for a permit or for the backoff before a retry.
            if !is_wanted() {
                return Err(inferstore_api::Error::Custom(
                    "the run was dropped before its create".to_owned(),
                ));
            }
            api.create_task(&self.key.0, &self.input).await
        });
        match sent.await {
            Ok(created) => match Task::new(&self.core, &created.data).check_id() {
                Ok(()) => {
                    self.core.memory.own_tasks.claim(&created.data);
                    Ok(created.data)
                }
                // There is a task, and only the history can name it.
                Err(invalid) => {
                    let context = CallContext::new(operations::CREATE_TASK.id, Some(200));
                    let context = CallContext { source: Some(Box::new(invalid)), ..context };
                    self.reconcile(context, since, pending).await
                }
            },
            Err(Error::Transport(context) | Error::Decode(context)) if !context.is_retry_safe => {
                self.reconcile(*context, since, pending).await
            }
            // A gateway that gave up says nothing about the service behind it.
            Err(Error::Api(context)) if context.is_ambiguous() => {
                self.reconcile(*context, since, pending).await
            }
            Err(error) => Err(error),
        }
    }

    /// Looks for the task of a lost create. Adopts exactly one match; a match that may belong to another
    /// create of this client with the same inputs is none.
    async fn reconcile(
        &self,
        context: CallContext,
        since: impl Fn(SystemTime) -> Option<SystemTime> + Copy + Send,
        pending: &PendingCreate<'_>,
    ) -> Result<TaskId> {
        let lost_at = Instant::now();
        let mut found = Found::default();
        for search in 1.. {
            found.is_complete = false;
            match self.deadline.bound(self.search(since)).await {
                Ok(found_now) => found = found_now,
                Err(error) => warn!(search, %error, "the history could not be read"),
            }
            if let [task] = &found.matches[..]
                && found.is_complete
                && !pending.is_ambiguous()
                && self.core.memory.own_tasks.claim(task)
            {
                info!(
                    task = shown(task.as_str()),
                    "a create whose response was lost was found in the history"
                );
                return Ok(task.clone());
            }
            let is_hopeless = found.is_complete && found.matches.len() > 1;
            if is_hopeless || self.deadline.is_over() {
                break;
            }
            let pause = if search < MAX_SEARCHES {
                self.pause(search)
            } else if search == MAX_SEARCHES
                && let Some(delay) = self.retry_if_absent_after
            {
                delay.saturating_sub(lost_at.elapsed())
            } else {
                break;
            };
            if self.deadline.timeout(sleep(pause)).await.is_none() {
                break;
            }
        }
        let is_complete = found.is_complete;
        Err(self.unknown(context, found.all(), is_complete))
    }

    /// The pause after a search of the history.
    fn pause(&self, search: u32) -> Duration {
        self.core.retries.policy.initial_backoff.saturating_mul(search)
    }

    /// Searches the history, which is ordered oldest first, from its end backwards for tasks that this
    /// create may have become. `since` is the time of the oldest one that matters, from the time of the service. The
    /// caller bounds the search, which may begin at the instant of its deadline.
    async fn search(&self, since: impl FnOnce(SystemTime) -> Option<SystemTime>) -> Result<Found> {
        let tasks = Tasks { core: Arc::clone(&self.core) };
        let mut first = tasks.page_until(MAX_RECORDS, 0, Deadline::never()).await?;
        // The page has just shown the clock of the service.
        let now = self.core.service_time().unwrap_or_else(SystemTime::now);
        let since = since(now);
        let before_since = |tolerance| since.and_then(|since| since.checked_sub(tolerance));
        let (earliest, expected) = (before_since(CLOCK_TOLERANCE), before_since(ADOPT_TOLERANCE));
        let page_size = u64::from(MAX_RECORDS);
        let read = first.records.len() as u64;
        let mut end = first.total.unwrap_or_default().max(read);
        let mut found = Found { is_complete: first.total.is_some() || read < page_size, ..Found::default() };
        loop {
            let start = end.saturating_sub(page_size);
            let mut records = match start {
                0 => std::mem::take(&mut first.records),
                _ => tasks.page_until(MAX_RECORDS, start, Deadline::never()).await?.records,
            };
            records.truncate((end - start) as usize);
            found.is_complete &= records.len() as u64 == end - start;
            let is_last = start == 0 || records.first().is_none_or(|oldest| is_before(oldest, earliest));
            records.retain(|record| self.may_match(record, earliest));
            let read = stream::iter(records.into_iter().rev())
                .map(|record| async move { (self.inputs_of(&record.task_id).await, record) });
            let read: Vec<_> = read.buffered(MAX_CONCURRENT_READS).collect().await;
            for (inputs, record) in read {
                found.is_complete &= inputs.is_some();
                if inputs == Some(self.key.1) {
                    let is_earlier = is_before(&record, expected);
                    let found = if is_earlier { &mut found.earlier } else { &mut found.matches };
                    // A page shows a task again when older ones were deleted since the last one was read.
                    if !found.contains(&record.task_id) {
                        found.push(record.task_id);
                    }
                }
            }
            if is_last {
                found.earlier.reverse();
                found.matches.reverse();
                return Ok(found);
            }
            end = start;
        }
    }

    fn may_match(&self, record: &TaskRecord, earliest: Option<SystemTime>) -> bool {
        let is_same_model = record.model_id.as_deref().is_none_or(|model| model == self.key.0.as_str());
        is_same_model && !is_before(record, earliest) && !self.core.memory.own_tasks.contains(&record.task_id)
    }

    /// The inputs of a task, or `None` when they cannot be read.
    async fn inputs_of(&self, task: &TaskId) -> Option<Fingerprint> {
        let cache = &self.core.memory.task_inputs;
        if let Some(inputs) = cache.get(task, Duration::MAX) {
            return Some(inputs);
        }
        let detail = Task::new(&self.core, task).get_until(Deadline::never()).await.ok()?;
        let inputs = fingerprint_of(&detail.input_data?);
        cache.insert(task.clone(), inputs);
        Some(inputs)
    }

    fn unknown(&self, context: CallContext, candidates: Vec<TaskId>, history_was_read: bool) -> Error {
        Error::OutcomeUnknown(Box::new(UnknownOutcome { context, candidates, history_was_read }))
    }
}

fn fingerprint_of(inputs: &Map<String, Value>) -> Fingerprint {
    fingerprint(&Value::Object(inputs.clone()))
}

fn is_before(record: &TaskRecord, earliest: Option<SystemTime>) -> bool {
    // A record without a readable time may match.
    let created = record.created_at.as_ref().and_then(|created| created.to_system_time());
    created.zip(earliest).is_some_and(|(created, earliest)| created < earliest)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_task_from_before_the_create_is_not_the_one_that_it_became_and_one_without_a_time_may_be() {
        let record = |created_at: Value| -> TaskRecord {
            serde_json::from_value(json!({"task_id": "task-1", "created_at": created_at})).unwrap()
        };
        let sent_at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600);
        assert!(is_before(&record(json!("2025-12-31T23:59:59Z")), Some(sent_at)));
        assert!(!is_before(&record(json!("2026-01-01T00:00:00Z")), Some(sent_at)));
        assert!(!is_before(&record(json!("2025-12-31T23:59:59Z")), None));
        assert!(!is_before(&record(json!("soon")), Some(sent_at)));
        assert!(!is_before(&record(Value::Null), Some(sent_at)));
    }
}
