//! Totals over all accounts. A job computes them and stores them as settings, which all processes share, so that a
//! scrape of the metrics scans no table.

use serde::{Deserialize, Serialize};

use crate::database::Database;
use crate::lifecycle::app::App;
use crate::{Error, Result};

const TOTALS: &str = "totals";
const ORPHANS: &str = "orphans";

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Totals {
    pub(crate) stored_bytes: i64,
    /// Reserved money of unfinished tasks, in billionths.
    pub(crate) held: i64,
    pub(crate) unused_targets: i64,
}

pub(crate) async fn add_up(app: &App) -> Result<()> {
    let totals = app.database.totals().await?;
    let text = serde_json::to_string(&totals).map_err(|cause| Error::new("writing totals", cause))?;
    keep(&*app.database, TOTALS, &text).await
}

pub(crate) async fn keep_orphans(database: &dyn Database, orphans: u64) -> Result<()> {
    keep(database, ORPHANS, &orphans.to_string()).await
}

/// Writes a setting only if it has changed, so that an idle service writes nothing.
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
