//! What every part of a running service shares.

use std::sync::Arc;

use tokio::sync::{Notify, Semaphore};

use crate::clock::Clock;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::nodes::Fetcher;
use crate::random::Randomness;
use crate::storage::Objects;
use crate::store::Store;

/// What every part of a running service shares.
pub(crate) struct App {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) random: Randomness,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) objects: Objects,
    pub(crate) fetcher: Fetcher,
    pub(crate) metrics: Metrics,
    /// How many more requests may be worked on.
    pub(crate) requests: Semaphore,
    /// Rings when a task was put into the queue.
    pub(crate) work: Notify,
}
