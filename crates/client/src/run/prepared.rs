//! Prepared runs: creates that are in a journal before they are sent, and become exactly one task across a crash.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::{BoxFuture, FutureExt};
use inferstore_api::types::{ModelId, TaskId};
use inferstore_api::{Decimal, operations};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep};
use tracing::info;

use crate::memory::{RunKey, RunState, Uncompared};
use crate::run::Task;
use crate::run::create::Create;
use crate::run::execution::check_limits;
use crate::run::history::{DAY, Found, MINUTE, fingerprint_of, search};
use crate::transport::{CallContext, Core, Deadline, Error, Result, awaited, printable_id};

/// Shortest backoff between two searches, which end when no create can appear any more.
const MIN_PAUSE: Duration = Duration::from_millis(100);

/// Run whose inputs are uploaded; [`Client::adopt_or_start`](crate::Client::adopt_or_start) creates its task.
///
/// Serialize a prepared run to a journal before its task is created. After a crash, deserialize it and call
/// `adopt_or_start` again, which finds the task that the run may have become, or creates it.
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
/// On a service with idempotency keys, any number of processes may start the same run concurrently: it becomes one
/// task. On another service, `adopt_or_start` searches the history, and only one process at a time may work on a
/// journal (lock the file, and let a rolling deployment end the old process first). Prepared runs with the same inputs
/// are told apart by uploaded files. Runs without files are not, but each still becomes one task, because a known task
/// is never adopted again: pass the tasks of a journal to [`Tasks::claim`](crate::Tasks::claim) first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PreparedRun {
    /// Model.
    pub model: ModelId,
    /// Inputs as sent, with the URLs of the uploaded files. If the task of the run may exist, do not change
    /// them: the service rejects other inputs with the same idempotency key (409).
    pub inputs: Map<String, Value>,
    /// URLs of the files uploaded for this run alone.
    pub uploaded: Vec<String>,
    /// Time of the preparation by the clock of the service: the clock of this machine may be set back later.
    pub prepared_at: SystemTime,
    /// Maximum cost, checked again before the create: the price may have changed. Set it to apply another limit.
    #[serde(default)]
    pub max_cost: Option<Decimal>,
    /// True if a node must serve the model. Checked again before the create.
    #[serde(default)]
    pub require_serving: bool,
    pub(crate) id: String,
    #[serde(skip, default = "now")]
    pub(crate) sent_before: SentBefore,
}

/// Last time at which a create of a prepared run may have been sent: before this process read the run, or by
/// a client of this process. Clones share it.
pub(crate) type SentBefore = Uncompared<Arc<Mutex<Instant>>>;

pub(super) fn now() -> SentBefore {
    Uncompared(Arc::new(Mutex::new(Instant::now())))
}

impl PreparedRun {
    pub(super) fn key(&self) -> RunKey {
        (self.id.clone(), (self.model.clone(), fingerprint_of(&self.inputs)))
    }
}

/// Adoption or start of a prepared run: await it for the task. Dropping it may leave a task; then start it again.
#[derive(Clone, Debug)]
#[must_use = "nothing is adopted or started until it is awaited"]
pub struct Adopt {
    core: Arc<Core>,
    prepared: PreparedRun,
    deadline: Option<Duration>,
}

awaited!(Adopt => Task, |adopt| adopt.run().boxed());

impl Adopt {
    pub(crate) fn new(core: Arc<Core>, prepared: PreparedRun) -> Self {
        Self { core, prepared, deadline: None }
    }

    /// Sets the timeout of search, create and retries, after which the run can be adopted later. Default: none.
    pub fn deadline(self, deadline: impl Into<Option<Duration>>) -> Self {
        Self { deadline: deadline.into(), ..self }
    }

    async fn run(self) -> Result<Task> {
        let Self { core, prepared, deadline } = self;
        let deadline = Deadline::after(deadline);
        let has_uploads = !prepared.uploaded.is_empty();
        let PreparedRun { id, model, inputs, .. } = &prepared;
        let create = Create::new(&core, id, model, inputs.clone(), has_uploads, deadline)?;
        let run = core.memory.prepared_run(&(id.clone(), create.inputs_key.clone()), RunState::Unknown);
        let mut state = deadline.bound(async { Ok(run.lock().await) }).await?;
        let starting = Starting { create, prepared: &prepared };
        let id = match &*state {
            RunState::Created(id) => id.clone(),
            RunState::New => starting.start(&mut state).await?,
            RunState::Unknown if starting.is_key_remembered().await? => {
                starting.start_again(&mut state).await?
            }
            RunState::Unknown => match starting.adopt(true).await? {
                Some(id) => id,
                None => {
                    *state = RunState::New;
                    starting.start(&mut state).await?
                }
            },
        };
        *state = RunState::Created(id.clone());
        Ok(Task::new(&core, id).of_model(prepared.model))
    }
}

struct Starting<'a> {
    create: Create,
    prepared: &'a PreparedRun,
}

