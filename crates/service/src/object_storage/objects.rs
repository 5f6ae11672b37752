//! The object store of one service: where its objects are, and how other parts of the service reach them.

use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use tokio::time::Instant;

use super::blobs::{Blobs, Bucket, ByteStream, OpenBlob, OpenedBlobs, S3};
use super::location::{self, Locations};
use super::s3_api::{Presigned, Signer, Upload};
use super::shared_look::SharedLook;
use super::unsigned_forms::UnsignedForms;
use super::{Object, Target, TargetsOf};
use crate::accounts::AccountId;
use crate::clock::Clock;
use crate::database::Database;
use crate::lifecycle::app::App;
use crate::random::Randomness;
use crate::{Error, Result};

/// The object store of one service.
pub(crate) struct Objects {
    pub(crate) locations: Locations,
    pub(super) signer: Signer,
    pub(super) blobs: Arc<dyn Blobs>,
    pub(super) database: Arc<dyn Database>,
    /// Forms whose fields are being read.
    pub(super) unsigned_forms: UnsignedForms,
    /// Cloned by each backup that runs.
    deletions: Arc<()>,
    pub(super) shared_look: SharedLook,
    clock: Clock,
}

/// An object that can be read to its end, even when it is deleted meanwhile.
pub(crate) struct OpenObject {
    pub(crate) object: Object,
    blob: OpenBlob,
}

impl OpenObject {
    /// Reads a range of the bytes.
    pub(crate) fn read(self, range: Range<u64>) -> ByteStream {
        (self.blob)(range)
    }

    /// Reads all bytes.
    pub(crate) async fn bytes(self) -> Result<Vec<u8>> {
        let size = self.object.size;
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        let doing = "reading a stored file";
        let failed = |cause: io::Error| match cause.kind() {
            ErrorKind::ConnectionReset => Error::unavailable(doing, cause),
            _ => Error::new(doing, cause),
        };
        let mut chunks = self.read(0..size);
        while let Some(chunk) = chunks.try_next().await.map_err(failed)? {
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }
}

impl Objects {
    /// `address` is where others reach the object store, without a slash at its end; the newest known one if there is
    /// none. At most `max_unsigned_forms` are read at once.
    pub(crate) async fn open(
        blobs: OpenedBlobs,
        database: Arc<dyn Database>,
        address: Option<String>,
        max_unsigned_forms: usize,
        random: &Randomness,
        clock: &Clock,
    ) -> Result<Self> {
        let signing_secret = database.setting_or("signing secret", &random.word(40)?).await?;
        let url_secret = database.setting_or("download URL secret", &random.word(40)?).await?;
        let locations = Locations::new(addresses(&*database, address).await?, &url_secret)?;
        Ok(Self {
            signer: Signer::embedded(&signing_secret),
            locations,
            blobs: blobs.0,
            database,
            shared_look: SharedLook::default(),
            deletions: Arc::default(),
            clock: clock.clone(),
            unsigned_forms: UnsignedForms::new(max_unsigned_forms),
        })
    }

    /// Signs a target for so long.
    pub(crate) fn presign(&self, target: &Target, life: Duration) -> Result<Presigned> {
        if let Some(bucket) = self.direct() {
            return bucket.presign(target, life);
        }
        let forms = format!("{}/{}", self.locations.address(), target.bucket);
        let object = self.locations.parsed_url(&self.locations.path(&target.bucket, &target.key))?;
        self.signer.presign(&Upload::of(target), forms, object, life, self.clock.signing_time())
    }

    /// The bucket that callers upload to and read from; None when this process receives and serves every byte.
    pub(super) fn direct(&self) -> Option<&Bucket> {
        self.blobs.remote().and_then(S3::direct)
    }

    /// Finds an object; None when there is none with this key.
    pub(super) async fn find(&self, app: &App, bucket: &str, key: &str) -> Result<Option<Object>> {
        self.settle(app, TargetsOf::Object { bucket, key }).await?;
        self.database.object(bucket, key).await
    }

    /// Returns the bucket and the key behind the path of a download URL, also of one without a token.
    pub(super) async fn object_at(&self, path: &str) -> Result<Option<(String, String)>> {
        if let Some(name) = self.locations.object_at(path) {
            return Ok(Some(name));
        }
        let Some((bucket, key)) = location::read_former(path) else { return Ok(None) };
        let is_former = self.database.has_former_url(&bucket, &key).await?;
        Ok(is_former.then_some((bucket, key)))
    }

    /// Returns the bucket and the key behind a URL of this object store; both are empty, and belong to no object, when it
    /// is no download URL. None for URLs of others.
    pub(crate) async fn locate(&self, url: &str) -> Result<Option<(String, String)>> {
        let mut located = None;
        for path in self.locations.paths(url) {
            match self.object_at(path).await? {
                Some(name) => return Ok(Some(name)),
                None => located = Some((String::new(), String::new())),
            }
        }
        Ok(located)
    }

