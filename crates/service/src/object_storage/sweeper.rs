//! The sweeper: blobs that no object refers to are set aside and deleted only days later, because a database
//! that was restored from a backup does not know all of them; expired targets and outputs are deleted.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::civil::Date;
use jiff::tz::TimeZone;
use tokio_util::sync::CancellationToken;

use super::Objects;
use crate::Error;
use crate::clock::Moment;
use crate::lifecycle::app::App;

/// How often the sweeper runs.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60 * 60);
/// How old a blob must be before it can be an orphan: an upload has its row moments after its last byte.
const MIN_BLOB_AGE: Duration = Duration::from_secs(60 * 60);
/// How long expired targets are kept; their signature has expired too. A day is for clocks that disagree.
const TARGET_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

impl Objects {
    /// Sweeps at the start and then every hour, until the service ends.
    pub(crate) async fn run_sweeper(app: Arc<App>, stop: CancellationToken) {
        // No upload of this process is older than the start, so whatever is older has its row or never will.
        let mut then = app.objects.blobs.opened_at();
        loop {
            let swept = stop.run_until_cancelled(app.objects.sweep(&app, then)).await;
            if let Some(Err(cause)) = swept {
                tracing::error!(%cause, "the sweeper of object storage failed");
            }
            if stop.run_until_cancelled(tokio::time::sleep(SWEEP_INTERVAL)).await.is_none() {
                return;
            }
            then = SystemTime::now().checked_sub(MIN_BLOB_AGE).unwrap_or(SystemTime::UNIX_EPOCH);
        }
    }

    pub(super) async fn sweep(&self, app: &App, then: SystemTime) -> Result<(), Error> {
        let now = app.clock.now();
        let oldest = date(now.before(app.config.orphan_retention));
        for orphan in self.blobs.orphans().await? {
            if self.database.has_blob(&orphan.name).await? {
                self.blobs.bring_back(&orphan).await?;
                tracing::warn!(blob = orphan.name, "a blob is back: the database knows it again");
            } else if orphan.day < oldest {
                self.blobs.remove_orphan(&orphan).await?;
            }
        }
        let today = date(now);
        let mut orphans = 0_u64;
        for name in self.blobs.older_than(then).await? {
            // A backup may need a blob whose row was deleted after the backup began.
            if !self.database.has_blob(&name).await? && !self.backups.are_running() {
                self.blobs.set_aside(&name, today).await?;
                orphans += 1;
            }
        }
        if orphans > 0 {
            let message = "blobs that the database does not know were moved to objects/orphans; \
                           they are deleted when the retention is over";
            tracing::warn!(orphans, retention = ?app.config.orphan_retention, "{message}");
        }
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
        let targets = self.database.forget_targets(now.before(TARGET_RETENTION)).await?;
        tracing::debug!(orphans, targets, "object storage is swept");
        Ok(())
    }
}

fn date(moment: Moment) -> Date {
    moment.timestamp().to_zoned(TimeZone::UTC).date()
}
