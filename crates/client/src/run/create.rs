//! Creating a task at most once.
//!
//! Every create carries an idempotency key: a random one, or that of a prepared run. The protocol:
//!
//! 1. Service with idempotency keys (it announces them): a create is retried like a read, always with the same
//!    key, and the service responds with the task of the first one. The history is not read.
//! 2. Service without idempotency keys: a second create would run and bill a second task. A create that
//!    certainly reached nothing (connection refused) is retried; a rejected one is not.
//! 3. If the response to such a create is lost (timeout, dropped connection, 5xx of a gateway), the client
//!    searches the task history: the model, the inputs and the time must match, and the task must not belong to
//!    another create of this client. Exactly one match is adopted; anything else is [`Error::OutcomeUnknown`].
//!    If a response of the search announces keys after all, the create is retried with its key.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use inferstore_api::operations;
use inferstore_api::types::{IdempotencyKey, ModelId, TaskId, TaskInput};
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::memory::{InputsKey, PendingCreate};
use crate::run::history::{DAY, Found, MINUTE, fingerprint_of, search};
use crate::transport::call::IsWanted;
use crate::transport::{
    CallContext, Core, Deadline, Error, HistoryRead, Result, check_task_id, printable_id,
};

/// Maximum number of searches of the history for one create: the service may still be working on it.
const MAX_SEARCHES: u32 = 3;

pub(crate) struct Create {
    pub(super) core: Arc<Core>,
    key: IdempotencyKey,
    input: TaskInput,
    pub(super) inputs_key: InputsKey,
    /// True if an input is the URL of an upload of this run, whose name nobody else knows.
    pub(super) is_unmistakable: bool,
    pub(super) deadline: Deadline,
}

#[derive(Clone, Debug)]
pub(crate) struct Created {
    pub(crate) task: TaskId,
    /// True if the task was found in the history: only an upload among its inputs proves that this run may cancel it.
    pub(crate) is_adopted: bool,
}

impl Create {
    pub(crate) fn new(
        core: &Arc<Core>,
        id: &str,
        model: &ModelId,
        inputs: Map<String, Value>,
        is_unmistakable: bool,
        deadline: Deadline,
    ) -> Result<Self> {
        let key = id.parse().map_err(|error| {
            Error::InvalidArgument(format!("the identifier of the run is no idempotency key: {error}"))
        })?;
        let inputs_key = (model.clone(), fingerprint_of(&inputs));
        let core = Arc::clone(core);
        Ok(Self { core, key, input: TaskInput(inputs), inputs_key, is_unmistakable, deadline })
    }

    pub(super) fn assert_key(&self, run: &str) {
        debug_assert_eq!(self.key.as_str(), run, "a create carries the idempotency key of another run");
    }

    /// Creates the task, or finds the task of a lost create. Sends nothing once `is_wanted` returns false.
    pub(crate) async fn send(&self, is_wanted: &IsWanted<'_>) -> Result<Created> {
        debug_assert_eq!(
            self.inputs_key.1,
            fingerprint_of(&self.input.0),
            "the inputs of a create changed after its search key was computed",
        );
        let pending = self.core.memory.start_create(&self.inputs_key);
        let result = self.send_and_reconcile(&pending, is_wanted).await;
        // A create of unknown outcome may still add its task to the history.
        if !matches!(result, Err(Error::OutcomeUnknown(_))) {
            pending.finish();
        }
        // A failure at the deadline is reported as the deadline.
        self.deadline.bound(std::future::ready(result)).await
    }

