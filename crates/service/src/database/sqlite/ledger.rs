//! Balances, credits, the bill for storage and the audit in SQLite.

use std::collections::BTreeMap;

use async_trait::async_trait;
use futures_util::{StreamExt as _, stream};
use rusqlite::types::FromSqlResult;
use rusqlite::{Connection, Params, params};

use super::SqliteDatabase;
use super::group_commit::MAX_BATCH;
use super::movements::{keep_meter, meter_storage, move_all, purses, record};
use super::statements::Statements as _;
use crate::Result;
use crate::accounts::{AccountId, OPERATOR};
use crate::clock::Moment;
use crate::database::audits::{Names, audits, fault};
use crate::database::records::{Row, column, pair, triple};
use crate::database::shared_sql::{ADD_ADJUSTMENT, ADJUSTMENT};
use crate::ledger::{
    Adjusted, Adjustment, Audit, Ledger, MAX_OLD_MOVEMENTS, Money, Movement, Origin, Purse, Purses, Reason,
    Side, StorageRate,
};

#[async_trait]
impl Ledger for SqliteDatabase {
    async fn purses(&self, account: AccountId) -> Result<Purses> {
        self.read(move |db| purses(db, account)).await
    }

    async fn adjust(&self, account: AccountId, adjustment: &Adjustment, now: Moment) -> Result<Adjusted> {
        let adjustment = adjustment.clone();
        self.write(move |db| adjust(db, account, &adjustment, now)).await
    }

    async fn set_purses(&self, account: AccountId, amounts: &[(Purse, Money)], now: Moment) -> Result<()> {
        let amounts = amounts.to_vec();
        self.write(move |db| {
            let owned = purses(db, account)?;
            move_all(db, Movement::of_setting(account, owned, &amounts)?, Origin::Neither, now)
        })
        .await
    }

    async fn charge_storage(&self, rate: StorageRate, now: Moment) -> Result<u64> {
        let storing = "SELECT id FROM accounts WHERE stored_bytes > 0 OR byte_seconds > 0 OR gib_seconds > 0 \
             OR id IN (SELECT account FROM purses WHERE purse = 'debt' AND amount < 0)";
        let storing: Vec<AccountId> = self.all(storing, [], column).await?;
        // One transaction for each account, so that a failed charge does not affect the others.
        let charges = storing.into_iter().map(|account| async move {
            let charged = self.write(move |db| charge_storage(db, account, rate, now)).await;
            charged
                .inspect_err(|cause| tracing::error!(%cause, account = account.0, "storage is not charged"))
        });
        let charged: Vec<_> = stream::iter(charges).buffer_unordered(MAX_BATCH).collect().await;
        charged.into_iter().try_fold(0, |sum, charged| Ok(sum + u64::from(charged?)))
    }

    async fn carry_movements(&self, before: Moment, now: Moment) -> Result<usize> {
        let accounts = "SELECT coalesce(from_account, to_account) AS account FROM movements \
             WHERE task IS NULL AND at < ? GROUP BY account HAVING count(*) > ?";
        let old = "task IS NULL AND coalesce(from_account, to_account) = ? AND at < ?";
        let mut carried = 0;
        // One transaction for each account, so that other writes run in between.
        for account in self.all(accounts, (before, MAX_OLD_MOVEMENTS), column::<AccountId>).await? {
            carried += self.write(move |db| add_up(db, old, params![account, before], now)).await?;
        }
        Ok(carried)
    }

    async fn audit(&self) -> Result<Audit> {
        self.scan(|db| {
            // One transaction: concurrent writes are not seen.
            let snapshot = db.unchecked_transaction()?;
            let (movements, mut faults) = sum_movements(&snapshot)?;
            for (query, sentence) in audits(&NAMES) {
                let wrong = snapshot.all(&query, [], triple)?;
                faults.extend(wrong.iter().map(|wrong| fault(wrong, sentence)));
            }
            Ok(Audit { movements, faults })
        })
        .await
    }
}

