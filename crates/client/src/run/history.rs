//! Search of the task history for the task of a lost create, for services without idempotency keys.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::stream::{self, StreamExt};
use inferstore_api::limits::MAX_LIST_TASKS_LIMIT;
use inferstore_api::types::{TaskId, TaskRecord};
use serde_json::{Map, Value};

use crate::memory::{Fingerprint, InputsKey, fingerprint};
use crate::transport::{CallContext, Core, Deadline, Error, HistoryRead, Result, UnknownOutcome};

/// Clock skew of the service within which a task matches by its time.
pub(super) const MINUTE: Duration = Duration::from_secs(60);

/// Maximum clock skew of the service that a search allows for.
pub(super) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Tolerance before a create: times of the service are partly in whole seconds. An earlier task is only a
/// candidate, because it may belong to another program with the same inputs.
const ADOPT_TOLERANCE: Duration = Duration::from_secs(5);

/// Maximum number of pages of one search: a busy history has no end.
const MAX_PAGES: usize = 12;

const MAX_INPUT_READS: usize = 300;

const MAX_CONCURRENT_READS: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Found {
    /// Matching tasks, oldest first.
    pub(super) matches: Vec<TaskId>,
    /// Matching tasks from before the create, unless the clocks of the service differ; oldest first.
    pub(super) earlier: Vec<TaskId>,
    pub(super) history: HistoryRead,
}

impl Found {
    pub(super) fn is_complete(&self) -> bool {
        self.history == HistoryRead::Complete
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &TaskId> {
        self.earlier.iter().chain(&self.matches)
    }

    pub(super) fn into_error(self, context: CallContext, is_prepared: bool) -> Error {
        let candidates = [self.earlier, self.matches].concat();
        let history = self.history;
        Error::OutcomeUnknown(Box::new(UnknownOutcome { context, candidates, history, is_prepared }))
    }
}

/// Searches the history backwards, from the newest task, for tasks with this model and these inputs that this
/// client does not know, up to `reach` before the create. `since` computes the time of the create from the
/// time of the service. The caller bounds the search, which may begin at its deadline.
pub(super) async fn search(
    core: &Arc<Core>,
    key: &InputsKey,
    since: impl FnOnce(SystemTime) -> Option<SystemTime>,
    reach: Duration,
) -> Result<Found> {
    let first = core.list_tasks(MAX_LIST_TASKS_LIMIT, 0, Deadline::never()).await?;
    let total = first.total.and_then(|total| usize::try_from(total).ok()).unwrap_or_default();
    // The page has shown the current clock of the service.
    let since = since(core.service_time().unwrap_or_else(SystemTime::now));
    let earliest = since.and_then(|since| since.checked_sub(reach));
    let (records, is_whole) =
        latest_records(core, first.records.unwrap_or_default(), total, earliest).await?;
    let history = if is_whole { HistoryRead::Complete } else { HistoryRead::Partial };
    let mut found = Found { history, ..Found::default() };
    let mut seen = HashSet::new();
    let candidates: Vec<TaskRecord> = records
        .into_iter()
        .filter(|record| record.model_id.as_deref().is_none_or(|model| model == key.0.as_str()))
        .filter(|record| !is_before(record, earliest) && !core.memory.is_known(&record.task_id))
        // A page may repeat a task if older ones were deleted between two reads.
        .filter(|record| seen.insert(record.task_id.clone()))
        .collect();
    let is_unread = |record: &&TaskRecord| known_inputs(core, &record.task_id).is_none();
    if candidates.iter().filter(is_unread).count() > MAX_INPUT_READS {
        found.history = HistoryRead::Partial;
        return Ok(found);
    }
    let read = stream::iter(candidates)
        .map(|record| async move { (inputs_of(core, &record.task_id).await, record) })
        .buffered(MAX_CONCURRENT_READS);
    let read: Vec<_> = read.collect().await;
    let adoptable = since.and_then(|since| since.checked_sub(ADOPT_TOLERANCE));
    for (inputs, record) in read {
        if inputs.is_none() {
            found.history = HistoryRead::Partial;
        } else if inputs == Some(key.1) {
            let is_earlier = is_before(&record, adoptable);
            let list = if is_earlier { &mut found.earlier } else { &mut found.matches };
            list.push(record.task_id);
        }
    }
    Ok(found)
}

/// Reads the records since `earliest`, oldest first, and perhaps some before. Returns true if the list is complete.
async fn latest_records(
    core: &Core,
    mut first: Vec<TaskRecord>,
    total: usize,
    earliest: Option<SystemTime>,
) -> Result<(Vec<TaskRecord>, bool)> {
    const PAGE: usize = MAX_LIST_TASKS_LIMIT as usize;
    let page = |offset: usize| async move {
        let page = core.list_tasks(MAX_LIST_TASKS_LIMIT, offset as u64, Deadline::never()).await?;
        Ok::<_, Error>(page.records.unwrap_or_default())
    };
    let mut pages = 1;
    let mut start = total.saturating_sub(PAGE);
    let mut records = if start == 0 { std::mem::take(&mut first) } else { page(start).await? };
    pages += usize::from(start > 0);
    // The total may be older than the records, if it is cached: the history ends at a page that is not full.
    let mut last = records.len();
    while last == PAGE && pages < MAX_PAGES {
        let next = page(start + records.len()).await?;
        pages += 1;
        last = next.len();
        records.extend(next);
    }
    let mut is_whole = last < PAGE && start + records.len() >= total;
    while start > 0 && !records.first().is_some_and(|oldest| is_before(oldest, earliest)) {
        let earlier = start.saturating_sub(PAGE);
        let mut before = match earlier {
            0 => std::mem::take(&mut first),
            _ if pages == MAX_PAGES => return Ok((records, false)),
            _ => page(earlier).await?,
        };
        pages += 1;
        before.truncate(start - earlier);
        is_whole &= before.len() == start - earlier;
        records.splice(..0, before);
        start = earlier;
    }
    Ok((records, is_whole))
}

fn known_inputs(core: &Core, task: &TaskId) -> Option<Fingerprint> {
    core.memory.task_inputs.get(task, Duration::MAX)
}

async fn inputs_of(core: &Core, task: &TaskId) -> Option<Fingerprint> {
    if let Some(known) = known_inputs(core, task) {
        return Some(known);
    }
    let detail = core.get_task(task, Deadline::never()).await.ok()?;
    let inputs = fingerprint_of(&detail.input_data?);
    core.memory.task_inputs.insert(task.clone(), inputs);
    Some(inputs)
}

pub(super) fn fingerprint_of(inputs: &Map<String, Value>) -> Fingerprint {
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

    use serde_json::json;

    use super::*;

    #[test]
    fn a_task_from_before_the_create_is_not_adopted() {
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
