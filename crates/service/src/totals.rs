//! Totals over all accounts, computed by a job and stored as settings, so that a scrape of the metrics scans no table.

use crate::database::Database;
use crate::metrics::Totals;
use crate::{Error, Result};

const TOTALS: &str = "totals";
const ORPHANS: &str = "orphans";

pub(crate) async fn add_up(database: &dyn Database) -> Result<()> {
    let totals = database.totals().await?;
    let text = serde_json::to_string(&totals).map_err(|cause| Error::new("writing totals", cause))?;
    keep(database, TOTALS, &text).await
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

pub(crate) async fn read(database: &dyn Database) -> Result<Totals> {
    let text = database.setting(TOTALS).await?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
}

pub(crate) async fn read_orphans(database: &dyn Database) -> Result<u64> {
    let text = database.setting(ORPHANS).await?;
    Ok(text.and_then(|text| text.parse().ok()).unwrap_or_default())
}
