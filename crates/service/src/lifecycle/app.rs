//! What every part of a running service shares.

use std::sync::Arc;

use inferstore_fetch::Fetcher;
use inferstore_server::Server;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::clock::Clock;
#[cfg(feature = "controls")]
use crate::controls::Tester;
use crate::database::Database;
use crate::http::account_limit::{AccountLimit, RateLimit};
use crate::lifecycle::config::Config;
use crate::lifecycle::folder::Folder;
use crate::lifecycle::parts::Parts;
use crate::nodes::{Dispatcher, LocalNode};
use crate::object_storage::Objects;
use crate::operations::metrics::Metrics;
use crate::random::Randomness;

/// What every part of a running service shares.
pub(crate) struct App {
    pub(crate) config: Config,
    pub(crate) parts: Parts,
    pub(crate) clock: Clock,
    pub(crate) random: Randomness,
    pub(crate) database: Arc<dyn Database>,
    pub(crate) objects: Arc<Objects>,
    pub(crate) fetcher: Fetcher,
    pub(crate) metrics: Metrics,
    /// The node in this process.
    pub(crate) node: LocalNode,
    /// Slots of all nodes that wait for a task.
    pub(crate) dispatcher: Dispatcher,
    /// The controls for testers, where they are on.
    #[cfg(feature = "controls")]
    pub(crate) tester: Option<Arc<Tester>>,
    /// Limits that all listeners share.
    pub(crate) server: Server,
    /// Requests of the API in progress.
    pub(crate) requests: Arc<Semaphore>,
    /// Requests of the API in progress, by account.
    pub(crate) account_requests: AccountLimit,
    /// Downloads in progress. Anyone who has one URL can begin them.
    pub(crate) downloads: Arc<Semaphore>,
    /// Uploads in progress, by account.
    pub(crate) uploads: AccountLimit,
    /// Requests of the operator in progress.
    pub(crate) admin_requests: TaskTracker,
    /// The limit on requests per second, where there is one.
    pub(crate) request_rate: Option<RateLimit>,
    /// Locked until the last task that may write has ended, or the service has ended in order.
    pub(crate) folder: Folder,
}

impl App {
    /// Reports that a task of the model was queued: to the slots that wait in this process, and to other processes.
    pub(crate) fn task_queued(&self, model: &str) {
        self.dispatcher.task_queued(model);
        self.database.announce_queued(model);
    }
}
