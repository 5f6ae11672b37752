//! Creating a task at most once. There is no key that would make a second create harmless, so a
//! create that may have reached the service is never sent again. When its answer is lost, the task
//! history tells what happened, or the caller is told that nobody knows.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use inferstore_api::types::{ModelId, TaskId, TaskInput, TaskRecord};
use tokio::time::sleep;
use tracing::debug;

use crate::call::Call;
use crate::client::Client;
use crate::deadline::Deadline;
use crate::error::{Context, Error, Result, UnknownOutcome};
use crate::retry::Safety;
use crate::same::same_json;
use crate::tasks::MAX_RECORDS;

/// How far the clocks of the service and of this machine may be apart, beyond the time that the
/// create itself took, for a task still to be taken for ours.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(60);

/// How often the history is read, with a pause between that begins like that of a repeat: the service
/// may still be working on the create whose connection broke.
const LOOKS: u32 = 3;

/// How many tasks are remembered as ours.
const REMEMBERED: usize = 10_000;

/// The tasks that this client has created or adopted: none of them is the lost one.
#[derive(Debug, Default)]
pub(crate) struct OwnTasks(Mutex<(HashSet<String>, VecDeque<String>)>);

impl OwnTasks {
    /// Remembers the task; `false` if it was known.
    fn claim(&self, task: &TaskId) -> bool {
        let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, order) = &mut *own;
        if !known.insert(task.to_string()) {
            return false;
        }
        order.push_back(task.to_string());
        if order.len() > REMEMBERED
            && let Some(oldest) = order.pop_front()
        {
            known.remove(&oldest);
        }
        true
    }

    fn contains(&self, task: &TaskId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.contains(task.as_str())
    }
}

/// A create, with all that is needed to recognize its task.
pub(crate) struct Create<'a> {
    pub(crate) client: &'a Client,
    pub(crate) model: &'a ModelId,
    pub(crate) input: &'a TaskInput,
    pub(crate) repeat_refused: bool,
    pub(crate) deadline: Deadline,
}

impl Create<'_> {
    /// Sends the create once, and finds out what became of it.
    pub(crate) async fn send(&self) -> Result<TaskId> {
        let client = &*self.client.inner;
        let sent_at = SystemTime::now();
        let call = Call::new("createTask", Safety::Create { repeat_refused: self.repeat_refused })
            .until(self.deadline);
        match call.send(client, || client.api.create_task(self.model, self.input)).await {
            Ok(created) => {
                client.own_tasks.claim(&created.data);
                Ok(created.data)
            }
            Err(Error::Unreachable(context) | Error::Unreadable(context)) if !context.repeat_is_safe => {
                self.look_for_it(*context, sent_at).await
            }
            // A gateway that gave up says nothing about the service behind it.
            Err(Error::Refused(context)) if context.status.is_some_and(is_ambiguous) => {
                self.look_for_it(*context, sent_at).await
            }
            Err(error) => Err(error),
        }
    }

    /// Adopts the one task in the history that can be the lost one; anything but exactly one is told.
    async fn look_for_it(&self, context: Context, sent_at: SystemTime) -> Result<TaskId> {
        let mut last = Look::default();
        let mut pause = self.client.inner.settings.retry.first_pause;
        for look in 1..=LOOKS {
            match self.deadline.cut(self.look(sent_at)).await {
                Some(Ok(seen)) => last = seen,
                Some(Err(error)) => debug!(look, error = %error.headline(), "the history could not be read"),
                None => break,
            }
            if let [task] = &last.matches[..]
                && last.is_whole
                && self.client.inner.own_tasks.claim(task)
            {
                debug!(%task, "a create whose answer was lost was found in the history");
                return Ok(task.clone());
            }
            let settled = last.is_whole && !last.matches.is_empty();
            if settled || look == LOOKS || self.deadline.cut(sleep(pause)).await.is_none() {
                break;
            }
            pause *= 2;
        }
        Err(Error::OutcomeUnknown(Box::new(UnknownOutcome {
            context,
            candidates: last.matches,
            history_was_read: last.is_whole,
        })))
    }

    /// Reads the history from its end, back to before the create was sent.
    async fn look(&self, sent_at: SystemTime) -> Result<Look> {
        let tasks = self.client.tasks();
        let earliest = sent_at.checked_sub(CLOCK_TOLERANCE).unwrap_or(SystemTime::UNIX_EPOCH);
        let first = tasks.page_until(MAX_RECORDS, 0, self.deadline).await?;
        let mut end = first.total.unwrap_or(first.records.len() as u64);
        let mut page = Some(first).filter(|_| end <= u64::from(MAX_RECORDS));
        let mut matches = Vec::new();
        let mut unread = 0;
        loop {
            let offset = end.saturating_sub(u64::from(MAX_RECORDS));
            let limit = u32::try_from(end - offset).unwrap_or(MAX_RECORDS).max(1);
            let records = match page.take() {
                Some(page) => page.records,
                None => tasks.page_until(limit, offset, self.deadline).await?.records,
            };
            for record in records.iter().rev().filter(|record| self.may_be_it(record, earliest)) {
                match self.has_the_same_input(&record.task_id).await {
                    Ok(true) => matches.push(record.task_id.clone()),
                    Ok(false) => {}
                    Err(_) => unread += 1,
                }
            }
            if offset == 0 || records.first().is_none_or(|oldest| is_before(oldest, earliest)) {
                matches.reverse();
                return Ok(Look { matches, is_whole: unread == 0 });
            }
            end = offset;
        }
    }

    fn may_be_it(&self, record: &TaskRecord, earliest: SystemTime) -> bool {
        let same_model = record.model_id.as_deref().is_none_or(|model| model == self.model.as_str());
        same_model && !is_before(record, earliest) && !self.client.inner.own_tasks.contains(&record.task_id)
    }

    async fn has_the_same_input(&self, task: &TaskId) -> Result<bool> {
        let task = self.client.task(task).get_until(self.deadline).await?;
        Ok(task.input_data.is_some_and(|stored| {
            same_json(&serde_json::Value::Object(stored), &serde_json::Value::Object(self.input.0.clone()))
        }))
    }
}

/// What one look at the history showed.
#[derive(Default)]
struct Look {
    /// Oldest first.
    matches: Vec<TaskId>,
    /// Whether everything that may be the task could be read.
    is_whole: bool,
}

/// Statuses with which something in between says that it lost the answer of the service, or the
/// service that it lost its way after it began.
fn is_ambiguous(status: u16) -> bool {
    status == 408 || status >= 500
}

fn is_before(record: &TaskRecord, earliest: SystemTime) -> bool {
    // A record without a readable time may be anything.
    record
        .created_at
        .as_ref()
        .and_then(|stamp| stamp.to_system_time())
        .is_some_and(|created| created < earliest)
}
