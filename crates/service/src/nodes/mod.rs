//! Nodes claim tasks by lease, run them, and report their results. External nodes use the node API.

mod claim_loop;
mod dispatcher;
mod inputs;
mod local_node;
pub(crate) mod log;
#[cfg(unix)]
mod model_processes;
mod node_api;
mod outside;
mod run;
#[cfg(unix)]
mod run_folder;
#[cfg(feature = "controls")]
mod scripts;
#[cfg_attr(not(feature = "controls"), path = "no_switch.rs")]
mod switch;
#[cfg(test)]
mod tests;
mod worker_shares;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use claim_loop::start;
pub(crate) use dispatcher::{Dispatcher, release_unwanted};
pub(crate) use local_node::LocalNode;
pub(crate) use node_api::router;
#[cfg(feature = "controls")]
pub use scripts::{Script, Then};
pub(crate) use switch::Switch;

use inferstore_fetch::Fetcher;

use crate::Result;
use crate::background::BackgroundTasks;
use crate::clock::Clock;
use crate::config::Limits;
use crate::database::Database;
use crate::http::share_limit::ShareLimit;
use crate::metrics::Metrics;
use crate::object_storage::Objects;
use crate::random::Randomness;
use crate::telemetry::Spans;
use dispatcher::DispatchedTask;

/// Name of the local node of a process with its own database. The lock of the data folder excludes a second such node.
const NODE: &str = "local";

pub(crate) const OUTPUTS: &str = "outputs";

const RETRY_INTERVAL: Duration = Duration::from_millis(500);

pub(crate) fn local_name(database: &dyn Database, random: &Randomness) -> Result<String> {
    if database.is_shared() {
        return Ok(format!("{NODE}-{}", random.word(12)?));
    }
    Ok(NODE.to_owned())
}

pub(crate) struct Nodes {
    pub(crate) database: Arc<dyn Database>,
    pub(crate) clock: Clock,
    pub(crate) random: Randomness,
    pub(crate) objects: Arc<Objects>,
    pub(crate) background: BackgroundTasks,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) spans: Arc<Spans>,
    pub(crate) fetcher: Fetcher,
    pub(crate) local: LocalNode,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) files: ShareLimit<(String, i64)>,
    pub(crate) lease: Duration,
    pub(crate) lease_attempts: i64,
    pub(crate) workers: usize,
    pub(crate) shutdown_timeout: Duration,
    pub(crate) limits: Limits,
}

impl Nodes {
    pub(crate) async fn heartbeat(&self) -> Result<()> {
        self.local.heartbeat(&*self.database, self.clock.now()).await
    }

    pub(crate) async fn deregister(&self) -> Result<()> {
        self.local.deregister(&*self.database, self.clock.now()).await
    }

    /// Reads the models of external nodes. The local node runs the tasks of models that lost their last such node.
    async fn refresh_outside(&self) -> Result<()> {
        let since = self.clock.now().before(self.lease);
        if self.local.outside.refresh(&*self.database, since).await? {
            self.dispatcher.look_for_all();
        }
        Ok(())
    }
}
