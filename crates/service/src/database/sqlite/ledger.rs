//! Folding of old movements, and the audit, in SQLite.

use std::collections::BTreeMap;

use async_trait::async_trait;
use rusqlite::types::FromSqlResult;
use rusqlite::{Connection, Params, params};

use super::SqliteDatabase;
use super::movements::record;
use super::statements::Statements as _;
use crate::Result;
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::database::audits::{AuditNames, audits, fault};
use crate::database::engine::{self, Rows as _};
use crate::database::records::{Row, column, triple};
use crate::ledger::{Audit, MAX_OLD_MOVEMENTS, Money, Movement, MovementSums, Origin, Purse, Reason, Side};

#[async_trait]
impl MovementSums for SqliteDatabase {
    async fn carry_movements(&self, before: Moment, now: Moment) -> Result<usize> {
        let accounts = "SELECT coalesce(from_account, to_account) AS account FROM movements \
             WHERE task IS NULL AND at < ? GROUP BY account HAVING count(*) > ?";
        let old = "task IS NULL AND coalesce(from_account, to_account) = ? AND at < ?";
        let mut carried = 0;
        // One transaction for each account, so that other writes run in between.
        for account in
            self.all(accounts, engine::params![before, MAX_OLD_MOVEMENTS], column::<AccountId>).await?
        {
            carried += self.write(move |db| add_up(db, old, params![account, before], now)).await?;
        }
        Ok(carried)
    }

    async fn audit(&self) -> Result<Audit> {
        self.scan(|db| {
            let snapshot = db.unchecked_transaction()?;
            let (movements, mut faults) = sum_movements(&snapshot)?;
            for (query, sentence) in audits(&AUDIT_NAMES) {
                let wrong = snapshot.all(&query, [], triple)?;
                faults.extend(wrong.iter().map(|wrong| fault(wrong, sentence)));
            }
            Ok(Audit { movements, faults })
        })
        .await
    }
}

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

type Moved = (i64, Side, Side);

fn movement(row: &dyn Row) -> FromSqlResult<Moved> {
    let side = |account: Option<AccountId>, purse: Option<Purse>| account.zip(purse);
    Ok((row.get(0)?, side(row.get(1)?, row.get(2)?), side(row.get(3)?, row.get(4)?)))
}

/// Compares the movements with the purses. Their sums are computed here: they can exceed an integer of SQLite.
fn sum_movements(db: &Connection) -> Result<(u64, Vec<String>)> {
    let select = "SELECT amount, from_account, from_purse, to_account, to_purse FROM movements";
    let mut movements = 0;
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

pub(super) const AUDIT_NAMES: AuditNames = AuditNames {
    accounts: "accounts",
    account: "id",
    task: "id",
    held: "SELECT account, amount FROM purses WHERE purse = 'held'",
};
