//! State that all parts of a running service share.

use std::sync::Arc;

use inferstore_fetch::Fetcher;
use inferstore_server::Server;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::accounts::AccountId;
use crate::clock::Clock;
#[cfg(feature = "controls")]
use crate::controls::Tester;
use crate::database::Database;
use crate::http::share_limit::{RateLimit, ShareLimit};
use crate::lifecycle::config::Config;
use crate::lifecycle::folder::Folder;
use crate::lifecycle::parts::Parts;
use crate::nodes::{Dispatcher, LocalNode};
use crate::object_storage::Objects;
use crate::operations::metrics::Metrics;
use crate::random::Randomness;

pub(crate) struct App {
    pub(crate) config: Config,
    pub(crate) parts: Parts,
    pub(crate) clock: Clock,
    pub(crate) random: Randomness,
    pub(crate) database: Arc<dyn Database>,
    pub(crate) objects: Arc<Objects>,
    pub(crate) fetcher: Fetcher,
    pub(crate) metrics: Metrics,
    pub(crate) node: LocalNode,
    /// Slots of all nodes that wait for a task.
    pub(crate) dispatcher: Dispatcher,
    #[cfg(feature = "controls")]
    pub(crate) tester: Option<Arc<Tester>>,
    pub(crate) server: Server,
    /// Permits for concurrent API requests: backpressure by 503.
    pub(crate) requests: Arc<Semaphore>,
    pub(crate) account_requests: ShareLimit<AccountId>,
    /// Permits for concurrent downloads by bucket and key, because a client needs only a URL to start them.
    pub(crate) downloads: ShareLimit<(String, String)>,
    pub(crate) uploads: ShareLimit<AccountId>,
    /// Permits for concurrent output files by task and attempt.
    pub(crate) node_files: ShareLimit<(String, i64)>,
    pub(crate) admin_requests: TaskTracker,
    /// Rate limit of one account, if configured.
    pub(crate) request_rate: Option<RateLimit>,
    /// Lock of the data folder, held until the last task that may write has ended or a graceful shutdown completes.
    pub(crate) folder: Folder,
}

impl App {
    /// Announces a queued task to the waiting slots of this process and to the other processes.
    pub(crate) fn task_queued(&self, model: &str) {
        self.dispatcher.task_queued(model);
        self.database.announce_queued(model);
    }
}
