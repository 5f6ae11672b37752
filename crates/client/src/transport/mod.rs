//! Transport: retries, deadlines, middleware, errors, redaction, state of a client, operations that handles share.

pub(crate) mod call;
pub(crate) mod deadline;
pub(crate) mod error;
pub(crate) mod events;
pub(crate) mod middleware;
pub(crate) mod redact;
pub(crate) mod retry;

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use inferstore_api::types::{
    FileUrl, ModelId, ModelVersioning, ServingStatus, TaskCost, TaskDetail, TaskId, TaskPage,
};
use inferstore_api::{ApiKey, operations};
use parking_lot::Mutex;
use reqwest::StatusCode;
use reqwest::header::{DATE, HeaderMap, HeaderName, HeaderValue};
use siphasher::sip128::SipHasher24;
use tokio::time::Instant;

pub(crate) use deadline::Deadline;
pub use error::{
    CallContext, CostLimit, DeadlineReached, Error, ErrorKind, FileError, FileErrorKind, HistoryRead,
    InvalidInputs, OutputMismatch, Resource, Result, TaskDisposition, TaskFailure, UnknownOutcome, Violation,
    ViolationKind,
};
pub use events::{Events, Items, Step};
pub(crate) use events::{Sink, awaited, ignored};
pub(crate) use redact::{MAX_MESSAGE, Redactor, cut, printable_id};
pub use redact::{is_unprintable, json_problem, printable};

use crate::memory::{DeclaredInputs, Memory, name_hasher};
use crate::transport::middleware::HttpStack;
use crate::transport::retry::Retries;

/// Response header of a service that supports idempotency keys, with their minimum retention in seconds.
const KEY_RETENTION: HeaderName = HeaderName::from_static("idempotency-key-retention");

/// Part of the idempotency key retention that is not relied on: clocks of the service may differ.
const RETENTION_MARGIN: Duration = Duration::from_secs(60 * 60);

/// Difference between the clocks of this machine that shows a suspension.
const SUSPENSION: Duration = Duration::from_secs(60);

/// State of a client: its key, and the state shared by clients of the same service with other keys.
pub(crate) struct Core {
    pub(crate) api: inferstore_api::Client,
    pub(crate) redactor: Redactor,
    pub(crate) name_hasher: SipHasher24,
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    /// HTTP stack of object storage: never has the key, and follows no redirect.
    pub(crate) storage: HttpStack,
    pub(crate) base_url: String,
    pub(crate) retries: Retries,
    /// Retry budget of waits, which last as long as an outage and would exhaust the budget of other calls.
    pub(crate) wait_retries: Retries,
    pub(crate) timeouts: Timeouts,
    pub(crate) max_concurrent_uploads: usize,
    pub(crate) memory: Memory,
    pub(crate) announced: Mutex<Announced>,
}

/// Announcements in the headers of the last response of the service.
#[derive(Default)]
pub(crate) struct Announced {
    /// `Date` header, parsed on use, and its time of arrival.
    date: Option<(HeaderValue, Instant, SystemTime)>,
    /// Retention of idempotency keys. `None`: the service does not support them.
    key_retention: Option<HeaderValue>,
}

/// Idle timeouts; none of them limits a whole transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    pub(crate) read: Duration,
    pub(crate) transfer: Duration,
}

impl Core {
    pub(crate) fn with_key(&self, key: ApiKey) -> Self {
        let redactor = self.redactor.with_key(key.expose());
        let name_hasher = name_hasher(key.expose());
        Self { api: self.api.with_key(key), redactor, name_hasher, shared: Arc::clone(&self.shared) }
    }
}

impl Deref for Core {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl Shared {
    /// Returns the time by the clock of the service, once a response has shown it. `None` after a suspension of this
    /// machine, during which its steady clock stands still.
    pub(crate) fn service_time(&self) -> Option<SystemTime> {
        let (date, at, arrived) = self.announced.lock().date.clone()?;
        let elapsed = at.elapsed();
        let is_suspended = arrived.elapsed().is_ok_and(|passed| passed > elapsed + SUSPENSION);
        retry::http_date(&date).filter(|_| !is_suspended)?.checked_add(elapsed)
    }

    /// Returns true if the service still knows an idempotency key of this age.
    pub(crate) fn remembers_key(&self, age: Duration) -> bool {
        self.key_retention().is_some_and(|retention| age.saturating_add(RETENTION_MARGIN) < retention)
    }

