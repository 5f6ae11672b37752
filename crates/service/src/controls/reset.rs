//! Reset to the baseline, which is the state after the start of the service unless a test sets another baseline.

use std::path::PathBuf;
use std::sync::Arc;

use super::Controls;
use crate::folder::if_present;
use crate::{Error, Result};

#[derive(Default)]
pub(super) struct Baseline {
    clock_ahead: i64,
    random_position: Option<u64>,
}

impl Controls {
    /// Resets accounts, keys, models, tasks and money to the start of the service or the last `set_baseline`, deletes
    /// files, clears faults, scripts and the journal, brings the node up and restores the clock. Requests continue.
    pub async fn reset(&self) -> Result<()> {
        let (tester, admin) = (&self.tester, &self.admin);
        let baseline = tester.baseline.lock().await;
        tester.faults.reset();
        tester.switch.scripts.lock().clear();
        let mut node = tester.switch.pause().await;
        node.is_up = true;
        tester.switch.interrupt(&mut node);
        let unneeded = admin.database.replace_from(&self.baseline_copy()).await?;
        admin.clock.set_ahead(baseline.clock_ahead);
        if let Some(position) = baseline.random_position {
            admin.random.go_on_from(position);
        }
        drop(node);
        self.nodes.heartbeat().await?;
        admin.dispatcher.look_for_all();
        // No row refers to these blobs, so the reset does not wait for their deletion.
        let objects = Arc::clone(&admin.objects);
        tokio::spawn(async move {
            for blob in unneeded {
                objects.delete_blob(&blob).await;
            }
        });
        tester.journal.clear();
        Ok(())
    }

    /// Makes the present state, without files, the baseline of later resets.
    pub async fn set_baseline(&self) -> Result<()> {
        let mut baseline = self.tester.baseline.lock().await;
        let failed = |cause| Error::new("setting the baseline", cause);
        let copy = self.baseline_copy();
        let partial = copy.with_extension("partial");
        if_present(std::fs::remove_file(&partial)).map_err(failed)?;
        self.admin.database.backup_to(&partial).await?;
        std::fs::rename(&partial, &copy).map_err(failed)?;
        baseline.clock_ahead = self.admin.clock.ahead();
        baseline.random_position = self.admin.random.position();
        Ok(())
    }

    fn baseline_copy(&self) -> PathBuf {
        self.admin.background.folder.path().join("baseline.db")
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use crate::{Config, Credit, Money, Service};

    type TestResult = Result<(), Box<dyn std::error::Error>>;

    #[tokio::test]
    async fn a_baseline_that_cannot_be_set_leaves_the_one_before() -> TestResult {
        let service = Service::start(Config::ephemeral().with_controls()).await?;
        let controls = service.controls()?;
        let before = service.accounts().await?;
        service.credit("demo", Credit::Paid(Money::from_smallest(1))).await?;
        let database = Connection::open(service.data_folder().join(crate::database::FILE))?;
        database.execute_batch("ALTER TABLE objects RENAME TO hidden")?;
        assert!(controls.set_baseline().await.is_err());
        database.execute_batch("ALTER TABLE hidden RENAME TO objects")?;
        controls.reset().await?;
        assert_eq!(service.accounts().await?, before);
        service.shutdown().await;
        Ok(())
    }
}
