//! Administration: by methods, and over HTTP on the socket `admin.sock` in the data folder. The API offers none.

mod adjust;
mod audit_log;
mod backup;
pub(crate) mod http;
mod keys;
mod levers;
pub(crate) mod publish;
#[cfg(unix)]
pub(crate) mod socket;

use tokio_util::task::TaskTracker;

use crate::Limits;
use crate::accounts::check_name;
use crate::background::BackgroundTasks;
use crate::clock::Clock;
use crate::database::Database;
use crate::nodes::Dispatcher;
use crate::object_storage::Objects;
use crate::operator::Refund;
use crate::random::Randomness;
use std::sync::Arc;

pub use backup::Backup;

use crate::Error;
use crate::accounts::{
    Account, AccountOverview, AccountState, KeyRules, NODE_PREFIX, NewAccount, NewKey, Scope, key_id,
};
use crate::files::TargetsOf;
use crate::ledger::{Audit, Money, Purses};

/// Operator's methods of a service. A [`Service`](crate::Service) derefs to this type.
#[derive(Clone)]
pub struct Admin {
    pub(crate) database: Arc<dyn Database>,
    pub(crate) clock: Clock,
    pub(crate) random: Randomness,
    pub(crate) objects: Arc<Objects>,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) background: BackgroundTasks,
    pub(crate) requests: TaskTracker,
    pub(crate) limits: Limits,
}

impl Admin {
    /// Adds an account without money and keys. Fails if the name is taken or invalid (valid: up to 64 lower-case
    /// letters, digits, `.`, `_`, `-`, `@` and `+`, of which the first is a letter or a digit).
    pub async fn add_account(&self, username: &str, scope: Scope) -> Result<(), Error> {
        let doing = || format!("adding the account {username:?}");
        check_name(username).map_err(|why| Error::new(doing(), why))?;
        let new = NewAccount::draw(username, scope, &self.random)?;
        let bucket = new.bucket.clone();
        let kept = self.database.add_account(&new, self.clock.now()).await?;
        // An existing account has another bucket.
        if kept.bucket == bucket { Ok(()) } else { Err(Error::new(doing(), "the name is taken")) }
    }

    /// Returns all accounts with their money, oldest first. The first account is the operator's.
    pub async fn accounts(&self) -> Result<Vec<AccountOverview>, Error> {
        let accounts = self.database.accounts().await?;
        let overview = |(account, purses): (Account, Purses)| AccountOverview {
            username: account.username,
            scope: account.scope,
            state: account.state,
            balance: purses.balance,
            free_balance: purses.free,
            debt: purses.owed(),
            earnings: purses.earnings,
        };
        Ok(accounts.into_iter().map(overview).collect())
    }

    /// Adds a member to an organization, who sees its private models and may upload into its storage. Fails if one of
    /// the accounts does not exist, is closed or has the wrong scope.
    pub async fn add_member(&self, organization: &str, person: &str) -> Result<(), Error> {
        let doing = "adding a member";
        let (organization, person) =
            (self.account(organization, doing).await?, self.account(person, doing).await?);
        if (organization.scope, person.scope) != (Scope::Organization, Scope::Personal) {
            return Err(Error::new(doing, "persons are members of organizations"));
        }
        for account in [&organization, &person] {
            if account.state == AccountState::Closed {
                return Err(Error::new(doing, format!("the account {:?} is closed", account.username)));
            }
        }
        self.database.add_member(organization.id, person.id).await
    }

    /// Ends a membership, and voids the member's upload targets; false if there was none. The member's uploads stay.
    pub async fn remove_member(&self, organization: &str, person: &str) -> Result<bool, Error> {
        let doing = "removing a member";
        let (organization, person) =
            (self.account(organization, doing).await?, self.account(person, doing).await?);
        // Uploads so far become files if the object store responds; the membership ends either way.
        if let Err(cause) = self.objects.reconcile(TargetsOf::Owner(organization.id)).await {
            tracing::warn!(%cause, "uploads of a member who leaves could not be looked for");
        }
        self.database.remove_member(organization.id, person.id, self.clock.now()).await
    }

