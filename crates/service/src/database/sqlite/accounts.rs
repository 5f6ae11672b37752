//! Accounts, memberships and hashed keys in SQLite.

use async_trait::async_trait;
use rusqlite::{Connection, params};

use super::SqliteDatabase;
use super::movements::{meter_storage, purses};
use super::statements::Statements as _;
use crate::accounts::{Account, AccountId, AccountState, Accounts, NewAccount, StoredKey};
use crate::clock::Moment;
use crate::database::records::{account, column, key_of_account};
use crate::database::shared_sql::{ADD_KEY, BY_USERNAME, KEY, REVOKE_KEYS, SET_STATE, VOID_TARGETS};
use crate::database::values::json;
use crate::ledger::Purses;
use crate::{Error, Result};

#[async_trait]
impl Accounts for SqliteDatabase {
    async fn add_account(&self, new: &NewAccount, now: Moment) -> Result<Account> {
        let new = new.clone();
        self.write(move |db| add_account(db, &new, now)).await
    }

    async fn account(&self, username: &str) -> Result<Option<Account>> {
        self.first(BY_USERNAME, [username.to_owned()], account).await
    }

    async fn accounts(&self) -> Result<Vec<(Account, Purses)>> {
        self.read(|db| {
            // One transaction, so that concurrent movements of money are not seen twice.
            let snapshot = db.unchecked_transaction()?;
            let all = "SELECT id, username, scope, wallet_address, bucket, state FROM accounts ORDER BY id";
            let accounts = snapshot.all(all, [], account)?;
            let with_purses = accounts.into_iter().map(|account| {
                let purses = purses(&snapshot, account.id)?;
                Ok((account, purses))
            });
            with_purses.collect()
        })
        .await
    }

    async fn set_state(&self, account: AccountId, state: AccountState, now: Moment) -> Result<bool> {
        let invalidation = self.caches.keys.invalidate();
        self.write_guarded(invalidation, move |db| {
            if db.run(SET_STATE, params![state, account])? == 0 {
                return Ok(false);
            }
            if state != AccountState::Active {
                db.run(VOID_TARGETS, [account])?;
            }
            if state == AccountState::Closed {
                db.run(REVOKE_KEYS, params![now, account])?;
            }
            Ok(true)
        })
        .await
    }

    async fn add_member(&self, organization: AccountId, person: AccountId) -> Result<()> {
        let insert = "INSERT INTO members (organization, person) VALUES (?, ?) ON CONFLICT DO NOTHING";
        self.run(insert, (organization, person)).await.map(drop)
    }

    async fn remove_member(&self, organization: AccountId, person: AccountId, now: Moment) -> Result<bool> {
        self.write(move |db| {
            let both = params![organization, person];
            let removed = db.run("DELETE FROM members WHERE organization = ? AND person = ?", both)?;
            db.run("UPDATE upload_targets SET is_void = 1 WHERE owner = ? AND payer = ?", both)?;
            let hand_over = "UPDATE objects SET payer = owner WHERE owner = ? AND payer = ? RETURNING size";
            let sizes: Vec<i64> = db.all(hand_over, both, column)?;
            let bytes: i64 = sizes.iter().sum();
            meter_storage(db, person, -bytes, now)?;
            meter_storage(db, organization, bytes, now)?;
            Ok(removed > 0)
        })
        .await
    }

    async fn is_member(&self, organization: AccountId, person: AccountId) -> Result<bool> {
        let member = "SELECT 1 FROM members WHERE organization = ? AND person = ?";
        Ok(self.first(member, (organization, person), |_| Ok(())).await?.is_some())
    }

    async fn add_key(&self, owner: AccountId, key: &StoredKey, now: Moment) -> Result<()> {
        let key = key.clone();
        let invalidation = self.caches.keys.invalidate();
        self.write_guarded(invalidation, move |db| add_key(db, owner, &key, now)).await
    }

    async fn revoke_key(&self, id: &str, now: Moment) -> Result<bool> {
        let id = id.to_owned();
        let invalidation = self.caches.keys.invalidate();
        let revoke = "UPDATE api_keys SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL";
        self.write_guarded(invalidation, move |db| Ok(db.run(revoke, params![now, id])? > 0)).await
    }

    async fn key(&self, id: &str) -> Result<Option<(StoredKey, Account)>> {
        let read = || self.first(KEY, [id.to_owned()], key_of_account);
        self.caches.keys.get_or_read(id, read).await
    }
}

pub(super) fn add_account(db: &Connection, new: &NewAccount, now: Moment) -> Result<Account> {
    db.run(
        "INSERT INTO accounts (username, scope, wallet_address, bucket, created_at, metered_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?5) ON CONFLICT (username) DO NOTHING",
        params![new.username, new.scope, new.wallet_address, new.bucket, now],
    )?;
    Ok(db.one(BY_USERNAME, [&new.username], account)?)
}

pub(super) fn add_key(db: &Connection, owner: AccountId, key: &StoredKey, now: Moment) -> Result<()> {
    let StoredKey { id, hash, rules } = key;
    let models = rules.models.as_deref().map(json);
    let added = params![id, owner, hash, now, rules.name, rules.expires_at, rules.daily_limit, models];
    if db.run(ADD_KEY, added)? == 0 {
        return Err(Error::new("adding a key", format!("{:?} is the identifier of another key", key.id)));
    }
    Ok(())
}
