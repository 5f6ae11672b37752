//! Bootstrap of a service: the operator, the catalog, and the first account.

use crate::Result;
use crate::accounts::{NewAccount, NewKey, OPERATOR, Scope};
use crate::catalog::{Existing, built_in_models};
use crate::clock::Moment;
use crate::config::Config;
use crate::database::{Bootstrap, Database, FIRST_ACCOUNT};
use crate::random::Randomness;

pub(crate) async fn is_done(database: &dyn Database) -> Result<bool> {
    Ok(database.setting(FIRST_ACCOUNT).await?.is_some())
}

/// Fills a new database, resumes an interrupted bootstrap, and updates built-in models. Returns a created key.
pub(crate) async fn bootstrap(
    database: &dyn Database,
    config: &Config,
    now: Moment,
    random: &Randomness,
) -> Result<Option<NewKey>> {
    let first = &config.first_account;
    let key = match &first.api_key {
        Some(text) => NewKey::chosen(text).map_err(|refused| {
            refused.with_hint("correct the first key: --first-key-file or INFERSTORE_FIRST_KEY has it")
        })?,
        None => NewKey::draw(random)?,
    };
    let begin = Bootstrap {
        operator: NewAccount::draw(OPERATOR, Scope::Organization, random)?,
        first: NewAccount::draw(&first.username, Scope::Personal, random)?,
        balance: first.balance,
        free_balance: first.free_balance,
        key: key.kept.clone(),
    };
    let begun = database.bootstrap(&begin, now).await?;
    let limits = inferstore_models::Limits {
        pixels: config.limits.pixels,
        memory: config.limits.memory,
        deadline: None,
    };
    let models = built_in_models(&begun.operator, &limits, &config.excluded_models, now)?;
    database.publish(&models, Existing::Refresh).await?;
    if first.api_key.is_some() && !begun.is_key_new {
        let valid = database.key(&key.kept.id).await?;
        if !valid.is_some_and(|(valid, _)| valid.is_of(&key.text)) {
            tracing::warn!("the first key was not used: the data folder has its first account already");
        }
    }
    Ok(begun.is_key_new.then_some(key))
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::ledger::Money;
    use crate::{Error, Service};

    #[tokio::test]
    async fn a_first_key_that_is_none_is_refused_with_the_settings_that_have_it() {
        let mut config = Config::ephemeral();
        config.first_account.api_key = Some("short".to_owned());
        let refused = Service::start(config).await.err();
        let hint = refused.and_then(|error| error.hint()).unwrap_or_default();
        assert!(hint.contains("--first-key-file") && hint.contains("INFERSTORE_FIRST_KEY"), "{hint}");
    }

    #[tokio::test]
    async fn amounts_that_the_first_account_cannot_have_are_wrong_settings() {
        let largest = i64::MAX;
        for (balance, free_balance) in [(-5, 0), (0, -5), (largest, 1)] {
            let mut config = Config::ephemeral();
            config.first_account.balance = Money::from_smallest(balance);
            config.first_account.free_balance = Money::from_smallest(free_balance);
            let refused = Service::start(config).await.err();
            assert!(
                refused
                    .as_ref()
                    .is_some_and(|refused| refused.is_setting() && refused.to_string().contains("balance")),
                "{refused:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_name_that_no_account_may_have_is_a_wrong_setting() {
        for name in ["", " ", "a/b", "a\nb", "A", "-x", "inferstore"] {
            let mut config = Config::ephemeral();
            name.clone_into(&mut config.first_account.username);
            let refused = Service::start(config).await.err();
            let is_named = |refused: &Error| refused.is_setting() && refused.to_string().contains("name");
            assert!(refused.as_ref().is_some_and(is_named), "{name:?}: {refused:?}");
        }
    }

    #[tokio::test]
    async fn a_service_has_a_key_for_its_first_account_until_one_was_read() -> Result<(), Error> {
        let folder = tempfile::tempdir().map_err(|cause| Error::new("creating a folder", cause))?;
        let start = || Service::start(Config::folder(folder.path().join("data")));
        start().await?.shutdown().await;
        let service = start().await?;
        assert!(service.api_key().is_some(), "no start has shown a key, and there is no other");
        service.shutdown().await;
        let service = start().await?;
        assert!(service.api_key().is_none());
        service.shutdown().await;
        Ok(())
    }
}
