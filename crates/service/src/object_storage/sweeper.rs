//! Sweeper: sets orphaned blobs aside and deletes them after their retention of days, because a database restored from
//! a backup may refer to them; deletes old outputs. Handles pages, so that memory stays bounded.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use futures_util::TryStreamExt;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::Objects;
use super::blobs::{Listed, Orphan, check_bucket};
use crate::Result;
use crate::clock::Moment;
use crate::policies::Policies;
use crate::totals;

const MAX_BATCH: usize = 1_000;
/// Minimum age of an orphan: an upload has its row moments after its last byte.
const MIN_BLOB_AGE: Duration = Duration::from_hours(1);

impl Objects {
    pub(crate) async fn run_sweeper(&self) -> Result<()> {
        // No upload in progress is older than this process, so every older blob has its row or will never have one.
        let then = SystemTime::now().checked_sub(MIN_BLOB_AGE).unwrap_or(SystemTime::UNIX_EPOCH);
        self.sweep(then.max(self.blobs.opened_at())).await
    }

    /// Restores the orphans to which a database from a backup refers; deletes nothing.
    pub(crate) async fn restore_blobs(&self) -> Result<()> {
        self.check_bucket().await?;
        self.sweep_orphans(Date::MIN).await.map(drop)
    }

    async fn check_bucket(&self) -> Result<()> {
        match self.blobs.remote() {
            Some(store) => check_bucket(store, &*self.database).await,
            None => Ok(()),
        }
    }

    pub(super) async fn sweep(&self, then: SystemTime) -> Result<()> {
        self.check_bucket().await?;
        let now = self.clock.now();
        let retention = Policies::read(&*self.database).await?.output_retention;
        let expired = now.before(retention.unwrap_or(Duration::MAX));
        loop {
            let outputs = self.database.remove_outputs(expired).await?;
            if outputs.is_empty() {
                break;
            }
            for blob in outputs {
                self.delete_blob(&blob).await;
            }
        }
        let kept = self.sweep_orphans(date(now.before(self.orphan_retention))).await?;
        let then = Timestamp::try_from(then).unwrap_or(Timestamp::MIN);
        let mut blobs = self.blobs.blobs();
        let mut set_aside = 0;
        while let Some(page) = blobs.try_next().await? {
            set_aside += self.sweep_blobs(page, then).await?;
        }
        if set_aside > 0 {
            let message = "blobs that the database does not know are orphans now; \
                           they are deleted when the retention is over";
            tracing::warn!(orphans = set_aside, retention = ?self.orphan_retention, "{message}");
        }
        totals::keep_orphans(&*self.database, kept + set_aside).await
    }

    async fn known(&self, names: &[String]) -> Result<HashSet<String>> {
        let mut known = HashSet::new();
        for names in names.chunks(MAX_BATCH) {
            known.extend(self.database.known_blobs(names).await?);
        }
        Ok(known)
    }

    /// Restores orphans with a row again, and deletes the others from before a day. Returns the number of the remaining.
    async fn sweep_orphans(&self, oldest: Date) -> Result<u64> {
        let mut orphans = self.blobs.orphans();
        let mut kept = 0;
        while let Some(page) = orphans.try_next().await? {
            kept += self.sweep_page(page, oldest).await?;
        }
        Ok(kept)
    }

    async fn sweep_page(&self, page: Vec<Orphan>, oldest: Date) -> Result<u64> {
        let names: Vec<String> = page.iter().map(|orphan| orphan.name.clone()).collect();
        let known = self.known(&names).await?;
        let mut kept = 0;
        for orphan in page {
            let is_known = known.contains(&orphan.name);
            let swept = match is_known {
                true => self.blobs.bring_back(&orphan).await,
                false if orphan.day < oldest => self.blobs.remove_orphan(&orphan).await,
                false => {
                    kept += 1;
                    continue;
                }
            };
            match swept {
                Err(cause) => {
                    kept += 1;
                    tracing::warn!(%cause, blob = orphan.name, "an orphan could not be swept");
                }
                Ok(()) if is_known => {
                    tracing::warn!(blob = orphan.name, "a blob is restored: a row refers to it again");
                }
                Ok(()) => {}
            }
        }
        Ok(kept)
    }

    /// Reconciles pending uploads, and sets aside unreferenced blobs from before `then`. Returns their number.
    async fn sweep_blobs(&self, page: Vec<Listed>, then: Timestamp) -> Result<u64> {
        if self.blobs.remote().is_some() {
            self.reconcile_page(&page).await?;
        }
        let old = page.into_iter().filter(|blob| blob.modified < then);
        let mut unknown: Vec<String> = old.map(|blob| blob.name).collect();
        let known = self.known(&unknown).await?;
        unknown.retain(|name| !known.contains(name));
        let marked = self.blobs.marked(&unknown).await?;
        let today = date(self.clock.now());
        let mut set_aside = 0;
        for name in unknown.iter().filter(|name| !marked.contains(*name)) {
            // A backup may need a blob whose row was deleted after the start of the backup.
            if self.are_deletions_paused() {
                break;
            }
            match self.blobs.set_aside(name, today).await {
                Ok(()) => set_aside += 1,
                Err(cause) => tracing::warn!(%cause, blob = name, "a blob could not be set aside"),
            }
        }
        Ok(set_aside)
    }
}

fn date(moment: Moment) -> Date {
    moment.timestamp().to_zoned_datetime(TimeZone::UTC).date()
}
