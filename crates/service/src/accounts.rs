//! Who uses the service: accounts of people and organizations, their memberships, and API keys, of
//! which only a hash is kept.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::clock::Moment;
use crate::ledger::{Money, Purses};
use crate::random::Randomness;
use crate::words::words;
use crate::{Error, Result};

/// The name of the account that publishes the official models, and that storage is paid to.
pub(crate) const OPERATOR: &str = "inferstore";

/// What the buckets of accounts begin with.
pub(crate) const BUCKET_PREFIX: &str = "files-";

/// Identifies an account inside the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AccountId(pub(crate) i64);

words! {
    /// Whose an account is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Scope {
        /// A person's.
        #[default]
        Personal = "personal",
        /// An organization's, which people may be members of.
        Organization = "organization",
    }
}

words! {
    /// State of an account.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum AccountState {
        /// The account may use the service.
        #[default]
        Active = "active",
        /// Keys are refused, queued tasks wait, and unused upload targets are void, until the operator resumes the account.
        Suspended = "suspended",
        /// Keys are revoked for good.
        Closed = "closed",
    }
}

/// An account, as the database keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) id: AccountId,
    pub(crate) username: String,
    pub(crate) scope: Scope,
    pub(crate) wallet_address: String,
    /// The name of the account's bucket in the object store.
    pub(crate) bucket: String,
    pub(crate) state: AccountState,
}

/// An account and its money, for the operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AccountOverview {
    /// The name of the account.
    #[serde(rename = "account")]
    pub username: String,
    /// Whose it is.
    pub scope: Scope,
    /// Whether it may use the service.
    pub state: AccountState,
    /// What was paid in and can be spent.
    pub balance: Money,
    /// What was given and can be spent; it is spent first.
    pub free_balance: Money,
    /// What is owed.
    pub debt: Money,
    /// What published models have earned.
    pub earnings: Money,
}

/// A new API key: its text is shown once, its hash is kept.
pub(crate) struct NewKey {
    pub(crate) text: String,
    pub(crate) kept: KeptKey,
}

/// What is kept of an API key.
#[derive(Clone)]
pub(crate) struct KeptKey {
    /// The part by which the key is found.
    pub(crate) id: String,
    pub(crate) hash: [u8; 32],
    pub(crate) rules: KeyRules,
}

/// Limits of an API key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KeyRules {
    /// For people.
    pub(crate) name: Option<String>,
    pub(crate) expires_at: Option<Moment>,
    /// The sum of the prices of the tasks that it creates on one day of UTC. Those that fail or are canceled do not count.
    pub(crate) daily_limit: Option<Money>,
    /// The models whose tasks it creates; None for any.
    pub(crate) models: Option<Vec<String>>,
}

/// How API keys begin, so that a leaked one is recognized by people and scanners.
const PREFIX: &str = "isk";
/// The smallest length of a key that was not drawn.
const MIN_CHOSEN_KEY: usize = 16;
/// How the keys of nodes begin.
pub(crate) const NODE_PREFIX: &str = "isn";

impl NewKey {
    /// Draws a key: `isk_<id>_<secret>`, with 130 random bits in its secret.
    pub(crate) fn draw(random: &Randomness) -> Result<Self> {
        Self::draw_with(PREFIX, random)
    }

    /// Draws a key that begins so: `NODE_PREFIX` for nodes.
    pub(crate) fn draw_with(prefix: &str, random: &Randomness) -> Result<Self> {
        let id = random.word(12)?;
        let text = format!("{prefix}_{id}_{}", random.word(26)?);
        let hash = hash(&text);
        Ok(Self { text, kept: KeptKey { id, hash, rules: KeyRules::default() } })
    }

