//! Looking for a task at the end of the task history, which is told oldest first.

use std::time::{Duration, SystemTime};

use futures_util::stream::{self, StreamExt};
use inferstore_api::types::{TaskId, TaskRecord};
use serde_json::Value;
use tokio::time::Instant;

use super::Create;
use crate::resources::tasks::MAX_RECORDS;
use crate::run::same::same_json;
use crate::transport::error::Result;

/// How far the service may be off the time that it tells in its answers, for a task still to be taken
/// for one that was created after the create was sent.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(60);

/// How many tasks are read at the same time to learn their inputs.
const SIDE_BY_SIDE: usize = 8;

/// What one look at the history showed.
#[derive(Default)]
pub(super) struct Look {
    /// Oldest first.
    pub(super) matches: Vec<TaskId>,
    /// Whether everything that may be the task could be read.
    pub(super) is_whole: bool,
}

impl Create<'_> {
    /// Reads the history from its end, back to before the create was sent.
    pub(super) async fn look(&self, sent_at: Instant) -> Result<Look> {
        let tasks = self.client.tasks();
        let first = tasks.page_until(MAX_RECORDS, 0, self.deadline).await?;
        // Only now, because this answer tells the time.
        let earliest = self.client.inner.clock.at(sent_at).and_then(|sent| sent.checked_sub(CLOCK_TOLERANCE));
        let is_full = first.records.len() as u64 >= u64::from(MAX_RECORDS);
        let mut look = Look { matches: Vec::new(), is_whole: first.total.is_some() || !is_full };
        let mut end = first.total.unwrap_or(first.records.len() as u64);
        let mut page = Some(first).filter(|_| end <= u64::from(MAX_RECORDS));
        loop {
            let offset = end.saturating_sub(u64::from(MAX_RECORDS));
            let limit = u32::try_from(end - offset).unwrap_or(MAX_RECORDS).max(1);
            let records = match page.take() {
                Some(page) => page.records,
                None => tasks.page_until(limit, offset, self.deadline).await?.records,
            };
            look.is_whole &= records.len() as u64 >= end - offset;
            self.add_matches(&mut look, &records, earliest).await;
            if offset == 0 || records.first().is_none_or(|oldest| is_before(oldest, earliest)) {
                look.matches.reverse();
                return Ok(look);
            }
            end = offset;
        }
    }

    /// Adds the tasks among the records that may be the lost one, newest first.
    async fn add_matches(&self, look: &mut Look, records: &[TaskRecord], earliest: Option<SystemTime>) {
        let candidates = records.iter().rev().filter(|record| self.may_be_it(record, earliest));
        let candidates: Vec<TaskId> = candidates.map(|record| record.task_id.clone()).collect();
        let judged =
            stream::iter(candidates).map(|task| async move { (self.has_the_same_input(&task).await, task) });
        let judged: Vec<_> = judged.buffered(SIDE_BY_SIDE).collect().await;
        for (is_it, task) in judged {
            match is_it {
                Some(true) => look.matches.push(task),
                Some(false) => {}
                None => look.is_whole = false,
            }
        }
    }

    fn may_be_it(&self, record: &TaskRecord, earliest: Option<SystemTime>) -> bool {
        let same_model = record.model_id.as_deref().is_none_or(|model| model == self.model.as_str());
        same_model && !is_before(record, earliest) && !self.client.inner.own_tasks.contains(&record.task_id)
    }

    /// `None` when the task does not tell.
    async fn has_the_same_input(&self, task: &TaskId) -> Option<bool> {
        let task = self.client.task(task).get_until(self.deadline).await.ok()?;
        let stored = Value::Object(task.input_data?);
        Some(same_json(&stored, &Value::Object(self.input.0.clone())))
    }
}

fn is_before(record: &TaskRecord, earliest: Option<SystemTime>) -> bool {
    // A record without a readable time may be anything.
    let created = record.created_at.as_ref().and_then(|stamp| stamp.to_system_time());
    created.zip(earliest).is_some_and(|(created, earliest)| created < earliest)
}