    pub(crate) fn key_retention(&self) -> Option<Duration> {
        let seconds = self.announced.lock().key_retention.clone()?;
        seconds.to_str().ok()?.parse().ok().map(Duration::from_secs)
    }

    /// Records the announcements of a response. A success is from the service itself, of which an older version
    /// announces nothing; a failure without an announcement may be from a gateway.
    pub(crate) fn note_response(&self, status: StatusCode, headers: &HeaderMap) {
        let mut announced = self.announced.lock();
        if let Some(date) = headers.get(DATE).filter(|_| status.is_success()) {
            announced.date = Some((date.clone(), Instant::now(), SystemTime::now()));
        }
        let key_retention = headers.get(KEY_RETENTION).cloned();
        if status.is_success() || key_retention.is_some() {
            announced.key_retention = key_retention;
        }
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("base_url", &self.base_url).finish_non_exhaustive()
    }
}

const DECLARATION_TTL: Duration = Duration::from_secs(300);

/// Returns the text as an identifier, unless it would change the path of the request.
pub(crate) fn identifier<Id: From<String>>(what: &str, text: &str) -> Result<Id> {
    let shown = cut(text, 80);
    let invalid =
        |problem: &str| Error::InvalidArgument(format!("{shown:?} cannot be the {what}: {problem}"));
    if text.trim().is_empty() {
        return Err(invalid("it is empty"));
    }
    if matches!(text, "." | "..") {
        return Err(invalid("as a segment of a path it would lead to another operation"));
    }
    Ok(Id::from(text.to_owned()))
}

pub(crate) fn model_id(text: &str) -> Result<ModelId> {
    identifier("identifier of a model", text)
}

pub(crate) fn check_task_id(id: &TaskId) -> Result<()> {
    identifier::<TaskId>("identifier of a task", id.as_str()).map(drop)
}

impl Core {
    pub(crate) async fn get_task(&self, id: &TaskId, deadline: Deadline) -> Result<TaskDetail> {
        check_task_id(id)?;
        self.call(operations::GET_TASK).about(id).until(deadline).send(|api| api.get_task(id)).await
    }

    pub(crate) async fn cancel_task(&self, id: &TaskId, deadline: Deadline) -> Result<()> {
        check_task_id(id)?;
        let call = self.call(operations::CANCEL_TASK).about(id).until(deadline);
        call.send(|api| api.cancel_task(id)).await.map(drop)
    }

    pub(crate) async fn list_tasks(&self, limit: u32, offset: u64, deadline: Deadline) -> Result<TaskPage> {
        let call = self.call(operations::LIST_TASKS).until(deadline);
        call.send(|api| api.list_tasks(Some(limit), Some(offset))).await
    }

    pub(crate) async fn model_cost(&self, id: &ModelId, deadline: Deadline) -> Result<TaskCost> {
        self.call(operations::GET_MODEL_COST).until(deadline).send(|api| api.get_model_cost(id)).await
    }

    pub(crate) async fn model_serving(&self, id: &ModelId, deadline: Deadline) -> Result<ServingStatus> {
        self.call(operations::GET_MODEL_SERVING).until(deadline).send(|api| api.get_model_serving(id)).await
    }

    pub(crate) async fn versioning(&self, id: &ModelId, deadline: Deadline) -> Result<ModelVersioning> {
        let call = self.call(operations::GET_MODEL_VERSIONING).until(deadline);
        let version = call.send(|api| api.get_model_versioning(id)).await?;
        let declared = version.input_format.clone().unwrap_or_default();
        self.memory.declarations.insert(id.clone(), DeclaredInputs::new(declared));
        Ok(version)
    }

    pub(crate) fn cached_declaration(&self, id: &ModelId) -> Option<DeclaredInputs> {
        self.memory.declarations.get(id, DECLARATION_TTL)
    }

    pub(crate) async fn delete_file(&self, download_url: &str, deadline: Deadline) -> Result<()> {
        let file = FileUrl::new(download_url);
        self.call(operations::DELETE_FILE).until(deadline).send(|api| api.delete_file(&file)).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_that_changes_the_path_is_an_error() {
        for text in ["", " ", ".", ".."] {
            assert!(identifier::<TaskId>("identifier of a task", text).is_err(), "{text:?}");
        }
        for text in ["a", "...", "a/b", "ä", "a b"] {
            let id = identifier::<TaskId>("identifier of a task", text);
            assert_eq!(id.ok().as_ref().map(TaskId::as_str), Some(text));
        }
    }
}
