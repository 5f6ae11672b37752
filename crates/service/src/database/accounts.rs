//! Accounts, memberships and hashed keys, in any engine.

use async_trait::async_trait;

use super::cache::CachedRows;
use super::engine::{Engine, How, Rows as _, Session, params, work};
use super::ledger::meter_storage;
use super::records::{RowFrom, account, column, key_of_account, purses};
use super::values::json;
use crate::accounts::{Account, AccountId, AccountState, Accounts, NewAccount, StoredKey};
use crate::clock::Moment;
use crate::ledger::Purses;
use crate::{Error, Result};

const KEYS: How = How::Change(CachedRows::Keys);

const BY_USERNAME: &str =
    "SELECT id, username, scope, wallet_address, bucket, state FROM accounts WHERE username = $1";

const KEY: &str = "SELECT api_keys.id, hash, accounts.id, username, scope, wallet_address, bucket, state, \
     name, expires_at, daily_limit, models \
     FROM api_keys JOIN accounts ON accounts.id = api_keys.account \
     WHERE api_keys.id = $1 AND revoked_at IS NULL";

#[async_trait]
impl<E: Engine> Accounts for E {
    async fn add_account(&self, new: &NewAccount, now: Moment) -> Result<Account> {
        work!(self, How::Transaction, |db, new, now| add_account(db, new, *now).await)
    }

    async fn account(&self, username: &str) -> Result<Option<Account>> {
        self.first(BY_USERNAME, params![username], account).await
    }

    async fn accounts(&self) -> Result<Vec<(Account, Purses)>> {
        // One statement, so that concurrent movements of money are not seen twice.
        self.all(E::DIALECT.accounts, params![], |row| {
            Ok((account(row)?, purses(&RowFrom { first: 6, row })?))
        })
        .await
    }

    async fn set_state(&self, account: AccountId, state: AccountState, now: Moment) -> Result<bool> {
        work!(self, KEYS, |db, account, state, now| {
            let set = "UPDATE accounts SET state = $1 WHERE id = $2 AND (state <> 'closed' OR $1 = 'closed')";
            if db.run(set, params![state, account]).await? == 0 {
                return Ok(false);
            }
            if *state != AccountState::Active {
                let void = "UPDATE upload_targets SET is_void = true \
                            WHERE NOT is_used AND NOT is_void AND (owner = $1 OR payer = $1)";
                db.run(void, params![account]).await?;
            }
            if *state == AccountState::Closed {
                let revoke = "UPDATE api_keys SET revoked_at = $1 WHERE account = $2 AND revoked_at IS NULL";
                db.run(revoke, params![now, account]).await?;
            }
            Ok(true)
        })
    }

    async fn add_member(&self, organization: AccountId, person: AccountId) -> Result<()> {
        let insert = "INSERT INTO members (organization, person) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        self.run(insert, params![organization, person]).await.map(drop)
    }

    async fn remove_member(&self, organization: AccountId, person: AccountId, now: Moment) -> Result<bool> {
        work!(self, How::Transaction, |db, organization, person, now| {
            let delete = "DELETE FROM members WHERE organization = $1 AND person = $2";
            let removed = db.run(delete, params![organization, person]).await?;
            let void = "UPDATE upload_targets SET is_void = true WHERE owner = $1 AND payer = $2";
            db.run(void, params![organization, person]).await?;
            // Locks are taken in the order of all transactions: objects before purses.
            let hand_over = "UPDATE objects SET payer = owner WHERE owner = $1 AND payer = $2 RETURNING size";
            let sizes: Vec<i64> = db.all(hand_over, params![organization, person], column).await?;
            let bytes: i64 = sizes.iter().sum();
            db.lock_purses(&[*organization, *person]).await?;
            meter_storage(db, *person, -bytes, *now).await?;
            meter_storage(db, *organization, bytes, *now).await?;
            Ok(removed > 0)
        })
    }

    async fn is_member(&self, organization: AccountId, person: AccountId) -> Result<bool> {
        let member = "SELECT 1 FROM members WHERE organization = $1 AND person = $2";
        self.is_there(member, params![organization, person]).await
    }

    async fn add_key(&self, owner: AccountId, key: &StoredKey, now: Moment) -> Result<()> {
        work!(self, KEYS, |db, owner, key, now| add_key(db, *owner, key, *now).await)
    }

    async fn revoke_key(&self, id: &str, now: Moment) -> Result<bool> {
        let revoke = "UPDATE api_keys SET revoked_at = $1 WHERE id = $2 AND revoked_at IS NULL";
        Ok(self.run_as(KEYS, revoke, params![now, id]).await? > 0)
    }

    async fn key(&self, id: &str) -> Result<Option<(StoredKey, Account)>> {
        let read = || async { self.first(KEY, params![id], key_of_account).await };
        self.caches().keys.get_or_read(id, read).await
    }
}

pub(super) async fn add_account(db: &dyn Session, new: &NewAccount, now: Moment) -> Result<Account> {
    let NewAccount { username, scope, wallet_address, bucket } = new;
    let added = params![username, scope, wallet_address, bucket, now];
    db.run(db.dialect().add_account, added).await?;
    db.one(BY_USERNAME, params![username], account).await
}

pub(super) async fn add_key(db: &dyn Session, owner: AccountId, key: &StoredKey, now: Moment) -> Result<()> {
    let StoredKey { id, hash, rules } = key;
    let models = rules.models.as_deref().map(json);
    let insert = "INSERT INTO api_keys (id, account, hash, created_at, name, expires_at, daily_limit, models) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) \
         ON CONFLICT (id) DO UPDATE SET revoked_at = NULL \
         WHERE api_keys.account = excluded.account AND api_keys.hash = excluded.hash";
    let added = params![id, owner, hash, now, rules.name, rules.expires_at, rules.daily_limit, models];
    match db.run(insert, added).await? {
        0 => Err(Error::new("adding a key", format!("{id:?} is the identifier of another key"))),
        _ => Ok(()),
    }
}