    /// Creates an API key for an account. The database stores only the hash, so the key is shown only now.
    pub async fn add_key(&self, username: &str) -> Result<String, Error> {
        self.add_key_with(username, KeyRules::default()).await
    }

    pub(crate) async fn add_key_with(&self, username: &str, rules: KeyRules) -> Result<String, Error> {
        let account = self.account(username, "adding a key").await?;
        if account.state == AccountState::Closed {
            return Err(Error::new("adding a key", "the account is closed"));
        }
        let mut key = NewKey::draw(&self.random)?;
        key.kept.rules = rules;
        self.database.add_key(account.id, &key.kept, self.clock.now()).await?;
        Ok(key.text)
    }

    /// Revokes an API key, given as the whole key, its identifier, or an unambiguous prefix of the identifier of at
    /// least four characters, with or without `isk_`. Returns false if no key matches, fails if several do.
    pub async fn revoke_key(&self, key: &str) -> Result<bool, Error> {
        Ok(self.revoke(key).await?.is_some())
    }

    pub(crate) async fn revoke(&self, key: &str) -> Result<Option<String>, Error> {
        let doing = "revoking a key";
        let id = key_id(key);
        let revoke = async |id: String| {
            let revoked = self.database.revoke_key(&id, self.clock.now()).await?;
            Ok(revoked.then_some(id))
        };
        if let Some((kept, _)) = self.database.key(&id).await?
            && kept.is_of(key)
        {
            return revoke(id).await;
        }
        let beginning = key.strip_prefix("isk_").unwrap_or(key);
        let keys = self.database.keys_like(beginning).await?;
        let id = match &keys[..] {
            [id, ..] if id == beginning => id.clone(),
            _ if beginning.len() < 4 => {
                return Err(Error::not_found(doing, "a beginning of a key has at least four characters"));
            }
            [] => return Ok(None),
            [id] => id.clone(),
            _ => return Err(Error::new(doing, "several keys begin like this; name more of the one")),
        };
        revoke(id).await
    }

    /// Refunds the charge of a successful task from its publisher's earnings, once. Returns the account and the amount;
    /// None if there is no such task. Fails if nothing was charged, the task was refunded, or the earnings are too low.
    pub async fn refund_task(&self, task: &str) -> Result<Option<(String, Money)>, Error> {
        let no = |cause: String| Err(Error::new(format!("refunding the task {task:?}"), cause));
        match self.database.refund(task, self.clock.now()).await? {
            Refund::Done { account, amount } => Ok(Some((account, amount))),
            Refund::NotCharged => no("it has cost nothing".to_owned()),
            Refund::Already => no("it was refunded before".to_owned()),
            Refund::EarningsTooSmall { earnings } => {
                no(format!("its publisher has earnings of {earnings} only"))
            }
            Refund::Unknown => Ok(None),
        }
    }

    /// Creates a key for all models, which external nodes may share. The database stores only the hash, so the key is
    /// shown only now. Fails if the name is invalid as an account name or has a valid key; it may have a revoked one.
    pub async fn add_node_key(&self, name: &str) -> Result<String, Error> {
        self.draw_node_key(name, None).await
    }

    /// Creates a key for external nodes that serve only these models: nodes with this key get no tasks and see no
    /// inputs of other models. The models may be published later. Fails as `add_node_key` does, or without models.
    pub async fn add_node_key_for(&self, name: &str, models: &[String]) -> Result<String, Error> {
        if models.is_empty() {
            return Err(Error::new(format!("adding the node key {name:?}"), "it names no model to serve"));
        }
        self.draw_node_key(name, Some(models)).await
    }