    /// Opens an object; None when there is none with this key.
    pub(crate) async fn read(&self, app: &App, bucket: &str, key: &str) -> Result<Option<OpenObject>> {
        // A blob can be gone when its object was replaced after its row was read. Then there is a new row.
        for _ in 0..3 {
            let Some(object) = self.find(app, bucket, key).await? else { return Ok(None) };
            if let Some(blob) = self.blobs.open(&object.blob).await? {
                return Ok(Some(OpenObject { object, blob }));
            }
        }
        Err(Error::new("opening an object", "its bytes are missing"))
    }

    /// Deletes the file of a `download_url`, of an owner or of anyone; false when there is none.
    pub(crate) async fn delete_file(&self, app: &App, account: Option<AccountId>, url: &str) -> Result<bool> {
        let Some((bucket, key)) = self.locate(url).await? else { return Ok(false) };
        self.settle(app, TargetsOf::Object { bucket: &bucket, key: &key }).await?;
        let blob = app.database.delete_file(account, &bucket, &key, app.clock.now()).await?;
        if let Some(blob) = &blob {
            self.delete_blob(blob).await;
        }
        Ok(blob.is_some())
    }

    /// Removes a blob that no object refers to any more; while a backup runs, it is left to the sweeper.
    pub(crate) async fn delete_blob(&self, name: &str) {
        if !self.are_deletions_paused() {
            self.blobs.remove(name).await;
        }
    }

    /// Copies blobs into the folder of another object store. Returns how many are missing.
    pub(crate) async fn copy_blobs(&self, names: Vec<String>, folder: &Path) -> Result<u64> {
        self.blobs.copy_to(names, folder).await
    }

    /// Keeps every blob that has a row now until the result is dropped: unneeded blobs stay for the sweeper.
    pub(crate) fn pause_deletions(&self) -> Arc<()> {
        Arc::clone(&self.deletions)
    }

    pub(super) fn are_deletions_paused(&self) -> bool {
        Arc::strong_count(&self.deletions) > 1
    }
}

/// How long a running task waits for an object store that cannot be reached, or for room on the disk.
const MAX_OUTAGE: Duration = Duration::from_mins(2);
/// The first pause before another attempt; it doubles up to the longest.
const OUTAGE_POLL: Duration = Duration::from_secs(1);
const MAX_OUTAGE_POLL: Duration = Duration::from_secs(15);

/// Tries again while the object store or the database cannot be reached or the disk is full: a task that runs does not
/// fail for that. What an attempt writes may be written twice.
pub(crate) async fn outlast_outage<T, F: Future<Output = Result<T>>>(attempt: impl Fn() -> F) -> Result<T> {
    let until = Instant::now() + MAX_OUTAGE;
    let mut pause = OUTAGE_POLL;
    loop {
        match attempt().await {
            Err(cause)
                if (cause.is_unavailable() || cause.is_in_doubt() || cause.is_of_the_disk())
                    && Instant::now() < until =>
            {
                tracing::warn!(%cause, "a task waits for its files");
                tokio::time::sleep(pause.min(until - Instant::now())).await;
                pause = MAX_OUTAGE_POLL.min(pause * 2);
            }
            done => return done,
        }
    }
}

/// Returns the addresses that download URLs have had, the newest first, and remembers the current one as that.
async fn addresses(database: &dyn Database, current: Option<String>) -> Result<Vec<String>> {
    let mut known: Vec<String> = Vec::new();
    loop {
        let setting = format!("storage address {}", known.len() + 1);
        match (database.setting(&setting).await?, &current) {
            (Some(address), _) => known.push(address),
            (None, Some(current)) if known.last() != Some(current) => {
                known.push(database.setting_or(&setting, current).await?);
            }
            (None, _) => break,
        }
    }
    let mut seen = HashSet::new();
    Ok(known.into_iter().rev().filter(|address| seen.insert(address.clone())).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_waits_two_minutes_for_room_on_the_disk_and_no_longer() {
        let begun = Instant::now();
        let attempts = AtomicU32::new(0);
        let full = || Error::keeping("storing an output", io::Error::from(ErrorKind::StorageFull));
        let becomes_free = outlast_outage(|| async {
            attempts.fetch_add(1, Ordering::Relaxed);
            if begun.elapsed() < Duration::from_secs(100) { Err(full()) } else { Ok("stored") }
        });
        assert_eq!(becomes_free.await.ok(), Some("stored"));
        assert!(attempts.into_inner() < 15, "an attempt may fetch a whole file again");
        let attempts = AtomicU32::new(0);
        let is_lost = outlast_outage(|| async {
            match attempts.fetch_add(1, Ordering::Relaxed) {
                0 => Err(Error::in_doubt("committing", "the connection broke")),
                _ => Ok("stored"),
            }
        });
        assert_eq!(is_lost.await.ok(), Some("stored"), "what may have been written is written again");
        let begun = Instant::now();
        assert!(outlast_outage(|| async { Err::<(), _>(full()) }).await.is_err());
        assert_eq!(begun.elapsed(), MAX_OUTAGE);
    }
}
