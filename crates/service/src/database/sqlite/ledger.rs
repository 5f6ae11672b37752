//! Balances, credits, the bill for storage and the audit in SQLite.

use async_trait::async_trait;
use sqlx::{Row, SqliteConnection};

use super::movements::{meter_storage, move_money, purses};
use super::{SqliteDatabase, unsigned};
use crate::Error;
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::ledger::{Audit, Credit, Ledger, Money, Purse, Purses, Reason, StorageRate};

#[async_trait]
impl Ledger for SqliteDatabase {
    async fn purses(&self, account: AccountId) -> Result<Purses, Error> {
        let mut reader = self.readers.acquire().await?;
        purses(&mut reader, account).await
    }

    async fn credit(&self, account: AccountId, credit: Credit, now: Moment) -> Result<(), Error> {
        let mut tx = self.write().await?;
        match credit {
            Credit::Free(amount) => {
                let to = Some((account, Purse::Free));
                move_money(&mut tx, amount, None, to, Reason::Credit, None, now).await?;
            }
            Credit::Paid(amount) => {
                let to = Some((account, Purse::Balance));
                move_money(&mut tx, amount, None, to, Reason::Credit, None, now).await?;
                let owed = purses(&mut tx, account).await?.owed();
                let back = Some((account, Purse::Debt));
                move_money(&mut tx, owed.min(amount), to, back, Reason::Settle, None, now).await?;
            }
        }
        tx.commit().await?;
        Ok(())
    }

    async fn set_purses(
        &self,
        account: AccountId,
        amounts: &[(Purse, Money)],
        now: Moment,
    ) -> Result<(), Error> {
        let mut tx = self.write().await?;
        for &(purse, wanted) in amounts {
            let there_is = *purses(&mut tx, account).await?.of(purse);
            let (more, less) = (wanted.checked_sub(there_is), there_is.checked_sub(wanted));
            let (more, less) = (more.unwrap_or_default(), less.unwrap_or_default());
            let side = Some((account, purse));
            if more.is_positive() {
                move_money(&mut tx, more, None, side, Reason::Set, None, now).await?;
            } else {
                move_money(&mut tx, less, side, None, Reason::Set, None, now).await?;
            }
        }
        tx.commit().await?;
        Ok(())
    }

    async fn charge_storage(&self, rate: StorageRate, now: Moment) -> Result<u64, Error> {
        let mut tx = self.write().await?;
        let operator: i64 = sqlx::query_scalar("SELECT min(id) FROM accounts").fetch_one(&mut *tx).await?;
        let storing: Vec<i64> =
            sqlx::query_scalar("SELECT id FROM accounts WHERE stored_bytes > 0 OR byte_seconds > 0")
                .fetch_all(&mut *tx)
                .await?;
        let mut charged = 0;
        for account in storing.into_iter().map(AccountId) {
            meter_storage(&mut tx, account, 0, now).await?;
            let byte_seconds: i64 = sqlx::query_scalar("SELECT byte_seconds FROM accounts WHERE id = ?")
                .bind(account.0)
                .fetch_one(&mut *tx)
                .await?;
            let (charge, left) = rate.charge(byte_seconds);
            sqlx::query("UPDATE accounts SET byte_seconds = ? WHERE id = ?")
                .bind(left)
                .bind(account.0)
                .execute(&mut *tx)
                .await?;
            if charge.is_positive() {
                bill(&mut tx, account, AccountId(operator), charge, now).await?;
                charged += 1;
            }
        }
        tx.commit().await?;
        Ok(charged)
    }

    async fn audit(&self) -> Result<Audit, Error> {
        // The right to write keeps everything still while it is added up.
        let mut tx = self.write().await?;
        let movements: i64 = sqlx::query_scalar("SELECT count(*) FROM movements").fetch_one(&mut *tx).await?;
        let mut faults = Vec::new();
        for (query, sentence) in AUDITS {
            for row in sqlx::query(*query).fetch_all(&mut *tx).await? {
                let what: String = row.try_get(0)?;
                let (kept, computed): (i64, i64) = (row.try_get(1)?, row.try_get(2)?);
                faults.push(format!("{what}: {sentence}; {kept} is kept, {computed} was computed"));
            }
        }
        tx.commit().await?;
        Ok(Audit { movements: unsigned(movements), faults })
    }
}

/// Queries that return a row (what, kept, computed) for everything that does not add up.
const AUDITS: &[(&str, &str)] = &[
    (
        "WITH sums AS ( \
           SELECT account, purse, sum(amount) AS amount FROM ( \
             SELECT to_account AS account, to_purse AS purse, amount FROM movements \
             UNION ALL SELECT from_account, from_purse, -amount FROM movements) \
           WHERE account IS NOT NULL GROUP BY account, purse) \
         SELECT format('%s of account %d', coalesce(p.purse, s.purse), coalesce(p.account, s.account)), \
                coalesce(p.amount, 0), coalesce(s.amount, 0) \
         FROM purses p FULL JOIN sums s ON p.account = s.account AND p.purse = s.purse \
         WHERE coalesce(p.amount, 0) <> coalesce(s.amount, 0)",
        "a purse is not the sum of its movements",
    ),
    (
        "WITH holds AS ( \
           SELECT account, sum(held_free + held_balance) AS amount FROM tasks \
           WHERE status IN ('in_queue', 'computing') GROUP BY account) \
         SELECT format('account %d', coalesce(p.account, h.account)), \
                coalesce(p.amount, 0), coalesce(h.amount, 0) \
         FROM (SELECT * FROM purses WHERE purse = 'held') p FULL JOIN holds h ON p.account = h.account \
         WHERE coalesce(p.amount, 0) <> coalesce(h.amount, 0)",
        "what is held is not the price of the tasks that have not ended",
    ),
    (
        "WITH charges AS ( \
           SELECT task, sum(amount) AS amount, count(*) AS times FROM movements \
           WHERE reason = 'charge' GROUP BY task) \
         SELECT format('task %s', coalesce(t.id, c.task)), coalesce(t.price, 0), coalesce(c.amount, 0) \
         FROM (SELECT id, price FROM tasks WHERE status = 'success' AND price > 0) t \
         FULL JOIN charges c ON c.task = t.id \
         WHERE coalesce(t.price, 0) <> coalesce(c.amount, 0) OR c.times > 1",
        "a task was not charged exactly once",
    ),
    (
        "WITH stored AS ( \
           SELECT owner, sum(size) AS bytes FROM objects WHERE owner IS NOT NULL GROUP BY owner) \
         SELECT format('bytes of account %d', a.id), a.stored_bytes, coalesce(s.bytes, 0) \
         FROM accounts a LEFT JOIN stored s ON s.owner = a.id \
         WHERE a.stored_bytes <> coalesce(s.bytes, 0)",
        "the metered bytes are not the bytes of the files",
    ),
];

/// Takes a bill from free credits, then from the balance; the rest becomes debt.
async fn bill(
    tx: &mut SqliteConnection,
    account: AccountId,
    operator: AccountId,
    charge: Money,
    now: Moment,
) -> Result<(), Error> {
    let to = Some((operator, Purse::Revenue));
    let owned = purses(tx, account).await?;
    let mut left = charge;
    for (purse, there_is) in [(Purse::Free, owned.free), (Purse::Balance, owned.balance)] {
        let part = left.min(there_is);
        move_money(tx, part, Some((account, purse)), to, Reason::Storage, None, now).await?;
        left = left.checked_sub(part).unwrap_or_default();
    }
    move_money(tx, left, Some((account, Purse::Debt)), to, Reason::Storage, None, now).await
}
