//! The parts of a running service: what its start spawns, its stop ends, and its shutdown waits for.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};

use futures_util::FutureExt as _;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::{Error, Result};

/// The parts of a running service.
#[derive(Default)]
pub(crate) struct Parts {
    /// Cancelled when the service ends.
    pub(crate) stop: CancellationToken,
    pub(super) running: TaskTracker,
    panicked: Arc<OnceLock<&'static str>>,
}

impl Parts {
    /// Runs a part that ends by itself after the stop.
    pub(crate) fn spawn<F>(&self, name: &'static str, work: F) -> JoinHandle<()>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let panicked = Arc::clone(&self.panicked);
        self.running.spawn(async move {
            if AssertUnwindSafe(work).catch_unwind().await.is_err() {
                tracing::error!(
                    part = name,
                    "a part of the service has panicked; the service needs a restart"
                );
                let _ = panicked.set(name);
            }
        })
    }

    /// Runs a part that the stop ends at once.
    pub(crate) fn spawn_until_stop<F>(&self, name: &'static str, work: F)
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.spawn(name, self.stop.clone().run_until_cancelled_owned(work));
    }

    /// Runs work in a task of its own, to its end also when the client hangs up and hyper drops the handler. A shutdown
    /// waits for it.
    pub(crate) async fn run_to_end<T: Send + 'static>(
        &self,
        doing: &str,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T> {
        self.running.spawn(work.in_current_span()).await.map_err(|cause| Error::new(doing, cause))
    }

    /// The first part that has panicked. The others go on without it.
    pub(crate) fn panicked(&self) -> Option<&'static str> {
        self.panicked.get().copied()
    }
}
