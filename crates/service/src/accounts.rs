//! Accounts of people and organizations, their memberships, and API keys, of which the database stores only a hash.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::clock::Moment;
use crate::hex::hex;
pub(crate) use crate::ids::AccountId;
use crate::ledger::{Money, Purses};
use crate::random::Randomness;
use crate::string_enum::string_enum;
use crate::{Error, Result};

/// Username of the operator's account, which publishes the official models and receives the storage charges.
pub(crate) const OPERATOR: &str = "inferstore";

pub(crate) const BUCKET_PREFIX: &str = "files-";

const MAX_NAME: usize = 64;

const MAX_KEY_NAME: usize = 100;

/// Validates a new name. Names are lower-case, so that no two differ in case alone.
pub(crate) fn check_name(name: &str) -> Result<(), &'static str> {
    let is_letter = |letter: char| letter.is_alphanumeric() && letter.to_lowercase().eq([letter]);
    let is_inside = |letter: char| is_letter(letter) || matches!(letter, '.' | '_' | '-' | '@' | '+');
    if name.is_empty() {
        Err("it needs a name")
    } else if name.chars().count() > MAX_NAME {
        Err("a name has at most 64 characters")
    } else if !name.starts_with(is_letter) || !name.chars().all(is_inside) {
        Err(
            "a name has lower-case letters, digits, `.`, `_`, `-`, `@` and `+`, and begins with a letter or a digit",
        )
    } else {
        Ok(())
    }
}

pub(crate) fn check_line(name: &str, text: &str, max: usize) -> Result<(), String> {
    if text.trim().is_empty() || text.chars().count() > max || text.chars().any(char::is_control) {
        return Err(format!("a {name} is one line of 1 to {max} characters"));
    }
    if redact_keys(text) != text {
        return Err(format!("a {name} must not contain an API key: others can read it"));
    }
    Ok(())
}

pub(crate) fn redact_keys(text: &str) -> String {
    const MIN_SECRET: usize = 8;
    let word = |text: &str| text.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(text.len());
    let mut parts = text.split("isk_");
    let mut redacted = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (id, rest) = part.split_at(word(part));
        redacted.extend(["isk_", id]);
        let secret = rest.strip_prefix('_').map(|secret| secret.split_at(word(secret)));
        match secret.filter(|(secret, _)| !id.is_empty() && secret.len() >= MIN_SECRET) {
            Some((_, rest)) => redacted.extend(["_…", rest]),
            None => redacted.push_str(rest),
        }
    }
    redacted
}

string_enum! {
    /// Type of an account.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Scope {
        /// A person's account.
        #[default]
        Personal = "personal",
        /// An organization's account. People can be members of an organization.
        Organization = "organization",
    }
}

string_enum! {
    /// State of an account.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum AccountState {
        /// The account may use the service.
        #[default]
        Active = "active",
        /// The service refuses the account's keys, leaves its queued tasks waiting and voids its unused upload targets.
        Suspended = "suspended",
        /// The account's keys are revoked permanently.
        Closed = "closed",
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) id: AccountId,
    pub(crate) username: String,
    pub(crate) scope: Scope,
    pub(crate) wallet_address: String,
    pub(crate) bucket: String,
    pub(crate) state: AccountState,
}

/// An account and its purses, for the operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AccountOverview {
    /// Username of the account.
    #[serde(rename = "account")]
    pub username: String,
    /// Type of the account: personal or organization.
    pub scope: Scope,
    /// State of the account.
    pub state: AccountState,
    /// Paid money that can be spent.
    pub balance: Money,
    /// Free credits; a price is taken from free credits first.
    pub free_balance: Money,
    /// Debt for storage.
    pub debt: Money,
    /// Earnings of published models.
    pub earnings: Money,
}

pub(crate) struct NewKey {
    pub(crate) text: String,
    pub(crate) kept: StoredKey,
}

#[derive(Clone)]
pub(crate) struct StoredKey {
    pub(crate) id: String,
    pub(crate) hash: [u8; 32],
    pub(crate) rules: KeyRules,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KeyRules {
    pub(crate) name: Option<String>,
    pub(crate) expires_at: Option<Moment>,
    /// Daily limit on the prices of the tasks that the key creates (UTC), without failed and canceled tasks.
    pub(crate) daily_limit: Option<Money>,
    /// Models whose tasks the key may create; None for all.
    pub(crate) models: Option<Vec<String>>,
}

impl KeyRules {
    pub(crate) const fn are_restrictive(&self) -> bool {
        self.expires_at.is_some() || self.daily_limit.is_some() || self.models.is_some()
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if let Some(name) = &self.name {
            check_line("name", name, MAX_KEY_NAME)?;
        }
        if self.daily_limit.is_some_and(|limit| !limit.is_positive()) {
            return Err("the daily limit is not above zero".to_owned());
        }
        if self.models.as_ref().is_some_and(Vec::is_empty) {
            return Err("models names no model".to_owned());
        }
        Ok(())
    }
}

/// Prefix of API keys, by which people and secret scanners recognize a leaked key.
const PREFIX: &str = "isk";
const MIN_CHOSEN_KEY: usize = 16;
pub(crate) const NODE_PREFIX: &str = "isn";

impl NewKey {
    /// Generates a key: `isk_<id>_<secret>`, with 130 random bits in its secret.
    pub(crate) fn draw(random: &Randomness) -> Result<Self> {
        Self::draw_with(PREFIX, random)
    }

