//! Background tasks of a running service: the start spawns them, the stop ends them, and the shutdown waits for them.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};

use futures_util::FutureExt as _;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::folder::Folder;
use crate::{Error, Result};

/// Handle of the background tasks. Each handle holds the lock of the data folder, because its owner may write there;
/// the lock is released at the last of them, or when a graceful shutdown completes.
#[derive(Clone)]
pub(crate) struct BackgroundTasks {
    pub(crate) stop: CancellationToken,
    pub(crate) running: TaskTracker,
    panicked: Arc<OnceLock<&'static str>>,
    pub(crate) folder: Arc<Folder>,
}

impl BackgroundTasks {
    pub(crate) fn new(folder: Folder) -> Self {
        Self {
            stop: CancellationToken::new(),
            running: TaskTracker::new(),
            panicked: Arc::default(),
            folder: Arc::new(folder),
        }
    }

    /// Spawns a task that ends by itself after the stop.
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

    pub(crate) fn spawn_until_stop<F>(&self, name: &'static str, work: F)
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.spawn(name, self.stop.clone().run_until_cancelled_owned(work));
    }

    /// Runs work to completion even if hyper drops the handler of its client; the shutdown waits for the work.
    pub(crate) async fn run_to_end<T: Send + 'static>(
        &self,
        doing: &str,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T> {
        self.running.spawn(work.in_current_span()).await.map_err(|cause| Error::new(doing, cause))
    }

    pub(crate) fn panicked(&self) -> Option<&'static str> {
        self.panicked.get().copied()
    }
}
