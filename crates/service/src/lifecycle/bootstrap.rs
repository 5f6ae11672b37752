//! What a service begins with: the operator, the catalog, and a first account.

use crate::Error;
use crate::accounts::{NewAccount, NewKey, OPERATOR, Scope};
use crate::catalog::publish_built_in;
use crate::clock::Moment;
use crate::database::{Bootstrap, Database, FIRST_ACCOUNT};
use crate::lifecycle::config::FirstAccount;
use crate::random::Randomness;

/// Whether the database was filled before.
pub(crate) async fn is_done(database: &dyn Database) -> Result<bool, Error> {
    Ok(database.setting(FIRST_ACCOUNT).await?.is_some())
}

/// Fills a fresh database and brings the catalog of an old one up to date. Returns the key of the first
/// account when this added it. The next start does what an interrupted one has left.
pub(crate) async fn bootstrap(
    database: &dyn Database,
    first: &FirstAccount,
    now: Moment,
    random: &Randomness,
) -> Result<Option<NewKey>, Error> {
    let key = match &first.api_key {
        Some(text) => NewKey::chosen(text),
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
    publish_built_in(database, &begun.operator, now).await?;
    Ok(begun.is_key_new.then_some(key))
}