    pub(crate) fn draw_with(prefix: &str, random: &Randomness) -> Result<Self> {
        let id = random.word(12)?;
        let text = format!("{prefix}_{id}_{}", random.word(26)?);
        let hash = hash(&text);
        Ok(Self { text, kept: StoredKey { id, hash, rules: KeyRules::default() } })
    }

    /// Creates a key from a chosen text. A text without the form of a generated key is identified by its hash.
    pub(crate) fn chosen(text: &str) -> Result<Self> {
        let is_sendable = text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_sendable || text.len() < MIN_CHOSEN_KEY {
            let cause = format!("a key has at least {MIN_CHOSEN_KEY} visible ASCII characters and no spaces");
            return Err(Error::setting("taking a chosen API key", cause));
        }
        if ['"', '\''].iter().any(|quote| text.starts_with(*quote) && text.ends_with(*quote)) {
            return Err(Error::setting(
                "taking a chosen API key",
                "the key is in quotes; leave the quotes out",
            ));
        }
        let kept = StoredKey { id: key_id(text), hash: hash(text), rules: KeyRules::default() };
        Ok(Self { kept, text: text.to_owned() })
    }
}

impl StoredKey {
    pub(crate) fn is_of(&self, text: &str) -> bool {
        self.hash.ct_eq(&hash(text)).into()
    }
}

pub(crate) fn key_id(text: &str) -> String {
    let mut parts = text.split('_');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(PREFIX | NODE_PREFIX), Some(id), Some(_), None) => id.to_owned(),
        _ => hex(hash(text).get(..8).unwrap_or_default()),
    }
}

/// Hashes a key. One round of a fast hash suffices, because a key has too much randomness for a search.
fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

#[async_trait]
pub(crate) trait Accounts: Send + Sync {
    /// Inserts an account, or returns the existing account with this username.
    async fn add_account(&self, account: &NewAccount, now: Moment) -> Result<Account>;
    async fn account(&self, username: &str) -> Result<Option<Account>>;
    async fn accounts(&self) -> Result<Vec<(Account, Purses)>>;
    /// Sets the state; false if a closed account would reopen. Suspending voids unused targets, closing the keys too.
    async fn set_state(&self, account: AccountId, state: AccountState, now: Moment) -> Result<bool>;
    async fn add_member(&self, organization: AccountId, person: AccountId) -> Result<()>;
    /// Ends a membership, and voids upload targets that the person has requested for the organization; false if no
    /// member. The organization then pays for the person's uploads into its storage, and it alone can delete them.
    async fn remove_member(&self, organization: AccountId, person: AccountId, now: Moment) -> Result<bool>;
    async fn is_member(&self, organization: AccountId, person: AccountId) -> Result<bool>;
    /// Inserts a key, or un-revokes it; fails if another key has the same identifier.
    async fn add_key(&self, owner: AccountId, key: &StoredKey, now: Moment) -> Result<()>;
    async fn revoke_key(&self, id: &str, now: Moment) -> Result<bool>;
    /// Returns a valid key with its account, from the cache up to ten seconds after another process revoked the key.
    async fn key(&self, id: &str) -> Result<Option<(StoredKey, Account)>>;
}

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
        for quoted in ["\"isk_ab12_secretsecret\"", "'isk_ab12_secretsecret'"] {
            let refused = NewKey::chosen(quoted).err().map(|error| error.to_string());
            assert!(refused.is_some_and(|error| error.contains("leave the quotes out")), "{quoted}");
        }
        Ok(())
    }

    #[test]
    fn a_key_in_a_text_is_replaced_and_a_name_with_one_is_refused() {
        let text = "/keys/isk_ab12_secretsecret?of=isk_cd_otherother, isk_ef isk_ef_short";
        assert_eq!(redact_keys(text), "/keys/isk_ab12_…?of=isk_cd_…, isk_ef isk_ef_short");
        assert!(check_line("name", "my isk_ab12_secretsecret", 99).is_err());
        assert!(check_line("name", "the key isk_ab12", 99).is_ok());
    }
}
