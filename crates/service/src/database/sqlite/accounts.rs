//! Accounts, memberships and hashed keys in SQLite.

use async_trait::async_trait;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::SqliteDatabase;
use super::movements::purses;
use crate::Error;
use crate::accounts::{Account, AccountId, Accounts, KeptKey, NewAccount, Scope};
use crate::clock::Moment;
use crate::ledger::Purses;

const ACCOUNT: &str =
    "accounts.id, accounts.username, accounts.scope, accounts.wallet_address, accounts.bucket";

fn account(row: &SqliteRow) -> Result<Account, Error> {
    let word: String = row.try_get("scope")?;
    let scope = Scope::from_word(&word)
        .ok_or_else(|| Error::new("reading an account", format!("{word:?} is no scope")))?;
    Ok(Account {
        id: AccountId(row.try_get("id")?),
        username: row.try_get("username")?,
        scope,
        wallet_address: row.try_get("wallet_address")?,
        bucket: row.try_get("bucket")?,
    })
}

#[async_trait]
impl Accounts for SqliteDatabase {
    async fn add_account(&self, new: &NewAccount, now: Moment) -> Result<Account, Error> {
        let mut tx = self.write().await?;
        sqlx::query(
            "INSERT INTO accounts (username, scope, wallet_address, bucket, created_at, metered_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?5) ON CONFLICT (username) DO NOTHING",
        )
        .bind(&new.username)
        .bind(new.scope.word())
        .bind(&new.wallet_address)
        .bind(&new.bucket)
        .bind(now.0)
        .execute(&mut *tx)
        .await?;
        let row = sqlx::query(by_username()).bind(&new.username).fetch_one(&mut *tx).await?;
        tx.commit().await?;
        account(&row)
    }

    async fn account(&self, username: &str) -> Result<Option<Account>, Error> {
        let row = sqlx::query(by_username()).bind(username).fetch_optional(&self.readers).await?;
        row.as_ref().map(account).transpose()
    }

    async fn accounts(&self) -> Result<Vec<(Account, Purses)>, Error> {
        // A transaction, so that money that moves meanwhile is not seen twice.
        let mut reader = self.readers.begin().await?;
        let sql = sqlx::AssertSqlSafe(format!("SELECT {ACCOUNT} FROM accounts ORDER BY id"));
        let mut accounts = Vec::new();
        for row in sqlx::query(sql).fetch_all(&mut *reader).await? {
            let account = account(&row)?;
            let purses = purses(&mut reader, account.id).await?;
            accounts.push((account, purses));
        }
        Ok(accounts)
    }

    async fn add_member(&self, organization: AccountId, person: AccountId) -> Result<(), Error> {
        sqlx::query("INSERT INTO members (organization, person) VALUES (?, ?) ON CONFLICT DO NOTHING")
            .bind(organization.0)
            .bind(person.0)
            .execute(&self.writer)
            .await?;
        Ok(())
    }

    async fn remove_member(&self, organization: AccountId, person: AccountId) -> Result<bool, Error> {
        let mut tx = self.write().await?;
        let done = sqlx::query("DELETE FROM members WHERE organization = ? AND person = ?")
            .bind(organization.0)
            .bind(person.0)
            .execute(&mut *tx)
            .await?;
        sqlx::query("UPDATE upload_targets SET is_void = 1 WHERE owner = ? AND payer = ?")
            .bind(organization.0)
            .bind(person.0)
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(done.rows_affected() > 0)
    }

    async fn is_member(&self, organization: AccountId, person: AccountId) -> Result<bool, Error> {
        let found: Option<i64> =
            sqlx::query_scalar("SELECT 1 FROM members WHERE organization = ? AND person = ?")
                .bind(organization.0)
                .bind(person.0)
                .fetch_optional(&self.readers)
                .await?;
        Ok(found.is_some())
    }

    async fn add_key(&self, owner: AccountId, key: &KeptKey, now: Moment) -> Result<(), Error> {
        sqlx::query(
            "INSERT INTO api_keys (id, account, hash, created_at) VALUES (?, ?, ?, ?) \
             ON CONFLICT (id) DO UPDATE SET revoked_at = NULL, hash = excluded.hash",
        )
        .bind(&key.id)
        .bind(owner.0)
        .bind(key.hash.as_slice())
        .bind(now.0)
        .execute(&self.writer)
        .await?;
        Ok(())
    }

    async fn revoke_key(&self, id: &str, now: Moment) -> Result<bool, Error> {
        let done = sqlx::query("UPDATE api_keys SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL")
            .bind(now.0)
            .bind(id)
            .execute(&self.writer)
            .await?;
        Ok(done.rows_affected() > 0)
    }

    async fn key(&self, id: &str) -> Result<Option<(KeptKey, Account)>, Error> {
        let sql = sqlx::AssertSqlSafe(format!(
            "SELECT api_keys.hash AS hash, {ACCOUNT} FROM api_keys \
             JOIN accounts ON accounts.id = api_keys.account \
             WHERE api_keys.id = ? AND api_keys.revoked_at IS NULL"
        ));
        let Some(row) = sqlx::query(sql).bind(id).fetch_optional(&self.readers).await? else {
            return Ok(None);
        };
        let hash: Vec<u8> = row.try_get("hash")?;
        let hash = hash.try_into().map_err(|_| Error::new("reading a key", "its hash has not 32 bytes"))?;
        Ok(Some((KeptKey { id: id.to_owned(), hash }, account(&row)?)))
    }
}

fn by_username() -> sqlx::AssertSqlSafe<String> {
    sqlx::AssertSqlSafe(format!("SELECT {ACCOUNT} FROM accounts WHERE username = ?"))
}
