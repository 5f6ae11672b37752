//! Storage billing: charges every account for what it stored since the last time.

use crate::Error;
use crate::ledger::StorageRate;
use crate::lifecycle::app::App;

pub(super) async fn run(app: &App) -> Result<(), Error> {
    let rate = StorageRate { per_gib_day: app.config.storage_price_per_gib_day };
    let charged = app.database.charge_storage(rate, app.clock.now()).await?;
    tracing::debug!(charged, "storage is billed");
    Ok(())
}