    async fn draw_node_key(&self, name: &str, models: Option<&[String]>) -> Result<String, Error> {
        let doing = || format!("adding the node key {name:?}");
        check_name(name).map_err(|why| Error::new(doing(), why))?;
        let key = NewKey::draw_with(NODE_PREFIX, &self.random)?;
        match self.database.add_node_key(name, &key.kept, models, self.clock.now()).await? {
            true => Ok(key.text),
            false => Err(Error::new(doing(), "the name has a valid key; revoke it first")),
        }
    }

    /// Revokes the node key of this name, deletes its nodes and frees their tasks; false if there is no valid key.
    pub async fn revoke_node_key(&self, name: &str) -> Result<bool, Error> {
        let revoked = self.database.revoke_node_key(name, self.clock.now()).await?;
        self.dispatcher.look_for_all();
        Ok(revoked)
    }

    /// Recomputes every balance from the movements of money.
    pub async fn audit(&self) -> Result<Audit, Error> {
        self.database.audit().await
    }

    pub(crate) async fn account(&self, username: &str, doing: &str) -> Result<Account, Error> {
        let unknown = || Error::not_found(doing, format!("there is no account {username:?}"));
        self.database.account(username).await?.ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use crate::accounts::{NewKey, Scope};
    use crate::{Config, Error, Service};

    #[tokio::test]
    async fn a_beginning_that_several_keys_have_revokes_none_of_them() -> Result<(), Error> {
        let service = Service::start(Config::ephemeral()).await?;
        let (database, now) = (&service.database, service.clock.now());
        let owner = service.account("demo", "finding an account").await?.id;
        for key in ["isk_twins1_aaaaaaaa", "isk_twins2_bbbbbbbb"] {
            database.add_key(owner, &NewKey::chosen(key)?.kept, now).await?;
        }
        let ambiguous = service.revoke_key("isk_twins").await;
        assert!(ambiguous.is_err_and(|error| error.to_string().contains("several keys")));
        assert!(service.revoke_key("twins2").await?);
        assert!(database.key("twins1").await?.is_some() && database.key("twins2").await?.is_none());
        service.shutdown().await;
        Ok(())
    }

    #[tokio::test]
    async fn an_identifier_revokes_its_key_whatever_others_begin_with() -> Result<(), Error> {
        let service = Service::start(Config::ephemeral()).await?;
        let (database, now) = (&service.database, service.clock.now());
        let owner = service.account("demo", "finding an account").await?.id;
        for key in ["isk_me_aaaaaaaaaa", "isk_twins_aaaaaaaa", "isk_twins2_bbbbbbbb"] {
            database.add_key(owner, &NewKey::chosen(key)?.kept, now).await?;
        }
        assert!(service.revoke_key("isk_me").await? && service.revoke_key("twins").await?);
        assert!(database.key("me").await?.is_none() && database.key("twins").await?.is_none());
        assert!(database.key("twins2").await?.is_some());
        service.shutdown().await;
        Ok(())
    }

    #[tokio::test]
    async fn a_name_is_a_word_in_lower_case() -> Result<(), Error> {
        let service = Service::start(Config::ephemeral()).await?;
        let longest = "é".repeat(64);
        for name in ["lena", "lena-ø.2", "lena+a_b@example.com", "名前", "7", &longest] {
            service.add_account(name, Scope::Personal).await?;
            service.add_node_key(name).await?;
        }
        let too_long = "e".repeat(65);
        let none = [
            "",
            " ",
            " lena",
            "lena\n",
            "le\na",
            "le na",
            "le/na",
            "le\u{2028}na",
            "\u{7f}",
            "-x",
            ".",
            "..",
            "@",
            "bad!",
            "Lena",
            "lenA",
            "\u{1c5}",
            "le\u{301}na",
            &too_long,
        ];
        for name in none {
            let refused = service.add_account(name, Scope::Personal).await;
            assert!(refused.is_err_and(|error| error.to_string().contains("name")), "{name:?}");
            let refused = service.add_node_key(name).await;
            assert!(refused.is_err_and(|error| error.to_string().contains("name")), "{name:?}");
        }
        service.shutdown().await;
        Ok(())
    }
}
