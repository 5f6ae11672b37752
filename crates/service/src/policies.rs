//! Policies: settings that all processes over a database share, written by a start whose configuration has them.

use std::time::Duration;

use crate::config::Config;
use crate::database::Database;
use crate::ledger::Money;
use crate::{Error, Result};

const TASK_RETENTION: &str = "policy: task retention";
const MOVEMENT_RETENTION: &str = "policy: movement retention";
const OUTPUT_RETENTION: &str = "policy: output retention";
const QUEUE_TIMEOUT: &str = "policy: queue timeout";
const STORAGE_PRICE: &str = "policy: storage price";
const OWNERS_MANAGE_KEYS: &str = "policy: owners manage keys";

const EVER: &str = "ever";
const YES: &str = "yes";
const NO: &str = "no";

/// Maximum time, beyond the life of any database.
const MAX_TIME: Duration = Duration::from_hours(24 * 36_525);

/// Policies of a database. None stands for an unlimited time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Policies {
    pub(crate) task_retention: Option<Duration>,
    pub(crate) movement_retention: Option<Duration>,
    pub(crate) output_retention: Option<Duration>,
    pub(crate) queue_timeout: Option<Duration>,
    pub(crate) storage_price_per_gib_day: Money,
    pub(crate) owners_manage_keys: bool,
}

impl Policies {
    pub(crate) async fn read(database: &dyn Database) -> Result<Self> {
        let month = Duration::from_hours(30 * 24);
        Ok(Self {
            task_retention: time(database, TASK_RETENTION, None).await?,
            movement_retention: time(database, MOVEMENT_RETENTION, None).await?,
            output_retention: time(database, OUTPUT_RETENTION, Some(month)).await?,
            queue_timeout: time(database, QUEUE_TIMEOUT, None).await?,
            storage_price_per_gib_day: storage_price_per_gib_day(database).await?,
            owners_manage_keys: owners_manage_keys(database).await?,
        })
    }

    pub(crate) async fn set(config: &Config, database: &dyn Database) -> Result<()> {
        let price = config.storage_price_per_gib_day.map(|price| price.to_string());
        let manage_keys = config.owners_manage_keys.map(|manage| if manage { YES } else { NO }.to_owned());
        for (name, value) in [
            (TASK_RETENTION, config.task_retention.map(text)),
            (MOVEMENT_RETENTION, config.movement_retention.map(text)),
            (OUTPUT_RETENTION, config.output_retention.map(text)),
            (QUEUE_TIMEOUT, config.queue_timeout.map(text)),
            (STORAGE_PRICE, price),
            (OWNERS_MANAGE_KEYS, manage_keys),
        ] {
            let Some(value) = value else { continue };
            let before = database.setting(name).await?;
            if before.as_ref() != Some(&value) {
                tracing::info!(name, before, value, "a policy of all processes is set");
                database.set_setting(name, &value).await?;
            }
        }
        Ok(())
    }
}

pub(crate) async fn storage_price_per_gib_day(database: &dyn Database) -> Result<Money> {
    let price = database.setting(STORAGE_PRICE).await?;
    let price = price.map(|price| price.parse().map_err(|_| unreadable(STORAGE_PRICE))).transpose()?;
    Ok(price.unwrap_or(Money::from_smallest(1_000_000)))
}

pub(crate) async fn owners_manage_keys(database: &dyn Database) -> Result<bool> {
    Ok(database.setting(OWNERS_MANAGE_KEYS).await?.as_deref() == Some(YES))
}

async fn time(database: &dyn Database, name: &str, default: Option<Duration>) -> Result<Option<Duration>> {
    match database.setting(name).await?.as_deref() {
        None => Ok(default),
        Some(EVER) => Ok(None),
        Some(milliseconds) => {
            let milliseconds = milliseconds.parse().map_err(|_| unreadable(name))?;
            Ok(Some(Duration::from_millis(milliseconds)))
        }
    }
}

fn text(time: Duration) -> String {
    if time > MAX_TIME { EVER.to_owned() } else { time.as_millis().to_string() }
}

fn unreadable(name: &str) -> Error {
    Error::new(
        format!("reading the {}", name.replace(':', " of")),
        "the value in the database cannot be read",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Service;

    #[tokio::test]
    async fn a_policy_stays_as_it_was_set_until_another_start_sets_it() -> Result<()> {
        let folder = tempfile::tempdir().map_err(|cause| Error::new("creating a folder", cause))?;
        let mut config = Config::folder(folder.path());
        config.workers = 0;
        let policies = async |config: &Config| {
            let service = Service::start(config.clone()).await?;
            let policies = Policies::read(&*service.database).await;
            service.shutdown().await;
            policies
        };
        let defaults = policies(&config).await?;
        assert_eq!((defaults.task_retention, defaults.queue_timeout), (None, None));
        assert_eq!(defaults.output_retention, Some(Duration::from_hours(720)));
        let day = Duration::from_hours(24);
        let mut setting = config.clone();
        setting.task_retention = Some(day);
        setting.output_retention = Some(Duration::MAX);
        setting.storage_price_per_gib_day = Some(Money::from_smallest(7));
        setting.owners_manage_keys = Some(true);
        let set = policies(&setting).await?;
        let storage_price_per_gib_day = Money::from_smallest(7);
        let expected = Policies {
            task_retention: Some(day),
            output_retention: None,
            storage_price_per_gib_day,
            owners_manage_keys: true,
            ..defaults
        };
        assert_eq!(set, expected);
        assert_eq!(policies(&config).await?, expected, "a start that names none leaves them");
        setting.task_retention = Some(Duration::MAX);
        setting.owners_manage_keys = Some(false);
        let ended = Policies { task_retention: None, owners_manage_keys: false, ..expected };
        assert_eq!(policies(&setting).await?, ended);
        Ok(())
    }
}
