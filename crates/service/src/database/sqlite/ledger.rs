//! Balances, credits, the bill for storage and the audit in SQLite.

use async_trait::async_trait;
use rusqlite::{Connection, params};

use super::movements::{meter_storage, move_money, purses};
use super::statements::Statements as _;
use super::{SqliteDatabase, unsigned};
use crate::Error;
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::ledger::{Audit, Credit, Ledger, Money, Purse, Purses, Reason, StorageRate};

#[async_trait]
impl Ledger for SqliteDatabase {
    async fn purses(&self, account: AccountId) -> Result<Purses, Error> {
        self.read(move |db| purses(db, account)).await
    }

    async fn credit(&self, account: AccountId, amount: Credit, now: Moment) -> Result<(), Error> {
        self.write(move |db| credit(db, account, amount, now)).await
    }

    async fn set_purses(
        &self,
        account: AccountId,
        amounts: &[(Purse, Money)],
        now: Moment,
    ) -> Result<(), Error> {
        let amounts = amounts.to_vec();
        self.write(move |db| {
            for (purse, wanted) in amounts {
                let present = *purses(db, account)?.of(purse);
                let more = wanted.checked_sub(present).unwrap_or_default();
                let less = present.checked_sub(wanted).unwrap_or_default();
                let side = Some((account, purse));
                if more.is_positive() {
                    move_money(db, more, None, side, Reason::Set, None, now)?;
                } else {
                    move_money(db, less, side, None, Reason::Set, None, now)?;
                }
            }
            Ok(())
        })
        .await
    }

    async fn charge_storage(&self, rate: StorageRate, now: Moment) -> Result<u64, Error> {
        self.write(move |db| charge_storage(db, rate, now)).await
    }

    async fn audit(&self) -> Result<Audit, Error> {
        self.read(|db| {
            // One transaction: writes go on meanwhile, and are not seen.
            let snapshot = db.unchecked_transaction()?;
            let count = "SELECT count(*) FROM movements";
            let movements: i64 = snapshot.one(count, [], |row| row.get(0))?;
            let mut faults = Vec::new();
            for (query, sentence) in AUDITS {
                let rows: Vec<(String, i64, i64)> = snapshot.all(query, [], |row| row.try_into())?;
                faults.extend(rows.into_iter().map(|(what, kept, computed)| {
                    format!("{what}: {sentence}; {kept} is kept, {computed} was computed")
                }));
            }
            Ok(Audit { movements: unsigned(movements), faults })
        })
        .await
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
        "WITH refunds AS ( \
           SELECT task, sum(amount) AS amount FROM movements WHERE reason = 'refund' GROUP BY task) \
         SELECT format('task %s', r.task), coalesce(t.price, 0), r.amount \
         FROM refunds r LEFT JOIN tasks t ON t.id = r.task AND t.status = 'success' \
         WHERE coalesce(t.price, 0) <> r.amount",
        "a refund is not what the task has cost",
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

fn credit(db: &Connection, account: AccountId, credit: Credit, now: Moment) -> Result<(), Error> {
    match credit {
        Credit::Free(amount) => {
            move_money(db, amount, None, Some((account, Purse::Free)), Reason::Credit, None, now)
        }
        Credit::Paid(amount) => {
            let balance = Some((account, Purse::Balance));
            move_money(db, amount, None, balance, Reason::Credit, None, now)?;
            let owed = purses(db, account)?.owed();
            let debt = Some((account, Purse::Debt));
            move_money(db, owed.min(amount), balance, debt, Reason::Settle, None, now)
        }
    }
}

fn charge_storage(db: &Connection, rate: StorageRate, now: Moment) -> Result<u64, Error> {
    let operator = db.one("SELECT min(id) FROM accounts", [], |row| row.get(0))?;
    let storing = "SELECT id FROM accounts WHERE stored_bytes > 0 OR byte_seconds > 0";
    let mut charged = 0;
    for account in db.all(storing, [], |row| row.get::<_, AccountId>(0))? {
        meter_storage(db, account, 0, now)?;
        let metered = "SELECT byte_seconds FROM accounts WHERE id = ?";
        let (charge, left) = rate.charge(db.one(metered, [account], |row| row.get(0))?);
        db.run("UPDATE accounts SET byte_seconds = ? WHERE id = ?", params![left, account])?;
        if charge.is_positive() {
            bill(db, account, operator, charge, now)?;
            charged += 1;
        }
    }
    Ok(charged)
}

/// Takes a bill from free credits, then from the balance; the rest becomes debt.
fn bill(
    db: &Connection,
    account: AccountId,
    operator: AccountId,
    charge: Money,
    now: Moment,
) -> Result<(), Error> {
    let to = Some((operator, Purse::Revenue));
    let owned = purses(db, account)?;
    let mut left = charge;
    for (purse, there_is) in [(Purse::Free, owned.free), (Purse::Balance, owned.balance)] {
        let part = left.min(there_is);
        move_money(db, part, Some((account, purse)), to, Reason::Storage, None, now)?;
        left = left.checked_sub(part).unwrap_or_default();
    }
    move_money(db, left, Some((account, Purse::Debt)), to, Reason::Storage, None, now)
}
