//! Searching the task history, which is ordered oldest first, for the task of a create.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::stream::{self, StreamExt};
use inferstore_api::types::{ModelId, TaskId, TaskRecord};
use serde_json::Value;
use tokio::time::Instant;

use crate::memory::{Fingerprint, fingerprint};
use crate::resources::tasks::{MAX_RECORDS, Task, Tasks};
use crate::transport::Core;
use crate::transport::deadline::Deadline;
use crate::transport::error::Result;

/// How far the times of the service may be off for a task still to match.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(60);

/// How many tasks are read at the same time to learn their inputs.
const MAX_CONCURRENT_READS: usize = 8;

/// The search for tasks of one model with the same inputs, from the end of the history backwards.
pub(crate) struct Search<'a> {
    core: &'a Arc<Core>,
    model: &'a ModelId,
    inputs: Fingerprint,
    deadline: Deadline,
    found: Found,
}

/// What a search found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Oldest first.
    pub(crate) matches: Vec<TaskId>,
    /// Whether everything that may match could be read.
    pub(crate) is_complete: bool,
}

impl<'a> Search<'a> {
    pub(crate) fn new(
        core: &'a Arc<Core>,
        model: &'a ModelId,
        inputs: Fingerprint,
        deadline: Deadline,
    ) -> Self {
        Self { core, model, inputs, deadline, found: Found::default() }
    }

    /// Searches the tasks that were created after this moment.
    pub(crate) async fn since(self, moment: Instant) -> Result<Found> {
        self.run(|now| now.checked_sub(moment.elapsed())).await
    }

    /// Searches the tasks that were created after this time by the clock of this machine.
    pub(crate) async fn since_local_time(self, time: SystemTime) -> Result<Found> {
        // A clock that was set back says nothing of the age: then the whole history is searched.
        self.run(|now| now.checked_sub(time.elapsed().ok()?)).await
    }

    /// `earliest` converts the clock of the service into the time before which nothing matches.
    async fn run(mut self, earliest: impl FnOnce(SystemTime) -> Option<SystemTime>) -> Result<Found> {
        let tasks = Tasks { core: Arc::clone(self.core) };
        let (first, date) = tasks.page_until(MAX_RECORDS, 0, self.deadline).await?;
        let earliest = earliest(date.unwrap_or_else(SystemTime::now));
        let earliest = earliest.and_then(|earliest| earliest.checked_sub(CLOCK_TOLERANCE));
        let is_full = first.records.len() as u64 >= u64::from(MAX_RECORDS);
        self.found.is_complete = first.total.is_some() || !is_full;
        let mut end = first.total.unwrap_or(first.records.len() as u64);
        let mut first_page = Some(first.records).filter(|_| end <= u64::from(MAX_RECORDS));
        loop {
            let offset = end.saturating_sub(u64::from(MAX_RECORDS));
            let limit = u32::try_from(end - offset).unwrap_or(MAX_RECORDS).max(1);
            let records = match first_page.take() {
                Some(records) => records,
                None => tasks.page_until(limit, offset, self.deadline).await?.0.records,
            };
            self.found.is_complete &= records.len() as u64 >= end - offset;
            self.add_matches(&records, earliest).await;
            if offset == 0 || records.first().is_none_or(|oldest| is_before(oldest, earliest)) {
                self.found.matches.reverse();
                return Ok(self.found);
            }
            end = offset;
        }
    }

    /// Adds the matching tasks among the records, newest first.
    async fn add_matches(&mut self, records: &[TaskRecord], earliest: Option<SystemTime>) {
        let candidates = records.iter().rev().filter(|record| self.may_match(record, earliest));
        let candidates: Vec<TaskId> = candidates.map(|record| record.task_id.clone()).collect();
        let search = &*self;
        let read = stream::iter(candidates).map(|task| async move { (search.inputs_of(&task).await, task) });
        let read: Vec<_> = read.buffered(MAX_CONCURRENT_READS).collect().await;
        for (inputs, task) in read {
            match inputs {
                Some(inputs) if inputs == self.inputs => self.found.matches.push(task),
                Some(_) => {}
                None => self.found.is_complete = false,
            }
        }
    }

    fn may_match(&self, record: &TaskRecord, earliest: Option<SystemTime>) -> bool {
        let is_same_model = record.model_id.as_deref().is_none_or(|model| model == self.model.as_str());
        is_same_model && !is_before(record, earliest) && !self.core.memory.own_tasks.contains(&record.task_id)
    }

    /// The inputs of a task, or `None` when they cannot be read.
    async fn inputs_of(&self, task: &TaskId) -> Option<Fingerprint> {
        let own_tasks = &self.core.memory.own_tasks;
        if let Some(inputs) = own_tasks.inputs_of(task) {
            return Some(inputs);
        }
        let handle = Task { core: Arc::clone(self.core), id: task.clone() };
        let detail = handle.get_until(self.deadline).await.ok()?;
        let inputs = fingerprint(&Value::Object(detail.input_data?));
        own_tasks.remember_inputs(task, inputs);
        Some(inputs)
    }
}

fn is_before(record: &TaskRecord, earliest: Option<SystemTime>) -> bool {
    // A record without a readable time may match.
    let created = record.created_at.as_ref().and_then(|created| created.to_system_time());
    created.zip(earliest).is_some_and(|(created, earliest)| created < earliest)
}
