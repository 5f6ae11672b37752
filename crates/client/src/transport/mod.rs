//! Sending requests: retries, deadlines, middleware, errors, redaction of foreign text, and what all
//! handles of a client share.

pub(crate) mod call;
pub(crate) mod causes;
pub(crate) mod deadline;
pub(crate) mod error;
pub(crate) mod events;
pub(crate) mod middleware;
pub(crate) mod redact;
pub(crate) mod retry;

use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use tokio::sync::Semaphore;
use tokio::time::Instant;

pub(crate) use deadline::Deadline;
pub(crate) use error::shown;
pub use error::{
    CallContext, CostLimit, DeadlineReached, Error, ModelOffline, OutputMismatch, Result, TaskDisposition,
    TaskFailure, UnknownOutcome,
};
pub use events::{Events, Items};
pub(crate) use events::{Lazy, Sink, ignored};

use crate::memory::{Memory, lock};
use crate::transport::middleware::HttpStack;
use crate::transport::redact::Redactor;
use crate::transport::retry::Retries;

/// What all handles of a client share.
pub(crate) struct Core {
    /// The generated client, which carries the key.
    pub(crate) api: inferstore_api::Client,
    /// For object storage: it never sees the key, and follows no redirect.
    pub(crate) storage: HttpStack,
    pub(crate) base_url: String,
    pub(crate) redactor: Redactor,
    pub(crate) retries: Retries,
    /// Those of waits, which last as long as an outage and would use up the budget of every other call.
    pub(crate) wait_retries: Retries,
    pub(crate) timeouts: Timeouts,
    /// How long declared inputs are cached.
    pub(crate) declaration_ttl: Duration,
    pub(crate) max_concurrent_uploads: usize,
    pub(crate) built: Instant,
    /// One permit for each concurrent request.
    pub(crate) requests: Semaphore,
    pub(crate) memory: Memory,
    /// The clock of the service, and when a response showed it last.
    pub(crate) clock: Mutex<Option<(SystemTime, Instant)>>,
}

/// Timeouts of silence; none of them limits a whole transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// The longest gap between two reads of a response.
    pub(crate) read: Duration,
    /// The longest pause of an upload or a download.
    pub(crate) transfer: Duration,
}

impl Core {
    /// The time by the clock of the service, once a response has shown it.
    pub(crate) fn service_time(&self) -> Option<SystemTime> {
        let (shown, at) = (*lock(&self.clock))?;
        shown.checked_add(at.elapsed())
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("base_url", &self.base_url).finish_non_exhaustive()
    }
}