    /// Takes a key that was chosen, not drawn, for a service whose key is known beforehand. The whole text
    /// identifies it, hashed, if it is not of the form that the service draws.
    pub(crate) fn chosen(text: &str) -> Result<Self> {
        let is_sendable = text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_sendable || text.len() < MIN_CHOSEN_KEY {
            let cause = format!("a key has at least {MIN_CHOSEN_KEY} visible ASCII characters and no spaces");
            return Err(Error::setting("taking a chosen API key", cause));
        }
        let kept = KeptKey { id: key_id(text), hash: hash(text), rules: KeyRules::default() };
        Ok(Self { kept, text: text.to_owned() })
    }
}

impl KeptKey {
    /// Whether this is what is kept of the key, compared in constant time.
    pub(crate) fn is_of(&self, text: &str) -> bool {
        self.hash.ct_eq(&hash(text)).into()
    }
}

/// The part of a key by which it is found.
pub(crate) fn key_id(text: &str) -> String {
    let mut parts = text.split('_');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(PREFIX | NODE_PREFIX), Some(id), Some(_), None) => id.to_owned(),
        _ => hash(text).iter().take(8).map(|byte| format!("{byte:02x}")).collect(),
    }
}

/// A key carries far more randomness than anyone can search, so one round of a fast hash suffices.
fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// What the store knows of accounts. Every method is one transaction.
#[async_trait]
pub(crate) trait Accounts: Send + Sync {
    /// Adds an account, or returns the one that has this name already.
    async fn add_account(&self, account: &NewAccount, now: Moment) -> Result<Account>;
    async fn account(&self, username: &str) -> Result<Option<Account>>;
    /// All accounts with what is in their purses, as of one moment, the oldest first.
    async fn accounts(&self) -> Result<Vec<(Account, Purses)>>;
    /// Changes the state of an account; false when it is closed and would be opened. An account that may not use the
    /// service loses its unused upload targets, and a closed one its keys.
    async fn set_state(&self, account: AccountId, state: AccountState, now: Moment) -> Result<bool>;
    /// Makes a person a member of an organization.
    async fn add_member(&self, organization: AccountId, person: AccountId) -> Result<()>;
    /// Ends a membership, and voids the upload targets that the person has asked for; false when there was
    /// none. From now on the organization pays for the files that the person has uploaded for it, which it alone can
    /// delete.
    async fn remove_member(&self, organization: AccountId, person: AccountId, now: Moment) -> Result<bool>;
    async fn is_member(&self, organization: AccountId, person: AccountId) -> Result<bool>;
    /// Adds a key, or makes it valid again; fails when its identifier is that of another key.
    async fn add_key(&self, owner: AccountId, key: &KeptKey, now: Moment) -> Result<()>;
    /// Revokes a key by its identifier; false when there is none that is valid.
    async fn revoke_key(&self, id: &str, now: Moment) -> Result<bool>;
    /// The valid key with this identifier, and the account that it belongs to. A key that another process
    /// has revoked may be valid for up to ten seconds more.
    async fn key(&self, id: &str) -> Result<Option<(KeptKey, Account)>>;
}

/// An account to be added.
#[derive(Clone)]
pub(crate) struct NewAccount {
    pub(crate) username: String,
    pub(crate) scope: Scope,
    pub(crate) wallet_address: String,
    pub(crate) bucket: String,
}

impl NewAccount {
    pub(crate) fn draw(username: &str, scope: Scope, random: &Randomness) -> Result<Self> {
        Ok(Self {
            username: username.to_owned(),
            scope,
            // No currency has an address of this form, so no payment can go to it.
            wallet_address: format!("local:{username}"),
            bucket: format!("{BUCKET_PREFIX}{}", random.word(16)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_by_its_identifier_and_recognized_by_its_hash() -> Result<(), Error> {
        let key = NewKey::draw(&Randomness::new(Some(1)))?;
        assert_eq!(key_id(&key.text), key.kept.id);
        assert!(key.kept.is_of(&key.text));
        assert!(!key.kept.is_of(&format!("{}x", key.text)));
        assert!(NewKey::chosen("any-text-at-all!")?.kept.is_of("any-text-at-all!"));
        Ok(())
    }
}
