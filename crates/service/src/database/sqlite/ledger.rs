//! Balances, credits, the bill for storage and the audit in SQLite.

use std::collections::BTreeMap;

use async_trait::async_trait;
use futures_util::{StreamExt as _, stream};
use rusqlite::{Connection, Params, Row, params};

use super::SqliteDatabase;
use super::group_commit::MAX_BATCH;
use super::movements::{keep_meter, meter_storage, move_all, purses, record};
use super::statements::{Statements as _, column};
use crate::Result;
use crate::accounts::{AccountId, OPERATOR};
use crate::clock::Moment;
use crate::ledger::{
    Audit, Credit, Ledger, MAX_OLD_MOVEMENTS, Money, Movement, Purse, Purses, Reason, Side, StorageRate,
};

#[async_trait]
impl Ledger for SqliteDatabase {
    async fn purses(&self, account: AccountId) -> Result<Purses> {
        self.read(move |db| purses(db, account)).await
    }

    async fn credit(&self, account: AccountId, amount: Credit, now: Moment) -> Result<()> {
        self.write(move |db| credit(db, account, amount, now)).await
    }

    async fn set_purses(&self, account: AccountId, amounts: &[(Purse, Money)], now: Moment) -> Result<()> {
        let amounts = amounts.to_vec();
        self.write(move |db| {
            let owned = purses(db, account)?;
            move_all(db, Movement::of_setting(account, owned, &amounts)?, None, now)
        })
        .await
    }

    async fn charge_storage(&self, rate: StorageRate, now: Moment) -> Result<u64> {
        let storing = "SELECT id FROM accounts WHERE stored_bytes > 0 OR byte_seconds > 0 OR gib_seconds > 0 \
             OR id IN (SELECT account FROM purses WHERE purse = 'debt' AND amount < 0)";
        let storing: Vec<AccountId> = self.read(|db| Ok(db.all(storing, [], |row| row.get(0))?)).await?;
        // A transaction for each, so that one account that cannot be charged does not keep the others free.
        let charges = storing.into_iter().map(|account| async move {
            let charged = self.write(move |db| charge_storage(db, account, rate, now)).await;
            charged
                .inspect_err(|cause| tracing::error!(%cause, account = account.0, "storage is not charged"))
        });
        let charged: Vec<_> = stream::iter(charges).buffer_unordered(MAX_BATCH).collect().await;
        charged.into_iter().try_fold(0, |sum, charged| Ok(sum + u64::from(charged?)))
    }

    async fn carry_movements(&self, before: Moment, now: Moment) -> Result<usize> {
        let mut carried = 0;
        // A transaction for each account, so that other writes go on between them.
        for account in self.read(move |db| accounts_to_carry(db, before)).await? {
            carried += self.write(move |db| carry(db, account, before, now)).await?;
        }
        Ok(carried)
    }

    async fn audit(&self) -> Result<Audit> {
        self.read(|db| {
            // One transaction: writes go on meanwhile, and are not seen.
            let snapshot = db.unchecked_transaction()?;
            let (movements, mut faults) = sum_movements(&snapshot)?;
            for (query, sentence) in AUDITS {
                for (what, kept, computed) in
                    snapshot.all(query, [], |row| <(String, i64, i64)>::try_from(row))?
                {
                    faults.push(fault(&what, sentence, kept, computed.into()));
                }
            }
            Ok(Audit { movements, faults })
        })
        .await
    }
}

fn accounts_to_carry(db: &Connection, before: Moment) -> Result<Vec<AccountId>> {
    Ok(db.all(
        "SELECT coalesce(from_account, to_account) AS account FROM movements WHERE task IS NULL AND at < ? \
         GROUP BY account HAVING count(*) > ?",
        params![before, MAX_OLD_MOVEMENTS],
        |row| row.get(0),
    )?)
}

/// Adds up the old movements of an account; returns how many there were.
fn carry(db: &Connection, account: AccountId, before: Moment, now: Moment) -> Result<usize> {
    let old = "task IS NULL AND coalesce(from_account, to_account) = ? AND at < ?";
    add_up(db, old, params![account, before], now)
}

/// Replaces the movements that fulfil a condition by one for each pair of purses; returns how many there were.
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
        // A sum of years can be larger than the largest amount.
        while sum > 0 {
            let amount = i64::try_from(sum).unwrap_or(i64::MAX);
            let amount = Money::from_smallest(amount);
            record(db, Movement { amount, from, to, reason: Reason::Carried }, None, now)?;
            sum -= i128::from(amount.smallest());
        }
    }
    Ok(movements.len())
}

/// An amount with the purses that it came from and went to.
type Moved = (i64, Side, Side);

/// Reads a movement from the first columns of a row.
fn movement(row: &Row<'_>) -> rusqlite::Result<Moved> {
    let side = |account: Option<AccountId>, purse: Option<Purse>| account.zip(purse);
    Ok((row.get(0)?, side(row.get(1)?, row.get(2)?), side(row.get(3)?, row.get(4)?)))
}

