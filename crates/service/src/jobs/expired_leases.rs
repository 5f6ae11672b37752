//! Expired leases: fails tasks whose node fell silent and whose model no live node serves, so that their price
//! does not stay reserved.

use crate::Error;
use crate::lifecycle::app::App;

pub(super) async fn run(app: &App) -> Result<(), Error> {
    let now = app.clock.now();
    let live_since = now.before(app.config.lease);
    let failed = app.database.fail_abandoned(now.before(app.config.lease_grace), live_since, now).await?;
    if failed > 0 {
        tracing::warn!(failed, "tasks fail because no node serves their models any more");
    }
    Ok(())
}
