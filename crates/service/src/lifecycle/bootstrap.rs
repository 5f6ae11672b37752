//! What a service begins with: the operator, the community, the catalog, and a first account.

use crate::Error;
use crate::accounts::{NewAccount, NewKey, OPERATOR, Scope};
use crate::catalog::publish_built_in;
use crate::clock::Moment;
use crate::database::{Bootstrap, Database};
use crate::lifecycle::config::FirstAccount;
use crate::random::Randomness;

/// The account that publishes the models of the community.
const COMMUNITY: &str = "atelier";

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
        community: NewAccount::draw(COMMUNITY, Scope::Organization, random)?,
        first: NewAccount::draw(&first.username, Scope::Personal, random)?,
        balance: first.balance,
        free_balance: first.free_balance,
        key: key.kept.clone(),
    };
    let begun = database.bootstrap(&begin, now).await?;
    publish_built_in(database, begun.operator, begun.community).await?;
    Ok(begun.is_key_new.then_some(key))
}