/// Folds the movements that meet a condition into one for each pair of purses; returns their number.
pub(super) fn add_up(db: &Connection, old: &str, params: impl Params, now: Moment) -> Result<usize> {
    let delete = format!(
        "DELETE FROM movements WHERE {old} RETURNING amount, from_account, from_purse, to_account, to_purse"
    );
    let movements = db.all(&delete, params, movement)?;
    let mut sums: BTreeMap<(Side, Side), i128> = BTreeMap::new();
    for (amount, from, to) in &movements {
        *sums.entry((*from, *to)).or_default() += i128::from(*amount);
    }
    for ((from, to), mut sum) in sums {
        // A sum over years can exceed the largest amount.
        while sum > 0 {
            let amount = i64::try_from(sum).unwrap_or(i64::MAX);
            let amount = Money::from_smallest(amount);
            let carried = Movement { amount, from, to, reason: Reason::Carried };
            record(db, carried, Origin::Neither, now)?;
            sum -= i128::from(amount.smallest());
        }
    }
    Ok(movements.len())
}

/// An amount, with its source and its destination.
type Moved = (i64, Side, Side);

fn movement(row: &dyn Row) -> FromSqlResult<Moved> {
    let side = |account: Option<AccountId>, purse: Option<Purse>| account.zip(purse);
    Ok((row.get(0)?, side(row.get(1)?, row.get(2)?), side(row.get(3)?, row.get(4)?)))
}

/// Counts the movements, and compares their sums with the purses. The sums are computed here, because the sum of all
/// credits of a purse can exceed an integer of SQLite.
fn sum_movements(db: &Connection) -> Result<(u64, Vec<String>)> {
    let select = "SELECT amount, from_account, from_purse, to_account, to_purse FROM movements";
    let mut movements = 0;
    // Stored and computed amount, by account and purse.
    let mut sums: BTreeMap<(AccountId, Purse), (i64, i128)> = BTreeMap::new();
    for row in db.prepare_cached(select)?.query_map([], |row| Ok(movement(row)?))? {
        let (amount, from, to) = row?;
        movements += 1;
        for (side, change) in [(from, -i128::from(amount)), (to, i128::from(amount))] {
            if let Some(purse) = side {
                sums.entry(purse).or_default().1 += change;
            }
        }
    }
    let kept: Vec<(AccountId, Purse, i64)> =
        db.all("SELECT account, purse, amount FROM purses", [], triple)?;
    for (account, purse, amount) in kept {
        sums.entry((account, purse)).or_default().0 = amount;
    }
    let wrong = sums.into_iter().filter(|(_, (kept, sum))| i128::from(*kept) != *sum);
    let faults = wrong.map(|((account, purse), (kept, sum))| {
        let what = format!("{} of account {}", purse.word(), account.0);
        fault(&(what, kept.to_string(), sum.to_string()), "a purse is not the sum of its movements")
    });
    Ok((movements, faults.collect()))
}

pub(super) const NAMES: Names = Names {
    accounts: "accounts",
    account: "id",
    task: "id",
    held: "SELECT account, amount FROM purses WHERE purse = 'held'",
};

pub(super) fn adjust(
    db: &Connection,
    account: AccountId,
    adjustment: &Adjustment,
    now: Moment,
) -> Result<Adjusted> {
    let Adjustment { purse, amount, reference, note } = adjustment;
    if let Some(earlier) = db.first(ADJUSTMENT, params![account, reference], pair)? {
        return Ok(adjustment.again(earlier));
    }
    let movements = match Movement::of_adjustment(account, purses(db, account)?, adjustment)? {
        Ok(movements) => movements,
        Err(owned) => return Ok(Adjusted::TooLittle { owned }),
    };
    let mut origin = Origin::Neither;
    if reference.is_some() || note.is_some() {
        let added = params![account, purse, amount, reference, note];
        origin = Origin::Adjustment(db.one(ADD_ADJUSTMENT, added, column)?);
    }
    move_all(db, movements, origin, now)?;
    Ok(Adjusted::Done)
}

/// Charges an account for its storage up to now, and for its debt; false if the charge is less than one smallest unit.
fn charge_storage(db: &Connection, account: AccountId, rate: StorageRate, now: Moment) -> Result<bool> {
    let mut meter = meter_storage(db, account, 0, now)?;
    let charge = meter.charge(rate);
    keep_meter(db, account, &meter)?;
    let operator = db.one("SELECT id FROM accounts WHERE username = ?", [OPERATOR], column)?;
    let bill = Movement::of_bill(account, &purses(db, account)?, operator, charge)?;
    move_all(db, bill, Origin::Neither, now)?;
    Ok(charge.is_positive())
}
