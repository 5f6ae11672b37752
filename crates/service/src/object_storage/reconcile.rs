//! Reconciles pending direct uploads with the bucket, whose listing alone reveals them. The blob of an upload has its
//! target's identifier as its name, which begins with the time of the presign. So one listing from the oldest valid
//! target on covers all pending uploads, at one request for each 1,000 uploads; with the default lifetime of targets,
//! the listing goes back 75 minutes. Unused targets appear in no listing.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::TryStreamExt;

use super::Objects;
use super::blobs::{Listed, S3};
use crate::Result;
use crate::clock::Moment;
use crate::files::{Replaces, Stored, Target, TargetsOf};
use crate::random::Randomness;

pub(crate) const RECONCILE_INTERVAL: Duration = Duration::from_secs(15);
/// Time after a target's expiry in which an upload may still end; afterwards the target is deleted.
const LATE_UPLOADS: Duration = Duration::from_hours(1);
const MAX_SKEW: Duration = Duration::from_mins(5);

impl Objects {
    /// Generates the identifier of a target: a name for its blob, ordered by time, and unique even with a seed.
    pub(crate) fn target_id(&self, now: Moment) -> Result<String> {
        match self.blobs.remote() {
            Some(_) => Randomness::new(None).uuid_by_time(now),
            None => self.random.uuid_by_time(now),
        }
    }

    pub(crate) async fn reconcile(&self, of: TargetsOf<'_>) -> Result<()> {
        let Some(store) = self.blobs.remote().filter(|store| store.direct().is_some()) else { return Ok(()) };
        if !self.database.awaits_upload(of).await? {
            return Ok(());
        }
        self.shared_listing.share(self.list_and_reconcile(store)).await
    }

    /// Deletes targets that can receive no upload, even if the store is unreachable.
    pub(crate) async fn forget_targets(&self) -> Result<()> {
        let expired_before = self.clock.now().before(LATE_UPLOADS);
        while self.database.forget_targets(expired_before).await? > 0 {}
        Ok(())
    }

    #[cfg(test)]
    pub(super) async fn reconcile_and_forget(&self) -> Result<()> {
        let reconciled = self.reconcile(TargetsOf::Everyone).await;
        self.forget_targets().await?;
        reconciled
    }

    async fn list_and_reconcile(&self, store: &S3) -> Result<()> {
        let now = self.clock.now();
        let since = now.before(self.target_life).before(LATE_UPLOADS);
        let mut pages = store.uploads(since, now.after(MAX_SKEW));
        while let Some(page) = pages.try_next().await? {
            self.reconcile_page(&page).await?;
        }
        Ok(())
    }

    /// Makes files of uploads to unused targets, in order, and deletes uploads to void ones, even if some uploads fail.
    pub(super) async fn reconcile_page(&self, page: &[Listed]) -> Result<()> {
        let ids: Vec<String> = page.iter().map(|blob| blob.name.clone()).collect();
        let targets = self.database.targets_without_file(&ids).await?;
        let mut targets: HashMap<String, Target> =
            targets.into_iter().map(|target| (target.id.clone(), target)).collect();
        let mut uploads: Vec<(Target, &Listed)> =
            page.iter().filter_map(|blob| Some((targets.remove(&blob.name)?, blob))).collect();
        uploads.sort_by_key(|(target, blob)| (blob.modified, target.expires_at));
        for (target, blob) in uploads {
            match self.reconcile_upload(&target, blob).await {
                Err(cause) if !cause.is_unavailable() && !cause.is_in_doubt() => {
                    tracing::error!(%cause, target = target.id, "an upload could not be made a file");
                }
                reconciled => reconciled?,
            }
        }
        Ok(())
    }

    async fn reconcile_upload(&self, target: &Target, blob: &Listed) -> Result<()> {
        if blob.size != target.size {
            tracing::error!(
                target = target.id,
                size = blob.size,
                "the object store took an upload of a size that was not signed; it is removed"
            );
        }
        let may_store = blob.size == target.size
            && !target.is_void
            && (!target.is_of_member() || self.database.is_member(target.owner, target.payer).await?);
        if !may_store {
            self.delete_blob(&target.id).await;
            return Ok(());
        }
        let object = target.object(target.id.clone(), blob.etag.clone(), self.uploaded_at(target, blob));
        // Another process may have reconciled the upload already; that is fine.
        let id = self.random.uuid()?;
        let store = || self.database.store_upload(&target.id, &id, &object, Replaces::Earlier);
        let stored = match store().await {
            // The retry is idempotent, so that a commit in doubt does not fail the read that reconciles.
            Err(cause) if !cause.is_unavailable() => store().await?,
            stored => stored?,
        };
        match stored {
            Stored::Done { replaced: Some(replaced) } => self.delete_blob(&replaced).await,
            Stored::Taken => self.delete_blob(&target.id).await,
            _ => {}
        }
        Ok(())
    }

    /// Returns the time of an upload by the clock of the store, clamped between the presign and now.
    fn uploaded_at(&self, target: &Target, blob: &Listed) -> Moment {
        let shown = Moment(blob.modified.as_millisecond().saturating_add(self.clock.ahead()));
        shown.max(target.expires_at.before(self.target_life)).min(self.clock.now())
    }
}
