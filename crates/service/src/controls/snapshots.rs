//! Back to a fresh start, and back to any moment that was kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Controls;
use crate::Error;
use crate::database::sqlite::{SqliteDatabase, renamed};
use crate::lifecycle::app::App;
use crate::object_storage::Objects;
use crate::random::Randomness;

/// The snapshot that a reset goes back to. No name that a tester gives begins with a dot.
const FRESH: &str = ".fresh";
const DATABASE: &str = "database";
const ABOUT: &str = "about.json";
const BLOBS: &str = "blobs";

/// The folder of snapshots: one folder each, with a copy of the database and a link to every blob.
pub(super) struct Snapshots {
    folder: PathBuf,
    database: SqliteDatabase,
    /// One after the other: whoever takes one back finds it whole.
    turn: tokio::sync::Mutex<()>,
    /// Names of blobs never repeat, not even with the seed of a test.
    random: Randomness,
}

/// What a snapshot keeps beside the database.
#[derive(Serialize, Deserialize)]
struct About {
    clock_ahead: i64,
    random: Option<u64>,
}

impl Snapshots {
    pub(super) fn new(data: &Path, database: SqliteDatabase) -> Self {
        let folder = data.join("snapshots");
        Self { folder, database, turn: tokio::sync::Mutex::default(), random: Randomness::new(None) }
    }

    async fn keep(&self, app: &App, name: &str) -> Result<(), Error> {
        let _turn = self.turn.lock().await;
        let doing = |cause| Error::new("keeping a snapshot", cause);
        let begun = self.folder.join(".begun");
        let place = self.folder.join(name);
        remove(&begun).map_err(doing)?;
        fs::create_dir_all(begun.join(BLOBS)).map_err(doing)?;
        let (objects, links) = (Arc::clone(&app.objects), begun.join(BLOBS));
        let link = move |blobs: Vec<String>| -> Result<(), Error> {
            blobs.iter().try_for_each(|blob| objects.lend_blob(blob, &links.join(blob)))
        };
        self.database.copy_into(&begun.join(DATABASE), link).await?;
        let about = About { clock_ahead: app.clock.ahead(), random: app.random.position() };
        let about = serde_json::to_vec(&about).map_err(|cause| Error::new("keeping a snapshot", cause))?;
        fs::write(begun.join(ABOUT), about).map_err(doing)?;
        remove(&place).map_err(doing)?;
        fs::rename(&begun, &place).map_err(doing)
    }

    async fn take_back(&self, app: &Arc<App>, name: &str) -> Result<(), Error> {
        let doing = |cause| Error::new("taking back a snapshot", cause);
        let _turn = self.turn.lock().await;
        let place = self.folder.join(name);
        let about = fs::read(place.join(ABOUT)).map_err(doing)?;
        let about: About = serde_json::from_slice(&about)
            .map_err(|cause| Error::new("reading what a snapshot says of itself", cause))?;
        let word = self.random.word(12)?;
        let blobs = SqliteDatabase::blobs_of(&place.join(DATABASE)).await?;
        let (objects, from, suffix) = (Arc::clone(&app.objects), place.join(BLOBS), word.clone());
        let linked = tokio::task::spawn_blocking(move || {
            blobs.iter().try_for_each(|blob| objects.take_blob(&from.join(blob), &renamed(blob, &suffix)))
        });
        linked.await.map_err(|cause| Error::new("taking back a snapshot", cause))??;
        let mut node = app.node.pause().await;
        node.interrupt();
        let unneeded = self.database.replace_from(&place.join(DATABASE), &word).await?;
        app.clock.set_ahead(about.clock_ahead);
        if let Some(position) = about.random {
            app.random.go_on_from(position);
        }
        drop(node);
        app.node.heartbeat(app).await?;
        app.dispatcher.look_for_all();
        // Nothing refers to them, and nobody waits for them to go.
        tokio::spawn(remove_blobs(Arc::clone(&app.objects), unneeded));
        Ok(())
    }
}

async fn remove_blobs(objects: Arc<Objects>, blobs: Vec<String>) {
    for blob in blobs {
        objects.delete_blob(&blob).await;
    }
}

/// Removes a folder, if it is there.
fn remove(folder: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => Err(cause),
        _ => Ok(()),
    }
}

/// Whether snapshots may have this name: it becomes the name of a folder.
fn check(name: &str) -> Result<(), Error> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if (1..=64).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(fits) {
        return Ok(());
    }
    let cause = "a name has 1 to 64 letters, digits, dots, dashes and underscores, and begins with no dot";
    Err(Error::new("naming a snapshot", cause))
}

impl Controls {
    /// Back to a fresh start: tasks, files and money are as they were when the service started, or after
    /// the last seed; accounts, keys and models too. There are no faults and no scripts, the journal is
    /// empty, the node is up, and the clock is right. Requests go on meanwhile.
    ///
    /// # Errors
    /// When the database or the folder of snapshots cannot be used.
    pub async fn reset(&self) -> Result<(), Error> {
        let tester = self.tester();
        tester.faults.reset();
        self.tester().scripts.clear();
        self.app.node.pause().await.set_up(true);
        tester.snapshots.take_back(&self.app, FRESH).await?;
        tester.journal.clear();
        Ok(())
    }

    /// Keeps everything that is stored, and the clock, under a name; one that is taken is replaced.
    ///
    /// # Errors
    /// When the name cannot be one, or the folder of snapshots cannot be written.
    pub async fn snapshot(&self, name: &str) -> Result<(), Error> {
        check(name)?;
        self.tester().snapshots.keep(&self.app, name).await
    }

    /// What a reset goes back to, from now on, is what there is now.
    pub(crate) async fn keep_fresh(&self) -> Result<(), Error> {
        self.tester().snapshots.keep(&self.app, FRESH).await
    }

    /// Back to a snapshot: what is stored, and the clock. Faults, scripts, the node and the journal stay.
    /// Tasks that were being computed then begin anew.
    ///
    /// # Errors
    /// When there is no such snapshot, or another version of the service wrote it.
    pub async fn restore(&self, name: &str) -> Result<(), Error> {
        check(name)?;
        self.tester().snapshots.take_back(&self.app, name).await
    }

    /// The names of the snapshots.
    ///
    /// # Errors
    /// When their folder cannot be read.
    pub fn snapshots(&self) -> Result<Vec<String>, Error> {
        let read = || {
            let mut names = Vec::new();
            for entry in fs::read_dir(&self.tester().snapshots.folder)? {
                names.extend(entry?.file_name().into_string().ok().filter(|name| !name.starts_with('.')));
            }
            names.sort();
            Ok(names)
        };
        read().map_err(|cause: std::io::Error| Error::new("listing the snapshots", cause))
    }

    /// Removes a snapshot; false when there is none with this name.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub async fn forget_snapshot(&self, name: &str) -> Result<bool, Error> {
        check(name)?;
        let snapshots = &self.tester().snapshots;
        let _turn = snapshots.turn.lock().await;
        let place = snapshots.folder.join(name);
        let was_there = place.exists();
        remove(&place).map_err(|cause| Error::new("forgetting a snapshot", cause))?;
        Ok(was_there)
    }

    pub(super) fn has_snapshot(&self, name: &str) -> bool {
        check(name).is_ok() && self.tester().snapshots.folder.join(name).exists()
    }
}