impl Starting<'_> {
    /// Returns true if the service still remembers the idempotency key of the run, had a create used it.
    async fn is_key_remembered(&self) -> Result<bool> {
        let Create { core, deadline, .. } = &self.create;
        if core.service_time().is_none() {
            // Any response announces whether the service supports keys.
            deadline.bound(core.list_tasks(1, 0, *deadline)).await?;
        }
        let now = core.service_time().unwrap_or_else(SystemTime::now);
        // A run from the future was prepared just now, by another clock.
        let age = now.duration_since(self.prepared.prepared_at).unwrap_or_default();
        Ok(core.remembers_key(age))
    }

    /// Starts a run that an earlier create may have made a task, whose key the service remembers.
    async fn start_again(&self, state: &mut RunState) -> Result<TaskId> {
        loop {
            let refusal = match self.start(state).await {
                Err(error) if error.is_refused_create() => error,
                started => return started,
            };
            if refusal.denies_key() {
                let on_its_way = self.on_its_way();
                if on_its_way.is_zero() {
                    return Err(refusal);
                }
                self.create.deadline.bound(sleep(on_its_way).map(Ok)).await?;
                continue;
            }
            // A limit, a refused API key or a gateway says nothing about an earlier create.
            return match self.adopt(self.create.is_unmistakable).await {
                Ok(found) => found.ok_or(refusal),
                Err(Error::OutcomeUnknown(mut unknown)) => {
                    unknown.context.status = refusal.status();
                    unknown.context.source = Some(refusal.into());
                    Err(Error::OutcomeUnknown(unknown))
                }
                Err(error) => Err(error),
            };
        }
    }

    /// Returns the time for which a create that an earlier process sent may still arrive.
    fn on_its_way(&self) -> Duration {
        let sent = *self.prepared.sent_before.0.lock();
        self.create.core.memory.settle_time.saturating_sub(sent.elapsed())
    }

    async fn start(&self, state: &mut RunState) -> Result<TaskId> {
        let PreparedRun { model, max_cost, require_serving, sent_before, .. } = self.prepared;
        let Create { core, deadline, .. } = &self.create;
        check_limits(core, model, max_cost.as_ref(), *require_serving, *deadline).await?;
        let before = std::mem::replace(state, RunState::Unknown);
        let now = Instant::now();
        let earlier = std::mem::replace(&mut *sent_before.0.lock(), now);
        self.create.assert_key(&self.prepared.id);
        let created = self.create.send(&|| true).await.map_err(|mut error| {
            match &mut error {
                Error::OutcomeUnknown(unknown) => unknown.is_prepared = true,
                _ => {
                    *state = before;
                    let mut sent_before = sent_before.0.lock();
                    // Another client may have sent a create of this run meanwhile.
                    if *sent_before == now {
                        *sent_before = earlier;
                    }
                }
            }
            error
        });
        Ok(created?.task)
    }

    /// Finds the task of an earlier create: the oldest match that this client does not know. `None` once no earlier
    /// create can appear any more. Without `may_claim`, a match may belong to another program, and is a candidate alone.
    async fn adopt(&self, may_claim: bool) -> Result<Option<TaskId>> {
        let Create { core, inputs_key, deadline, .. } = &self.create;
        for number in 1.. {
            let undecided = self.on_its_way().max(core.memory.doubt_left(inputs_key));
            let found = self.search(MINUTE).await?;
            // The task of a create that waits for its response may be in the history already.
            if may_claim
                && !core.memory.is_ambiguous(inputs_key, 0)
                && let Some(task) = self.claim_one(&found)
            {
                return Ok(Some(task));
            }
            if !found.is_complete() || (!may_claim && found.all().next().is_some()) {
                return Err(unknown(found));
            }
            if undecided.is_zero() {
                break;
            }
            let pause = self.create.pause(number).max(MIN_PAUSE.saturating_mul(number));
            deadline.bound(sleep(undecided.min(pause)).map(Ok)).await?;
        }
        // A clock of the service may have been wrong by more than a minute.
        let found = self.search(DAY).await?;
        let task = if self.create.is_unmistakable { self.claim_one(&found) } else { None };
        if task.is_none() && !(found.is_complete() && found.all().next().is_none()) {
            return Err(unknown(found));
        }
        Ok(task)
    }

    async fn search(&self, reach: Duration) -> Result<Found> {
        let Create { core, inputs_key, deadline, .. } = &self.create;
        let prepared_at = self.prepared.prepared_at;
        deadline.bound(search(core, inputs_key, |_| Some(prepared_at), reach)).await
    }

    fn claim_one(&self, found: &Found) -> Option<TaskId> {
        let task = found.all().find(|task| self.create.core.memory.claim(task))?;
        info!(task = printable_id(task.as_str()), "a prepared run was found in the task history");
        Some(task.clone())
    }
}

fn unknown(found: Found) -> Error {
    found.into_error(CallContext::new(operations::CREATE_TASK.id, None), true)
}
