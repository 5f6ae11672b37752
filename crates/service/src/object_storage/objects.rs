//! The object store of one service: what it is called, where its bytes are, how other parts of the
//! service reach them.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use jiff::Timestamp;
use tokio::fs::File;
use tokio_util::sync::CancellationToken;

use super::backup::Backups;
use super::blobs::{Blobs, Bytes, Whole};
use super::s3_api::edge;
use super::{Object, Target, location};
use crate::Error;
use crate::database::Database;
use crate::database::sqlite::Durability;
use crate::lifecycle::app::App;
use crate::object_storage::s3_api::sign::{Presigned, Signer};

/// How often unneeded blobs and targets are looked for.
const SWEEP: Duration = Duration::from_secs(60 * 60);
/// How old a blob must be before the lack of a row means that it is unneeded: an upload has its row
/// moments after its last byte.
const YOUNG: Duration = Duration::from_secs(60 * 60);

/// The object store of one service.
pub(crate) struct Objects {
    url: String,
    signer: Signer,
    blobs: Arc<Blobs>,
    database: Arc<dyn Database>,
    pub(super) backups: Backups,
}

/// An object, opened: it can be read to its end even when it is deleted meanwhile.
pub(crate) struct OpenObject {
    pub(crate) object: Object,
    pub(crate) file: File,
}

impl Objects {
    /// Opens the folder of blobs. `url` is the address that others reach the object store at, and
    /// `secret` signs upload targets.
    pub(crate) fn open(
        folder: &Path,
        durability: Durability,
        database: Arc<dyn Database>,
        url: String,
        secret: String,
    ) -> Result<Self, Error> {
        let blobs = Arc::new(Blobs::open(folder, durability)?);
        let signer = Signer::new(url.clone(), secret);
        Ok(Self { signer, url, blobs, database, backups: Backups::default() })
    }

    /// The address that others reach the object store at.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The permanent URL of an object.
    pub(crate) fn download_url(&self, bucket: &str, key: &str) -> String {
        format!("{}{}", self.url, location::path(bucket, key))
    }

    /// The bucket and key behind a download URL of ours, in whichever way its characters are escaped.
    pub(crate) fn locate(&self, url: &str) -> Option<(String, String)> {
        location::read(url.strip_prefix(&self.url)?)
    }

    /// Serves the object store.
    pub(crate) fn router(app: &Arc<App>) -> Router {
        edge::router(app)
    }

    /// Signs a target for so long.
    pub(crate) fn presign(&self, target: &Target, life: Duration) -> Result<Presigned, Error> {
        self.signer.presign(target, life, Timestamp::now())
    }

    /// Opens an object; None when there is none with this key.
    pub(crate) async fn read(&self, bucket: &str, key: &str) -> Result<Option<OpenObject>, Error> {
        // A blob can be gone when its object was replaced after its row was read. Then there is a new row.
        for _ in 0..3 {
            let Some(object) = self.database.object(bucket, key).await? else { return Ok(None) };
            if let Some(file) = self.blobs.read(&object.blob).await? {
                return Ok(Some(OpenObject { object, file }));
            }
        }
        Err(Error::new("opening an object", "its bytes are missing"))
    }

    /// Stores what a model produced and returns its permanent URL.
    pub(crate) async fn store_output(
        &self,
        app: &App,
        bucket: &str,
        key: &str,
        mime: &str,
        bytes: impl Into<Bytes>,
    ) -> Result<String, Error> {
        let mut incoming = self.blobs.begin()?;
        incoming.write(bytes.into()).await?;
        let whole = incoming.finish().await?;
        self.keep_output(app, bucket, key, mime, whole).await
    }

    /// Gives an output that has come in whole its place, and returns its permanent URL.
    pub(super) async fn keep_output(
        &self,
        app: &App,
        bucket: &str,
        key: &str,
        mime: &str,
        whole: Whole,
    ) -> Result<String, Error> {
        let object = Object {
            bucket: bucket.to_owned(),
            key: key.to_owned(),
            blob: whole.name.clone(),
            mime: mime.to_owned(),
            size: whole.size,
            etag: whole.etag.clone(),
            created_at: app.clock.now(),
        };
        let blobs = Arc::clone(&self.blobs);
        let kept = tokio::task::spawn_blocking(move || blobs.keep(&whole)).await;
        kept.map_err(|cause| Error::new("storing an output", cause))??;
        if let Some(unneeded) = self.database.store_output(&app.random.uuid()?, &object).await? {
            self.delete_blob(&unneeded).await;
        }
        Ok(self.download_url(bucket, key))
    }

    /// Removes a blob that no object refers to any more; while a backup runs, it is left to the sweep.
    pub(crate) async fn delete_blob(&self, name: &str) {
        if self.backups.are_running() {
            return;
        }
        let (blobs, name) = (Arc::clone(&self.blobs), name.to_owned());
        let _ = tokio::task::spawn_blocking(move || blobs.remove(&name)).await;
    }

    /// Looks for blobs and targets that nobody needs, now and then, until the service ends.
    pub(crate) async fn tend(app: Arc<App>, stop: CancellationToken) {
        // What this process has not written is as old as it needs to be.
        let mut then = app.objects.blobs.opened();
        loop {
            let swept = stop.run_until_cancelled(app.objects.sweep(&app, then)).await;
            if let Some(Err(cause)) = swept {
                tracing::error!(%cause, "looking for unneeded blobs failed");
            }
            if stop.run_until_cancelled(tokio::time::sleep(SWEEP)).await.is_none() {
                return;
            }
            then = SystemTime::now().checked_sub(YOUNG).unwrap_or(SystemTime::UNIX_EPOCH);
        }
    }

    async fn sweep(&self, app: &App, then: SystemTime) -> Result<(), Error> {
        let doing = "looking for unneeded blobs";
        let blobs = Arc::clone(&self.blobs);
        let names = tokio::task::spawn_blocking(move || blobs.older_than(then)).await;
        let names = names.map_err(|cause| Error::new(doing, cause))?;
        let mut swept = 0_u64;
        for name in names.map_err(|cause| Error::new(doing, cause))? {
            if !self.database.has_blob(&name).await? {
                self.delete_blob(&name).await;
                swept += 1;
            }
        }
        // Expired ones are refused by their signature; a day is for clocks that disagree.
        let long_ago = app.clock.now().before(Duration::from_secs(24 * 60 * 60));
        let forgotten = self.database.forget_targets(long_ago).await?;
        tracing::debug!(swept, forgotten, "unneeded blobs and targets are gone");
        Ok(())
    }

    pub(super) fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    pub(super) const fn signer(&self) -> &Signer {
        &self.signer
    }
}