fn fault(what: &str, sentence: &str, kept: i64, computed: i128) -> String {
    format!("{what}: {sentence}; {kept} is kept, {computed} was computed")
}

/// Counts the movements, and compares their sums with the purses. Sums are made here: those of all credits
/// that a purse ever got can be larger than an integer of SQLite.
fn sum_movements(db: &Connection) -> Result<(u64, Vec<String>)> {
    let select = "SELECT amount, from_account, from_purse, to_account, to_purse FROM movements";
    let mut movements = 0;
    // By account and purse: what is kept, and what the movements add up to.
    let mut sums: BTreeMap<(AccountId, Purse), (i64, i128)> = BTreeMap::new();
    for row in db.prepare_cached(select)?.query_map([], movement)? {
        let (amount, from, to) = row?;
        movements += 1;
        for (side, change) in [(from, -i128::from(amount)), (to, i128::from(amount))] {
            if let Some(purse) = side {
                sums.entry(purse).or_default().1 += change;
            }
        }
    }
    let kept: Vec<(AccountId, Purse, i64)> =
        db.all("SELECT account, purse, amount FROM purses", [], |row| row.try_into())?;
    for (account, purse, amount) in kept {
        sums.entry((account, purse)).or_default().0 = amount;
    }
    let wrong = sums.into_iter().filter(|(_, (kept, sum))| i128::from(*kept) != *sum);
    let faults = wrong.map(|((account, purse), (kept, sum))| {
        let what = format!("{} of account {}", purse.word(), account.0);
        fault(&what, "a purse is not the sum of its movements", kept, sum)
    });
    Ok((movements, faults.collect()))
}

/// Queries that return a row (what, kept, computed) for everything that does not add up.
const AUDITS: &[(&str, &str)] = &[
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
        "SELECT format('account %d', id), unfinished, counted FROM ( \
           SELECT accounts.id, unfinished, count(tasks.id) AS counted FROM accounts \
           LEFT JOIN tasks ON account = accounts.id AND status IN ('in_queue', 'computing') \
           GROUP BY accounts.id) \
         WHERE unfinished <> counted",
        "the number of tasks that have not ended is not what was counted",
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
        "WITH refunds AS ( \
           SELECT task, sum(amount) AS amount FROM movements WHERE reason = 'refund' GROUP BY task) \
         SELECT format('task %s', r.task), coalesce(t.price, 0), r.amount \
         FROM refunds r LEFT JOIN tasks t ON t.id = r.task AND t.status = 'success' \
         WHERE coalesce(t.price, 0) <> r.amount",
        "a refund is not what the task has cost",
    ),
    (
        "WITH stored AS ( \
           SELECT payer, sum(size) AS bytes FROM objects WHERE payer IS NOT NULL GROUP BY payer) \
         SELECT format('bytes of account %d', a.id), a.stored_bytes, coalesce(s.bytes, 0) \
         FROM accounts a LEFT JOIN stored s ON s.payer = a.id \
         WHERE a.stored_bytes <> coalesce(s.bytes, 0)",
        "the metered bytes are not those of the files that it pays for",
    ),
    (
        "WITH listed AS ( \
           SELECT owner, folder, category, count(*) AS files, sum(size) AS bytes FROM objects \
           WHERE owner IS NOT NULL GROUP BY owner, folder, category) \
         SELECT format('%s/%s of account %d', folder, category, owner), \
                coalesce(u.bytes, 0), coalesce(l.bytes, 0) \
         FROM folder_usage u FULL JOIN listed l USING (owner, folder, category) \
         WHERE coalesce(u.bytes, 0) <> coalesce(l.bytes, 0) OR coalesce(u.files, 0) <> coalesce(l.files, 0)",
        "the usage of a folder is not that of its files",
    ),
    (
        "SELECT format('account %d', account), 0, count(*) FROM tasks \
         WHERE status = 'in_queue' AND NOT EXISTS ( \
           SELECT 1 FROM turns WHERE turns.account = tasks.account AND turns.model = tasks.model) \
         GROUP BY account",
        "queued tasks have no turn, so they are never claimed",
    ),
];

pub(super) fn credit(db: &Connection, account: AccountId, credit: Credit, now: Moment) -> Result<()> {
    move_all(db, Movement::of_credit(account, &purses(db, account)?, credit)?, None, now)
}

/// Charges an account for what it stored up to now, and for what it owes; false when that makes no smallest unit yet.
fn charge_storage(db: &Connection, account: AccountId, rate: StorageRate, now: Moment) -> Result<bool> {
    let mut meter = meter_storage(db, account, 0, now)?;
    let charge = meter.charge(rate);
    keep_meter(db, account, &meter)?;
    let operator = db.one("SELECT id FROM accounts WHERE username = ?", [OPERATOR], column)?;
    let bill = Movement::of_bill(account, &purses(db, account)?, operator, charge)?;
    move_all(db, bill, None, now)?;
    Ok(charge.is_positive())
}
