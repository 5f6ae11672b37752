//! Totals over all accounts. A job adds them up and keeps them as settings, which all processes share: a scrape of the
//! metrics reads no whole table.

use serde::{Deserialize, Serialize};

use crate::database::Database;
use crate::lifecycle::app::App;
use crate::{Error, Result};

/// The setting of the totals, as JSON.
const TOTALS: &str = "totals";
/// The setting of the number of orphans.
const ORPHANS: &str = "orphans";

/// Sums over all accounts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Totals {
    pub(crate) stored_bytes: i64,
    /// Money held for unfinished tasks, in billionths.
    pub(crate) held: i64,
    /// Number of upload targets without an upload.
    pub(crate) unused_targets: i64,
}

/// Reads the sums from the database and keeps them.
pub(crate) async fn add_up(app: &App) -> Result<()> {
    let totals = app.database.totals().await?;
    let text = serde_json::to_string(&totals).map_err(|cause| Error::new("writing totals", cause))?;
    keep(&*app.database, TOTALS, &text).await
}

/// Keeps the number of orphans.
pub(crate) async fn keep_orphans(database: &dyn Database, orphans: u64) -> Result<()> {
    keep(database, ORPHANS, &orphans.to_string()).await
}

/// Writes a setting that has changed: an idle service writes nothing.
async fn keep(database: &dyn Database, name: &str, value: &str) -> Result<()> {
    if database.setting(name).await?.as_deref() != Some(value) {
        database.set_setting(name, value).await?;
    }
    Ok(())
}

/// Returns the totals of the last run of the job; zeros before the first one.
pub(super) async fn read(database: &dyn Database) -> Result<Totals> {
    let text = database.setting(TOTALS).await?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
}

/// Returns the number of orphans after the last run of the sweeper.
pub(super) async fn read_orphans(database: &dyn Database) -> Result<u64> {
    let text = database.setting(ORPHANS).await?;
    Ok(text.and_then(|text| text.parse().ok()).unwrap_or_default())
}
