//! The sweeper: blobs that no object refers to are set aside and deleted only days later, because a database
//! that was restored from a backup does not know all of them; old outputs are deleted. Blobs and orphans are judged page
//! by page as they are listed, so that no number of them takes much memory.

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
use crate::lifecycle::app::App;
use crate::lifecycle::policies::Policies;
use crate::operations::totals;

/// How many blobs the database is asked for at once.
const MAX_BATCH: usize = 1_000;
/// How old a blob must be before it can be an orphan: an upload has its row moments after its last byte.
const MIN_BLOB_AGE: Duration = Duration::from_hours(1);

impl Objects {
    /// Sweeps what no upload can need any more: a job of every process.
    pub(crate) async fn run_sweeper(&self, app: &App) -> Result<()> {
        // No upload of this process is older than the start, so whatever is older has its row or never will.
        let then = SystemTime::now().checked_sub(MIN_BLOB_AGE).unwrap_or(SystemTime::UNIX_EPOCH);
        self.sweep(app, then.max(self.blobs.opened_at())).await
    }

    pub(super) async fn sweep(&self, app: &App, then: SystemTime) -> Result<()> {
        if let Some(store) = self.blobs.remote() {
            check_bucket(store, &*self.database).await?;
        }
        let now = app.clock.now();
        let retention = Policies::read(&*app.database).await?.output_retention;
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
        let mut orphans = self.blobs.orphans();
        let mut kept = 0;
        while let Some(page) = orphans.try_next().await? {
            kept += self.sweep_orphans(app, page).await?;
        }
        let then = Timestamp::try_from(then).unwrap_or(Timestamp::MIN);
        let mut blobs = self.blobs.blobs();
        let mut set_aside = 0;
        while let Some(page) = blobs.try_next().await? {
            set_aside += self.sweep_blobs(app, page, then).await?;
        }
        if set_aside > 0 {
            let message = "blobs that the database does not know are orphans now; \
                           they are deleted when the retention is over";
            tracing::warn!(orphans = set_aside, retention = ?app.config.orphan_retention, "{message}");
        }
        totals::keep_orphans(&*self.database, kept + set_aside).await
    }

    /// Returns those of the blobs that the database knows, by queries of a bounded size.
    async fn known(&self, names: &[String]) -> Result<HashSet<String>> {
        let mut known = HashSet::new();
        for names in names.chunks(MAX_BATCH) {
            known.extend(self.database.known_blobs(names).await?);
        }
        Ok(known)
    }

    /// Brings orphans back that the database knows again, and removes those that are old. Returns how many are left.
    async fn sweep_orphans(&self, app: &App, page: Vec<Orphan>) -> Result<u64> {
        let oldest = date(app.clock.now().before(app.config.orphan_retention));
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

    /// Makes files of uploads that no one has found, and orphans of the blobs from before then that the database does not
    /// know. Returns how many.
    async fn sweep_blobs(&self, app: &App, page: Vec<Listed>, then: Timestamp) -> Result<u64> {
        if self.blobs.remote().is_some() {
            self.settle_page(app, &page).await?;
        }
        let old = page.into_iter().filter(|blob| blob.modified < then);
        let mut unknown: Vec<String> = old.map(|blob| blob.name).collect();
        let known = self.known(&unknown).await?;
        unknown.retain(|name| !known.contains(name));
        let marked = self.blobs.marked(&unknown).await?;
        let today = date(app.clock.now());
        let mut set_aside = 0;
        for name in unknown.iter().filter(|name| !marked.contains(*name)) {
            // A backup may need a blob whose row was deleted after the backup began.
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
    moment.timestamp().to_zoned(TimeZone::UTC).date()
}
