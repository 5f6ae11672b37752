//! Reset: back to the state after the start of the service and the last load of fixtures.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Controls;
use crate::Error;
use crate::database::Database;
use crate::object_storage::Objects;

/// What a reset goes back to: a copy of the database without files, and the folders of the fixtures, whose
/// files are stored anew.
pub(super) struct InitialState {
    database: Arc<dyn Database>,
    copy: PathBuf,
    kept: tokio::sync::Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    clock_ahead: i64,
    random_position: Option<u64>,
    fixtures: Vec<PathBuf>,
}

impl InitialState {
    pub(super) fn new(data: &Path, database: Arc<dyn Database>) -> Self {
        Self { database, copy: data.join("initial-state.db"), kept: tokio::sync::Mutex::default() }
    }
}

impl Controls {
    /// Back to a fresh start: tasks, files and money are as they were when the service started, or after
    /// the last load of fixtures; accounts, keys and models too. Files that are no fixtures are deleted.
    /// There are no faults and no scripts, the journal is empty, the node is up, and the clock is right.
    /// Requests continue meanwhile.
    ///
    /// # Errors
    /// When the database or the files of the fixtures cannot be used.
    pub async fn reset(&self) -> Result<(), Error> {
        let (tester, app) = (&self.tester, &self.app);
        let kept = tester.initial.kept.lock().await;
        tester.faults.reset();
        tester.switch.scripts.clear();
        let mut node = tester.switch.pause().await;
        node.set_up(true);
        node.interrupt();
        let unneeded = tester.initial.database.replace_from(&tester.initial.copy).await?;
        app.clock.set_ahead(kept.clock_ahead);
        if let Some(position) = kept.random_position {
            app.random.go_on_from(position);
        }
        drop(node);
        app.node.heartbeat(app).await?;
        app.dispatcher.look_for_all();
        // No row names these blobs, so the reset does not wait until they are deleted.
        tokio::spawn(delete_blobs(Arc::clone(&app.objects), unneeded));
        for folder in &kept.fixtures {
            self.load_files(folder).await?;
        }
        tester.journal.clear();
        Ok(())
    }

    /// Keeps the present state as the one that a reset goes back to.
    pub(crate) async fn start_from_here(&self) -> Result<(), Error> {
        let initial = &self.tester.initial;
        self.keep(&mut *initial.kept.lock().await).await
    }

    /// The same, with one more folder whose files a reset stores anew.
    pub(super) async fn keep_initial_state(&self, fixtures: &Path) -> Result<(), Error> {
        let mut kept = self.tester.initial.kept.lock().await;
        if !kept.fixtures.iter().any(|folder| folder == fixtures) {
            kept.fixtures.push(fixtures.to_owned());
        }
        self.keep(&mut kept).await
    }

    async fn keep(&self, kept: &mut Kept) -> Result<(), Error> {
        let initial = &self.tester.initial;
        match std::fs::remove_file(&initial.copy) {
            Err(cause) if cause.kind() != ErrorKind::NotFound => {
                return Err(Error::new("keeping the initial state", cause));
            }
            _ => {}
        }
        initial.database.backup_to(&initial.copy).await?;
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
