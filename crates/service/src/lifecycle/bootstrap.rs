//! What a service begins with: the operator, the catalog, and a first account.

use crate::Error;
use crate::accounts::{Account, Accounts, NewAccount, NewKey, OPERATOR, Scope};
use crate::catalog::publish_built_in;
use crate::clock::Moment;
use crate::database::sqlite::SqliteDatabase;
use crate::ledger::{Credit, Ledger, Money};
use crate::lifecycle::config::FirstAccount;
use crate::random::Randomness;

/// The setting that says that all of this has been done once.
const DONE: &str = "first account";

/// Whether the database was filled before.
pub(crate) async fn is_done(database: &SqliteDatabase) -> Result<bool, Error> {
    Ok(database.setting(DONE).await?.is_some())
}

/// Fills a fresh store and brings the catalog of an old one up to date. Returns the key of the first
/// account when this is what made it. A start that was interrupted is made up for by the next one.
pub(crate) async fn bootstrap(
    database: &SqliteDatabase,
    first: &FirstAccount,
    now: Moment,
    random: &Randomness,
) -> Result<Option<String>, Error> {
    let operator = account(database, OPERATOR, Scope::Organization, now, random).await?;
    publish_built_in(database, &operator, now).await?;
    if is_done(database).await? {
        return Ok(None);
    }
    let account = account(database, &first.username, Scope::Personal, now, random).await?;
    // Nobody has a key yet, so a purse that is not empty was filled by a start that was interrupted.
    let purses = database.purses(account.id).await?;
    if purses.balance == Money::ZERO {
        database.credit(account.id, Credit::Paid(first.balance), now).await?;
    }
    if purses.free == Money::ZERO {
        database.credit(account.id, Credit::Free(first.free_balance), now).await?;
    }
    let key = match &first.api_key {
        Some(text) => NewKey::chosen(text),
        None => NewKey::draw(random)?,
    };
    database.add_key(account.id, &key.kept, now).await?;
    database.setting_or(DONE, &account.username).await?;
    Ok(Some(key.text))
}

async fn account(
    database: &SqliteDatabase,
    name: &str,
    scope: Scope,
    now: Moment,
    random: &Randomness,
) -> Result<Account, Error> {
    database.add_account(&NewAccount::draw(name, scope, random)?, now).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::sqlite::Durability;
    use crate::lifecycle::config::Config;

    #[tokio::test]
    async fn a_start_that_was_interrupted_between_two_credits_is_made_up_for() -> Result<(), Error> {
        let folder = tempfile::tempdir().map_err(|cause| Error::new("creating a folder", cause))?;
        let database = SqliteDatabase::open(&folder.path().join("test.db"), Durability::None).await?;
        let (random, now) = (Randomness::new(Some(1)), Moment(0));
        let first = Config::ephemeral().first_account;
        let interrupted = account(&database, &first.username, Scope::Personal, now, &random).await?;
        database.credit(interrupted.id, Credit::Paid(first.balance), now).await?;
        assert!(bootstrap(&database, &first, now, &random).await?.is_some());
        let purses = database.purses(interrupted.id).await?;
        assert_eq!((purses.balance, purses.free), (first.balance, first.free_balance));
        Ok(())
    }
}
