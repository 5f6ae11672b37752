//! The sweeper: blobs that no object refers to are set aside and deleted only days later, because a database
//! that was restored from a backup does not know all of them; expired targets and outputs are deleted.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::Objects;
use super::blobs::check_bucket;
use crate::Result;
use crate::clock::Moment;
use crate::lifecycle::app::App;

/// How many blobs the database is asked for at once.
const MAX_BATCH: usize = 1_000;
/// How old a blob must be before it can be an orphan: an upload has its row moments after its last byte.
const MIN_BLOB_AGE: Duration = Duration::from_hours(1);
/// How long expired targets are kept; their signature has expired too. A day is for clocks that disagree.
pub(super) const TARGET_RETENTION: Duration = Duration::from_hours(24);

impl Objects {
    /// Sweeps what no upload can need any more: a job of every process.
    pub(crate) async fn run_sweeper(&self, app: &App) -> Result<()> {
        // No upload of this process is older than the start, so whatever is older has its row or never will.
        let then = SystemTime::now().checked_sub(MIN_BLOB_AGE).unwrap_or(SystemTime::UNIX_EPOCH);
        self.sweep(app, then.max(self.blobs.opened_at())).await
    }

    /// Returns those of the blobs that an object refers to, by queries of a bounded size.
    async fn known(&self, names: &[String]) -> Result<HashSet<String>> {
        let mut known = HashSet::new();
        for names in names.chunks(MAX_BATCH) {
            known.extend(self.database.known_blobs(names).await?);
        }
        Ok(known)
    }

    pub(super) async fn sweep(&self, app: &App, then: SystemTime) -> Result<()> {
        if let Some(store) = self.blobs.remote() {
            check_bucket(store, &*self.database).await?;
        }
        let now = app.clock.now();
        let expired = now.before(app.config.output_retention);
        loop {
            let outputs = self.database.remove_outputs(expired).await?;
            if outputs.is_empty() {
                break;
            }
            for blob in outputs {
                self.delete_blob(&blob).await;
            }
        }
        // Uploads that no job has looked for are files before their targets are forgotten.
        let settled = self.settle_expiring(app).await;
        let mut targets = 0;
        while settled.is_ok() {
            let forgotten = self.database.forget_targets(now.before(TARGET_RETENTION)).await?;
            targets += forgotten;
            if forgotten == 0 {
                break;
            }
        }
        self.sweep_orphans(app).await?;
        let orphans = self.set_orphans_aside(app, then).await?;
        tracing::debug!(orphans, targets, "object storage is swept");
        settled
    }

    /// Brings orphans back that the database knows again, and removes those that are old.
    async fn sweep_orphans(&self, app: &App) -> Result<()> {
        let oldest = date(app.clock.now().before(app.config.orphan_retention));
        let set_aside = self.blobs.orphans().await?;
        let names: Vec<String> = set_aside.iter().map(|orphan| orphan.name.clone()).collect();
        let known = self.known(&names).await?;
        for orphan in set_aside {
            let is_known = known.contains(&orphan.name);
            let swept = match is_known {
                true => self.blobs.bring_back(&orphan).await,
                false if orphan.day < oldest => self.blobs.remove_orphan(&orphan).await,
                false => continue,
            };
            match swept {
                Err(cause) => tracing::warn!(%cause, blob = orphan.name, "an orphan could not be swept"),
                Ok(()) if is_known => {
                    tracing::warn!(blob = orphan.name, "a blob is restored: a row refers to it again");
                }
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Makes orphans of the blobs from before then that the database does not know. Returns how many.
    async fn set_orphans_aside(&self, app: &App, then: SystemTime) -> Result<u64> {
        let today = date(app.clock.now());
        let mut orphans = 0_u64;
        let names = self.blobs.older_than(then).await?;
        let known = self.known(&names).await?;
        for name in names.iter().filter(|name| !known.contains(*name)) {
            // A backup may need a blob whose row was deleted after the backup began.
            if self.are_deletions_paused() {
                continue;
            }
            match self.blobs.set_aside(name, today).await {
                Ok(()) => orphans += 1,
                Err(cause) => tracing::warn!(%cause, blob = name, "a blob could not be set aside"),
            }
        }
        if orphans > 0 {
            let message = "blobs that the database does not know are orphans now; \
                           they are deleted when the retention is over";
            tracing::warn!(orphans, retention = ?app.config.orphan_retention, "{message}");
        }
        Ok(orphans)
    }
}

fn date(moment: Moment) -> Date {
    moment.timestamp().to_zoned(TimeZone::UTC).date()
}
