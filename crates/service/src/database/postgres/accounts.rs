//! Accounts, memberships and hashed keys in PostgreSQL.

use async_trait::async_trait;
use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::types::ToSql;

use super::PostgresDatabase;
use super::changes::Change;
use super::failure::{Outcome, read, statement, transaction};
use super::movements::{lock, meter_storage, read_purses};
use super::statements::{all, first, is_there, one, run};
use crate::accounts::{Account, AccountId, AccountState, Accounts, KeyRules, NewAccount, StoredKey};
use crate::clock::Moment;
use crate::database::records::{RowFrom, account, column, key_of_account};
use crate::database::shared_sql::{ADD_KEY, BY_USERNAME, KEY, REVOKE_KEYS, SET_STATE, VOID_TARGETS};
use crate::database::values::json;
use crate::ledger::Purses;
use crate::{Error, Result};

#[async_trait]
impl Accounts for PostgresDatabase {
    async fn add_account(&self, new: &NewAccount, now: Moment) -> Result<Account> {
        transaction!(self, |tx| add_account(tx, new, now))
    }

    async fn account(&self, username: &str) -> Result<Option<Account>> {
        read!(self, |db| first(db, BY_USERNAME, &[&username], account))
    }

    async fn accounts(&self) -> Result<Vec<(Account, Purses)>> {
        // One statement, so that concurrent movements of money are not seen twice.
        let select = "SELECT id, username, scope, wallet_address, bucket, state, balance, free, held, debt, \
             least(earnings + coalesce(more_earnings, 0), 9223372036854775807)::bigint, \
             least(revenue + coalesce(more_revenue, 0), 9223372036854775807)::bigint \
             FROM accounts JOIN purses ON purses.account = accounts.id LEFT JOIN ( \
               SELECT account, sum(amount) FILTER (WHERE purse = 'earnings') AS more_earnings, \
                 sum(amount) FILTER (WHERE purse = 'revenue') AS more_revenue \
               FROM purse_changes GROUP BY account) AS changes ON changes.account = accounts.id ORDER BY id";
        read!(self, |db| all(db, select, &[], |row| {
            Ok((account(row)?, read_purses(&RowFrom { first: 6, row })?))
        }))
    }

    async fn set_state(&self, account: AccountId, state: AccountState, now: Moment) -> Result<bool> {
        self.write_and_announce(Change::Keys, async move |database| {
            transaction!(database, |tx| set_state(tx, account, state, now))
        })
        .await
    }

    async fn add_member(&self, organization: AccountId, person: AccountId) -> Result<()> {
        let insert = "INSERT INTO members (organization, person) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        statement!(self, |db| run(db, insert, &[&organization, &person])).map(|_| ())
    }

    async fn remove_member(&self, organization: AccountId, person: AccountId, now: Moment) -> Result<bool> {
        transaction!(self, |tx| remove_member(tx, organization, person, now))
    }

    async fn is_member(&self, organization: AccountId, person: AccountId) -> Result<bool> {
        let member = "SELECT 1 FROM members WHERE organization = $1 AND person = $2";
        read!(self, |db| is_there(db, member, &[&organization, &person]))
    }

    async fn add_key(&self, owner: AccountId, key: &StoredKey, now: Moment) -> Result<()> {
        let key = key.clone();
        self.write_and_announce(Change::Keys, async move |database| {
            statement!(database, |db| add_key(db, owner, &key, now))
        })
        .await
    }

    async fn revoke_key(&self, id: &str, now: Moment) -> Result<bool> {
        let id = id.to_owned();
        let revoke = "UPDATE api_keys SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL";
        let revoked = self.write_and_announce(Change::Keys, async move |database| {
            statement!(database, |db| run(db, revoke, &[&id, &now]))
        });
        Ok(revoked.await? > 0)
    }

    async fn key(&self, id: &str) -> Result<Option<(StoredKey, Account)>> {
        let read = || async { read!(self, |db| first(db, KEY, &[&id], key_of_account)) };
        self.caches.keys.get_or_read(id, read).await
    }
}

pub(super) async fn add_account(db: &impl GenericClient, new: &NewAccount, now: Moment) -> Outcome<Account> {
    run(
        db,
        "WITH added AS ( \
           INSERT INTO accounts (username, scope, wallet_address, bucket, created_at) \
           VALUES ($1, $2, $3, $4, $5) ON CONFLICT (username) DO NOTHING RETURNING id) \
         INSERT INTO purses (account, metered_at) SELECT id, $5 FROM added",
        &[&new.username, &new.scope, &new.wallet_address, &new.bucket, &now],
    )
    .await?;
    one(db, BY_USERNAME, &[&new.username], account).await
}

pub(super) async fn add_key(
    db: &impl GenericClient,
    owner: AccountId,
    key: &StoredKey,
    now: Moment,
) -> Outcome {
    let StoredKey { id, hash, rules } = key;
    let hash = &hash[..];
    let models = rules.models.as_deref().map(json);
    let KeyRules { name, expires_at, daily_limit, .. } = rules;
    match run(db, ADD_KEY, &[id, &owner, &hash, &now, name, expires_at, daily_limit, &models]).await? {
        0 => Err(Error::new("adding a key", format!("{:?} is the identifier of another key", key.id)).into()),
        _ => Ok(()),
    }
}

async fn set_state(
    tx: &Transaction<'_>,
    account: AccountId,
    state: AccountState,
    now: Moment,
) -> Outcome<bool> {
    if run(tx, SET_STATE, &[&state, &account]).await? == 0 {
        return Ok(false);
    }
    if state != AccountState::Active {
        run(tx, VOID_TARGETS, &[&account]).await?;
    }
    if state == AccountState::Closed {
        run(tx, REVOKE_KEYS, &[&now, &account]).await?;
    }
    Ok(true)
}

async fn remove_member(
    tx: &Transaction<'_>,
    organization: AccountId,
    person: AccountId,
    now: Moment,
) -> Outcome<bool> {
    let both: [&(dyn ToSql + Sync); 2] = [&organization, &person];
    let delete = "DELETE FROM members WHERE organization = $1 AND person = $2";
    let removed = run(tx, delete, &both).await?;
    run(tx, "UPDATE upload_targets SET is_void = true WHERE owner = $1 AND payer = $2", &both).await?;
    // Locks are taken in the order of all transactions: objects before purses.
    let hand_over = "UPDATE objects SET payer = owner WHERE owner = $1 AND payer = $2 RETURNING size";
    let sizes: Vec<i64> = all(tx, hand_over, &both, column).await?;
    let bytes: i64 = sizes.iter().sum();
    lock(tx, &[organization, person]).await?;
    meter_storage(tx, person, -bytes, now).await?;
    meter_storage(tx, organization, bytes, now).await?;
    Ok(removed > 0)
}