    async fn send_and_reconcile(
        &self,
        pending: &PendingCreate<'_>,
        is_wanted: &IsWanted<'_>,
    ) -> Result<Created> {
        let sent_at = Instant::now();
        let service_time = self.core.service_time();
        let mut lost = match self.send_once(is_wanted).await {
            Err(error) if error.is_in_doubt() => error,
            known => return known,
        };
        let mut found = Found::default();
        // Time of the create by the clock of the service. A suspended machine counts less elapsed time.
        let since = |now: SystemTime| {
            let counted = now.checked_sub(sent_at.elapsed())?;
            Some(service_time.map_or(counted, |shown| shown.min(counted)))
        };
        if self.core.key_retention().is_some() {
            // No match proves that its task is of this create, as its key would; each is a candidate.
            let searched = search(&self.core, &self.inputs_key, since, MINUTE);
            found = self.deadline.bound(searched).await.unwrap_or_default();
        } else {
            match self.reconcile(since, pending).await {
                Ok(Some(created)) => return Ok(created),
                Err(searched) => found = searched,
                // A rejection says nothing about the first create, which may still be on its way.
                Ok(None) => match self.send_once(&|| true).await {
                    Ok(created) => return Ok(created),
                    Err(error) if error.is_in_doubt() => lost = error,
                    Err(_) => {}
                },
            }
        }
        let context = lost.context_mut().map(std::mem::take).unwrap_or_default();
        Err(found.into_error(context, false))
    }

    /// Sends the create once, or with retries if its idempotency key allows.
    async fn send_once(&self, is_wanted: &IsWanted<'_>) -> Result<Created> {
        let call =
            self.core.call(operations::CREATE_TASK).until(self.deadline).with_idempotency_key(is_wanted);
        let model = &self.inputs_key.0;
        let task = call.send(|api| api.create_task(model, Some(&self.key), &self.input)).await?.data;
        if let Err(invalid) = check_task_id(&task) {
            // There is a task, and only the history can name it.
            let context = CallContext::new(operations::CREATE_TASK.id, Some(200));
            let source = Some(invalid.into());
            return Err(Error::Decode(Box::new(CallContext { is_in_doubt: true, source, ..context })));
        }
        self.core.memory.claim(&task);
        Ok(Created { task, is_adopted: false })
    }

    /// Searches for the task of a lost create, and adopts exactly one match that cannot belong to another create of
    /// this client. `None`: the service supports idempotency keys, so the create can be retried.
    async fn reconcile(
        &self,
        since: impl Fn(SystemTime) -> Option<SystemTime> + Copy + Send,
        pending: &PendingCreate<'_>,
    ) -> Result<Option<Created>, Found> {
        let mut found = Found::default();
        for number in 1..=MAX_SEARCHES {
            let is_last = number == MAX_SEARCHES;
            // If a clock of the service is wrong, only an upload proves the owner of a task.
            let reach = if is_last && self.is_unmistakable { DAY } else { MINUTE };
            let searched = search(&self.core, &self.inputs_key, since, reach);
            match self.deadline.bound(searched).await {
                Ok(found_now) => found = found_now,
                Err(error) => {
                    warn!(number, %error, "the task history could not be read");
                    found.history = HistoryRead::Unreadable;
                }
            }
            let only_match = self.only_match(&found);
            // An upload proves the owner of a task, even if an older process of the service ignored the key.
            if self.core.key_retention().is_some() && !(self.is_unmistakable && only_match.is_some()) {
                return Ok(None);
            }
            if let Some(task) =
                only_match.filter(|task| !pending.is_ambiguous() && self.core.memory.claim(task))
            {
                info!(task = printable_id(task.as_str()), "a lost create was found in the task history");
                return Ok(Some(Created { task: task.clone(), is_adopted: true }));
            }
            let is_hopeless = found.is_complete() && found.matches.len() > 1;
            if is_last || is_hopeless || self.deadline.timeout(sleep(self.pause(number))).await.is_none() {
                break;
            }
        }
        Err(found)
    }

    fn only_match<'a>(&self, found: &'a Found) -> Option<&'a TaskId> {
        let mut tasks =
            if self.is_unmistakable { found.all().collect() } else { Vec::from_iter(&found.matches) };
        tasks.pop().filter(|_| tasks.is_empty() && (self.is_unmistakable || found.is_complete()))
    }

    pub(super) fn pause(&self, search: u32) -> Duration {
        self.core.retries.policy.initial_backoff.saturating_mul(search)
    }
}
