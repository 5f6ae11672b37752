//! Reset: back to the baseline, which is the state after the start of the service unless a test sets another one.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Controls;
use crate::database::Database;
use crate::object_storage::Objects;
use crate::{Error, Result};

/// What a reset goes back to: a copy of the database without files.
pub(super) struct Baseline {
    database: Arc<dyn Database>,
    copy: PathBuf,
    kept: tokio::sync::Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    clock_ahead: i64,
    random_position: Option<u64>,
}

impl Baseline {
    pub(super) fn new(data: &Path, database: Arc<dyn Database>) -> Self {
        Self { database, copy: data.join("baseline.db"), kept: tokio::sync::Mutex::default() }
    }
}

impl Controls {
    /// Back to a fresh start: accounts, keys, models, tasks and money are as they were when the service started, or
    /// at the last `set_baseline`. Files are deleted. There are no faults and no scripts, the journal is empty, the node is up, and the clock is right.
    /// Requests continue meanwhile.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn reset(&self) -> Result<()> {
        let (tester, app) = (&self.tester, &self.app);
        let kept = tester.baseline.kept.lock().await;
        tester.faults.reset();
        tester.switch.scripts.clear();
        let mut node = tester.switch.pause().await;
        node.is_up = true;
        node.interrupt();
        let unneeded = tester.baseline.database.replace_from(&tester.baseline.copy).await?;
        app.clock.set_ahead(kept.clock_ahead);
        if let Some(position) = kept.random_position {
            app.random.go_on_from(position);
        }
        drop(node);
        app.node.heartbeat(app).await?;
        app.dispatcher.look_for_all();
        // No row names these blobs, so the reset does not wait until they are deleted.
        tokio::spawn(delete_blobs(Arc::clone(&app.objects), unneeded));
        tester.journal.clear();
        Ok(())
    }

    /// Makes the present state the one that a reset goes back to, without files.
    ///
    /// # Errors
    /// When the database cannot be copied.
    pub async fn set_baseline(&self) -> Result<()> {
        let baseline = &self.tester.baseline;
        let mut kept = baseline.kept.lock().await;
        match std::fs::remove_file(&baseline.copy) {
            Err(cause) if cause.kind() != ErrorKind::NotFound => {
                return Err(Error::new("setting the baseline", cause));
            }
            _ => {}
        }
        baseline.database.backup_to(&baseline.copy).await?;
        kept.clock_ahead = self.app.clock.ahead();
        kept.random_position = self.app.random.position();
        Ok(())
    }
}

async fn delete_blobs(objects: Arc<Objects>, blobs: Vec<String>) {
    for blob in blobs {
        objects.delete_blob(&blob).await;
    }
}
