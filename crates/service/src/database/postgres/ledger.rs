//! Balances, credits and storage charges in PostgreSQL.

use async_trait::async_trait;
use deadpool_postgres::Transaction;
use futures_util::{StreamExt as _, stream};

use super::PostgresDatabase;
use super::audit::audit;
use super::failure::{Outcome, read, statement, transaction};
use super::movements::{add_changes, keep_meter, lock, meter_storage, move_all, purses};
use super::statements::{all, first, one};
use crate::accounts::{AccountId, OPERATOR};
use crate::clock::Moment;
use crate::database::records::{column, pair};
use crate::database::shared_sql::{ADD_ADJUSTMENT, ADJUSTMENT};
use crate::ledger::{
    Adjusted, Adjustment, Audit, Ledger, MAX_OLD_MOVEMENTS, Money, Movement, Origin, Purse, Purses, Reason,
    StorageRate,
};
use crate::{Error, Result};

/// Returns the statement that folds the movements which meet a condition on the first two parameters into one for each
/// pair of purses, with a time and a reason, and returns their number. A sum over years can exceed the largest amount,
/// and is then split.
pub(super) fn add_up(old: &str) -> String {
    format!(
        "WITH old AS ( \
       DELETE FROM movements WHERE {old} RETURNING amount, from_account, from_purse, to_account, to_purse), \
     sums AS ( \
       SELECT sum(amount) AS amount, from_account, from_purse, to_account, to_purse FROM old \
       GROUP BY from_account, from_purse, to_account, to_purse), \
     carried AS ( \
       INSERT INTO movements (at, amount, from_account, from_purse, to_account, to_purse, reason) \
       SELECT $3, least(amount - part * 9223372036854775807, 9223372036854775807)::bigint, \
         from_account, from_purse, to_account, to_purse, $4 \
       FROM sums CROSS JOIN LATERAL \
         generate_series(0, div(amount - 1, 9223372036854775807)) AS parts (part)) \
     SELECT count(*) FROM old"
    )
}

const CHARGES_AT_ONCE: usize = 8;

#[async_trait]
impl Ledger for PostgresDatabase {
    async fn purses(&self, account: AccountId) -> Result<Purses> {
        read!(self, |db| purses(db, account))
    }

    async fn adjust(&self, account: AccountId, adjustment: &Adjustment, now: Moment) -> Result<Adjusted> {
        transaction!(self, |tx| adjust(tx, account, adjustment, now))
    }

    async fn set_purses(&self, account: AccountId, amounts: &[(Purse, Money)], now: Moment) -> Result<()> {
        transaction!(self, |tx| set_purses(tx, account, amounts, now))
    }

    async fn charge_storage(&self, rate: StorageRate, now: Moment) -> Result<u64> {
        let storing = "SELECT account FROM purses \
                       WHERE stored_bytes > 0 OR byte_seconds > 0 OR gib_seconds > 0 OR debt < 0";
        let storing: Vec<AccountId> = read!(self, |db| all(db, storing, &[], column))?;
        // One transaction for each account, so that a failed charge does not affect the others.
        let charges = storing.into_iter().map(|account| async move {
            let charged: Result<bool> = transaction!(self, |tx| charge_storage(tx, account, rate, now));
            charged
                .inspect_err(|cause| tracing::error!(%cause, account = account.0, "storage is not charged"))
        });
        let charged: Vec<_> = stream::iter(charges).buffer_unordered(CHARGES_AT_ONCE).collect().await;
        charged.into_iter().try_fold(0, |sum, charged| Ok(sum + u64::from(charged?)))
    }

    async fn carry_movements(&self, before: Moment, now: Moment) -> Result<usize> {
        let select = "SELECT coalesce(from_account, to_account) AS account FROM movements \
                      WHERE task IS NULL AND at < $1 GROUP BY 1 HAVING count(*) > $2";
        let accounts: Vec<AccountId> =
            read!(self, |db| all(db, select, &[&before, &i64::from(MAX_OLD_MOVEMENTS)], column))?;
        let carry = add_up("task IS NULL AND coalesce(from_account, to_account) = $1 AND at < $2");
        let mut carried = 0;
        // One statement for each account, so that no statement is large.
        for account in accounts {
            let of_account: i64 =
                statement!(self, |db| one(db, &carry, &[&account, &before, &now, &Reason::Carried], column))?;
            carried += usize::try_from(of_account).unwrap_or(0);
        }
        Ok(carried)
    }

    async fn audit(&self) -> Result<Audit> {
        let mut connection = self.connection().await.map_err(Error::from)?;
        audit(&mut connection).await.map_err(Error::from)
    }
}

async fn set_purses(
    tx: &Transaction<'_>,
    account: AccountId,
    amounts: &[(Purse, Money)],
    now: Moment,
) -> Outcome {
    lock(tx, &[account]).await?;
    let owned = add_changes(tx, account).await?;
    move_all(tx, Movement::of_setting(account, owned, amounts)?, Origin::Neither, now).await
}

pub(super) async fn adjust(
    tx: &Transaction<'_>,
    account: AccountId,
    adjustment: &Adjustment,
    now: Moment,
) -> Outcome<Adjusted> {
    let Adjustment { purse, amount, reference, note } = adjustment;
    // From here on, a concurrent adjustment of the account waits, and then sees this one.
    lock(tx, &[account]).await?;
    if let Some(earlier) = first(tx, ADJUSTMENT, &[&account, reference], pair).await? {
        return Ok(adjustment.again(earlier));
    }
    let movements = match Movement::of_adjustment(account, purses(tx, account).await?, adjustment)? {
        Ok(movements) => movements,
        Err(owned) => return Ok(Adjusted::TooLittle { owned }),
    };
    let mut origin = Origin::Neither;
    if reference.is_some() || note.is_some() {
        let added = one(tx, ADD_ADJUSTMENT, &[&account, purse, amount, reference, note], column).await?;
        origin = Origin::Adjustment(added);
    }
    move_all(tx, movements, origin, now).await?;
    Ok(Adjusted::Done)
}

/// Charges an account for its storage up to now, and for its debt; false if the charge is less than one smallest unit.
async fn charge_storage(
    tx: &Transaction<'_>,
    account: AccountId,
    rate: StorageRate,
    now: Moment,
) -> Outcome<bool> {
    let mut meter = meter_storage(tx, account, 0, now).await?;
    let charge = meter.charge(rate);
    keep_meter(tx, account, &meter).await?;
    let operator = "SELECT id FROM accounts WHERE username = $1";
    let operator: AccountId = one(tx, operator, &[&OPERATOR], column).await?;
    let owned = purses(tx, account).await?;
    let bill = Movement::of_bill(account, &owned, operator, charge)?;
    move_all(tx, bill, Origin::Neither, now).await?;
    Ok(charge.is_positive())
}
