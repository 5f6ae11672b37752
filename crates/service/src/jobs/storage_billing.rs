//! What has to be done every now and then: billing storage.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::Error;
use crate::ledger::StorageRate;
use crate::lifecycle::app::App;

/// Bills until the service stops.
pub(crate) async fn run(app: Arc<App>, stop: CancellationToken) {
    let every = app.config.storage_billing_interval;
    while stop.run_until_cancelled(tokio::time::sleep(every)).await.is_some() {
        if let Err(cause) = once(&app).await {
            tracing::error!(%cause, "the upkeep failed; it is tried again later");
        }
    }
}

/// Bills what has been stored up to now.
pub(crate) async fn once(app: &App) -> Result<(), Error> {
    let rate = StorageRate { per_gib_day: app.config.storage_price_per_gib_day };
    let charged = app.database.charge_storage(rate, app.clock.now()).await?;
    tracing::debug!(charged, "storage was billed");
    Ok(())
}
