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

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use inferstore_api::types::{ModelId, TaskId, TaskInput};
use serde_json::Value;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::memory::{CreateKey, Fingerprint, PendingCreate, fingerprint};
use crate::run::history::Search;
use crate::transport::Core;
use crate::transport::deadline::Deadline;
use crate::transport::error::{CallContext, DeadlineReached, Error, Result, UnknownOutcome, shown};
use inferstore_api::operations;

/// How many times the history is searched: the service may still be working on the create.
const MAX_SEARCHES: u32 = 3;

/// A create, with all that is needed to recognize its task.
#[derive(Clone)]
pub(crate) struct Create {
    pub(crate) core: Arc<Core>,
    pub(crate) model: ModelId,
    pub(crate) input: TaskInput,
    /// Sends it again after 429 and 503.
    pub(crate) retry_on_rejection: bool,
    /// Sends it again when its response was lost, and the history, read after this time, shows no
    /// matching task.
    pub(crate) retry_if_absent_after: Option<Duration>,
    pub(crate) deadline: Deadline,
}

impl Create {
    /// Creates the task, or finds the one that a lost create became.
    pub(crate) async fn send(&self) -> Result<TaskId> {
        let own_tasks = &self.core.memory.own_tasks;
        let gate = own_tasks.gate(&self.key()).read_owned();
        let Some(_shared) = self.deadline.timeout(gate).await else {
            return Err(self.deadline.reached(DeadlineReached::default()));
        };
        // A future that is ready at once is not timed out.
        if self.deadline.is_over() {
            return Err(self.deadline.reached(DeadlineReached::default()));
        }
        // One for all attempts: a task of an earlier one is a task of this create.
        let pending = own_tasks.start_create(self.key());
        let mut is_in_doubt = false;
        let mut sent = 0;
        loop {
            sent += 1;
            let result = self.send_once(&pending).await;
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
            return result;
        }
    }

    /// Adopts the oldest matching task that this client does not know yet, or creates one, once no create
    /// that was sent before can appear in the history any more.
    pub(crate) async fn adopt_or_send(&self, prepared_at: SystemTime) -> Result<TaskId> {
        let core = &*self.core;
        // No create of this client with the same inputs is under way during the search.
        let alone = core.memory.own_tasks.gate(&self.key()).write_owned().await;
        for search in 1.. {
            let unsettled = self.unsettled();
            let found = self.search().since_local_time(prepared_at).await?;
            if let Some(task) = found.matches.iter().find(|task| core.memory.own_tasks.claim(task)) {
                info!(task = shown(task.as_str()), "a prepared run was found in the history");
                return Ok(task.clone());
            }
            if !found.is_complete {
                let context = CallContext::new(operations::CREATE_TASK.id, None);
                return Err(self.unknown(context, found.matches, false));
            }
            if unsettled.is_zero() {
                break;
            }
            sleep(unsettled.min(core.retries.policy.initial_backoff.saturating_mul(search))).await;
        }
        drop(alone);
        self.send().await
    }

    /// How long a create of the same run may still appear in the history: one of an earlier process was
    /// sent before this client was built.
    fn unsettled(&self) -> Duration {
        let core = &*self.core;
        let of_earlier_process = core.create_settle_time.saturating_sub(core.built.elapsed());
        let of_this_client = core.memory.own_tasks.doubt_left(&self.key()).min(core.create_settle_time);
        of_earlier_process.max(of_this_client)
    }

    fn may_send_again(&self, sent: u32) -> bool {
        let retries = &self.core.retries;
        let is_allowed = self.retry_if_absent_after.is_some() && !self.deadline.is_over();
        is_allowed && sent < retries.policy.max_attempts && retries.take()
    }

    async fn send_once(&self, pending: &PendingCreate<'_>) -> Result<TaskId> {
        let sent_at = Instant::now();
        let call = self.core.call(operations::CREATE_TASK).until(self.deadline);
        let call = call.retry_on_rejection(self.retry_on_rejection);
        let sent = call.send(|api| api.create_task(&self.model, &self.input)).await;
        match sent {
            Ok(created) => {
                self.core.memory.own_tasks.claim(&created.data);
                Ok(created.data)
            }
            Err(Error::Transport(context) | Error::Decode(context)) if !context.is_retry_safe => {
                self.reconcile(*context, sent_at, pending).await
            }
            // A gateway that gave up says nothing about the service behind it.
            Err(Error::Api(context)) if context.is_ambiguous() => {
                self.reconcile(*context, sent_at, pending).await
            }
            Err(error) => Err(error),
        }
    }

    /// Looks for the task of a lost create. Adopts exactly one match; a match that may belong to another
    /// create of this client with the same inputs is none.
    async fn reconcile(
        &self,
        context: CallContext,
        sent_at: Instant,
        pending: &PendingCreate<'_>,
    ) -> Result<TaskId> {
        let lost_at = Instant::now();
        let mut candidates = Vec::new();
        let mut is_complete = false;
        for search in 1.. {
            let found = self.deadline.timeout(self.search().since(sent_at)).await;
            is_complete = matches!(&found, Some(Ok(found)) if found.is_complete);
            match found {
                Some(Ok(found)) => candidates = found.matches,
                Some(Err(error)) => warn!(search, %error, "the history could not be read"),
                None => {}
            }
            if let [task] = &candidates[..]
                && is_complete
                && !pending.is_ambiguous()
                && self.core.memory.own_tasks.claim(task)
            {
                info!(
                    task = shown(task.as_str()),
                    "a create whose response was lost was found in the history"
                );
                return Ok(task.clone());
            }
            let is_hopeless = is_complete && candidates.len() > 1;
            if is_hopeless || self.deadline.is_over() {
                break;
            }
            if search < MAX_SEARCHES {
                self.pause_after(search).await;
            } else if search == MAX_SEARCHES
                && let Some(delay) = self.retry_if_absent_after
            {
                let remaining = delay.saturating_sub(lost_at.elapsed());
                if self.deadline.timeout(sleep(remaining)).await.is_none() {
                    break;
                }
            } else {
                break;
            }
        }
        Err(self.unknown(context, candidates, is_complete))
    }

    async fn pause_after(&self, search: u32) {
        let pause = self.core.retries.policy.initial_backoff.saturating_mul(search);
        // At the deadline the caller sees that it is over.
        let _ = self.deadline.timeout(sleep(pause)).await;
    }

    fn search(&self) -> Search<'_> {
        Search::new(&self.core, &self.model, self.fingerprint(), self.deadline)
    }

    fn key(&self) -> CreateKey {
        (self.model.clone(), self.fingerprint())
    }

    fn fingerprint(&self) -> Fingerprint {
        fingerprint(&Value::Object(self.input.0.clone()))
    }

    fn unknown(&self, context: CallContext, candidates: Vec<TaskId>, history_was_read: bool) -> Error {
        Error::OutcomeUnknown(Box::new(UnknownOutcome { context, candidates, history_was_read }))
    }
}
