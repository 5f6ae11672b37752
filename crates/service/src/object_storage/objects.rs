//! Object store of one service: access to its objects for the other modules.

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
use super::shared_listing::SharedListing;
use super::unsigned_forms::UnsignedForms;
use crate::accounts::AccountId;
use crate::clock::Clock;
use crate::config::Config;
use crate::database::Database;
use crate::files::{Object, OutputLimits, Target, TargetsOf};
use crate::random::Randomness;
use crate::{Error, Result};

pub(crate) struct Objects {
    pub(crate) locations: Locations,
    pub(super) signer: Signer,
    pub(super) blobs: Arc<dyn Blobs>,
    pub(super) database: Arc<dyn Database>,
    pub(super) unsigned_forms: UnsignedForms,
    /// Reference counter: each running backup holds a clone.
    deletions: Arc<()>,
    pub(super) shared_listing: SharedListing,
    pub(super) clock: Clock,
    pub(super) random: Randomness,
    pub(crate) target_life: Duration,
    pub(super) orphan_retention: Duration,
    pub(super) output_limits: OutputLimits,
    pub(super) upload_idle: Duration,
}

pub(crate) struct OpenObject {
    pub(crate) object: Object,
    blob: OpenBlob,
}

impl OpenObject {
    pub(crate) fn read(self, range: Range<u64>) -> ByteStream {
        (self.blob)(range)
    }

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

const NEWEST_ADDRESS: &str = "storage address";

impl Objects {
    /// Opens the object store. `address`: public base URL without a trailing slash; None takes the latest known one.
    pub(crate) async fn open(
        blobs: OpenedBlobs,
        database: Arc<dyn Database>,
        address: Option<String>,
        config: &Config,
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
            shared_listing: SharedListing::default(),
            deletions: Arc::default(),
            clock: clock.clone(),
            random: random.clone(),
            unsigned_forms: UnsignedForms::new(config.limits.unsigned_forms),
            target_life: config.target_life,
            orphan_retention: config.orphan_retention,
            output_limits: OutputLimits { count: config.limits.outputs, bytes: config.limits.output_bytes },
            upload_idle: config.limits.upload_idle,
        })
    }

    pub(crate) fn presign(&self, target: &Target) -> Result<Presigned> {
        let life = self.target_life;
        if let Some(bucket) = self.direct() {
            return bucket.presign(target, life);
        }
        let forms = format!("{}/{}", self.locations.address(), target.bucket);
        let object = self.locations.parsed_url(&self.locations.path(&target.bucket, &target.key))?;
        self.signer.presign(&Upload::of(target), forms, object, life, self.clock.signing_time())
    }

    pub(super) fn direct(&self) -> Option<&Bucket> {
        self.blobs.remote().and_then(S3::direct)
    }

    pub(super) async fn find(&self, bucket: &str, key: &str) -> Result<Option<Object>> {
        self.reconcile(TargetsOf::Object { bucket, key }).await?;
        self.database.object(bucket, key).await
    }

    pub(super) async fn object_at(&self, path: &str) -> Result<Option<(String, String)>> {
        if let Some(name) = self.locations.object_at(path) {
            return Ok(Some(name));
        }
        let Some((bucket, key)) = location::read_former(path) else { return Ok(None) };
        let is_former = self.database.has_former_url(&bucket, &key).await?;
        Ok(is_former.then_some((bucket, key)))
    }

    /// Returns bucket and key of a URL of this store, both empty if the URL is no download URL; None for other servers.
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

    pub(crate) async fn read(&self, bucket: &str, key: &str) -> Result<Option<OpenObject>> {
        // A blob can be deleted between the two reads, if its object is replaced. The retry reads the new row.
        for _ in 0..3 {
            let Some(object) = self.find(bucket, key).await? else { return Ok(None) };
            if let Some(blob) = self.blobs.open(&object.blob).await? {
                return Ok(Some(OpenObject { object, blob }));
            }
        }
        Err(Error::new("opening an object", "its bytes are missing"))
    }

    /// Deletes the file of a `download_url`, of this account or (None) of any; false if there is no such file.
    pub(crate) async fn delete_file(&self, account: Option<AccountId>, url: &str) -> Result<bool> {
        let Some((bucket, key)) = self.locate(url).await? else { return Ok(false) };
        self.reconcile(TargetsOf::Object { bucket: &bucket, key: &key }).await?;
        let blob = self.database.delete_file(account, &bucket, &key, self.clock.now()).await?;
        if let Some(blob) = &blob {
            self.delete_blob(blob).await;
        }
        Ok(blob.is_some())
    }

    pub(crate) async fn delete_blob(&self, name: &str) {
        if !self.are_deletions_paused() {
            self.blobs.remove(name).await;
        }
    }

    pub(crate) async fn copy_blobs(&self, names: Vec<String>, folder: &Path) -> Result<u64> {
        self.blobs.copy_to(names, folder).await
    }

    /// Pauses the deletion of blobs until the guard is dropped. The sweeper deletes the unneeded blobs later.
    pub(crate) fn pause_deletions(&self) -> Arc<()> {
        Arc::clone(&self.deletions)
    }

    pub(super) fn are_deletions_paused(&self) -> bool {
        Arc::strong_count(&self.deletions) > 1
    }
}

/// Maximum time for which a running task waits for an unreachable object store, or for space on the disk.
const MAX_OUTAGE: Duration = Duration::from_mins(2);
const OUTAGE_POLL: Duration = Duration::from_secs(1);
const MAX_OUTAGE_POLL: Duration = Duration::from_secs(15);

/// Retries an idempotent attempt through outages of the store, the database and the disk, for a running task.
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

/// Returns the known addresses of download URLs, latest first, and stores the current address once.
async fn addresses(database: &dyn Database, current: Option<String>) -> Result<Vec<String>> {
    let mut known: Vec<String> = Vec::new();
    loop {
        let setting = format!("storage address {}", known.len() + 1);
        match (database.setting(&setting).await?, &current) {
            (Some(address), _) => known.push(address),
            (None, Some(current)) if !known.contains(current) => {
                known.push(database.setting_or(&setting, current).await?);
            }
            (None, _) => break,
        }
    }
    let newest = database.setting(NEWEST_ADDRESS).await?;
    if let Some(current) = current.as_ref().filter(|current| newest.as_ref() != Some(*current)) {
        database.set_setting(NEWEST_ADDRESS, current).await?;
    }
    let newest_first = current.or(newest).into_iter().chain(known.into_iter().rev());
    let mut seen = HashSet::new();
    Ok(newest_first.filter(|address| seen.insert(address.clone())).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::database::{self, Durability};

    #[tokio::test]
    async fn addresses_that_take_turns_are_kept_once_and_the_last_one_is_the_newest() -> Result<()> {
        let folder = tempfile::tempdir().map_err(|cause| Error::new("creating a folder", cause))?;
        let database = database::open(folder.path(), Durability::None).await?;
        for _ in 0..3 {
            for address in ["http://one", "http://two"] {
                assert_eq!(addresses(&*database, Some(address.to_owned())).await?[0], address);
            }
        }
        assert_eq!(addresses(&*database, None).await?, ["http://two", "http://one"]);
        assert_eq!(database.setting("storage address 3").await?, None);
        Ok(())
    }

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
