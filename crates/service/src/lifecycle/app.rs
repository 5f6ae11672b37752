//! What every part of a running service shares.

use std::sync::Arc;

use inferstore_fetch::Fetcher;
use tokio::sync::{Notify, Semaphore};

use crate::clock::Clock;
use crate::controls::{Scripts, Tester};
use crate::database::Database;
use crate::http::account_limit::{AccountLimit, RateLimit};
use crate::http::connections::Connections;
use crate::lifecycle::config::Config;
use crate::nodes::LocalNode;
use crate::object_storage::Objects;
use crate::operations::metrics::Metrics;
use crate::random::Randomness;

/// What every part of a running service shares.
pub(crate) struct App {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) random: Randomness,
    pub(crate) database: Arc<dyn Database>,
    pub(crate) objects: Arc<Objects>,
    pub(crate) fetcher: Fetcher,
    pub(crate) metrics: Metrics,
    /// Whether the node in this process works.
    pub(crate) node: LocalNode,
    /// What testers want of models instead of running them.
    pub(crate) scripts: Scripts,
    /// The controls for testers, where they are on.
    pub(crate) tester: Option<Arc<Tester>>,
    /// The open connections of all listeners.
    pub(crate) connections: Arc<Connections>,
    /// Requests of the API in progress.
    pub(crate) requests: Semaphore,
    /// Requests of the API in progress, by account.
    pub(crate) account_requests: AccountLimit,
    /// Uploads in progress, by account.
    pub(crate) uploads: AccountLimit,
    /// The limit on requests per second, where there is one.
    pub(crate) request_rate: Option<RateLimit>,
    /// Rings for one worker of this process when there may be a task for it.
    pub(crate) local_wakeup: Notify,
    /// Rings for every node outside the process that waits for a task: which of them runs the model, only
    /// the queue can tell.
    pub(crate) remote_wakeup: Notify,
}

impl App {
    /// Says that there may be a task to claim.
    pub(crate) fn notify_task_queued(&self) {
        self.local_wakeup.notify_one();
        self.remote_wakeup.notify_waiters();
    }
}
