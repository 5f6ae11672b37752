//! Moving money inside a transaction, and metering what is stored.

use rusqlite::{Connection, params};

use super::statements::Statements as _;
use crate::Error;
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::ledger::{Money, Purse, Purses, Reason};

/// One side of a movement; None is the world outside.
pub(super) type Side = Option<(AccountId, Purse)>;

/// Moves an amount from one purse to another and writes the row that proves it. Nothing moves when the
/// amount is zero.
pub(super) fn move_money(
    db: &Connection,
    amount: Money,
    from: Side,
    to: Side,
    reason: Reason,
    task: Option<&str>,
    now: Moment,
) -> Result<(), Error> {
    if amount == Money::ZERO {
        return Ok(());
    }
    let account = |side: Side| side.map(|(account, _)| account);
    let purse = |side: Side| side.map(|(_, purse)| purse);
    db.run(
        "INSERT INTO movements (at, amount, from_account, from_purse, to_account, to_purse, reason, task) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        params![now, amount, account(from), purse(from), account(to), purse(to), reason, task],
    )?;
    if let Some((account, purse)) = from {
        add(db, account, purse, -amount.smallest())?;
    }
    if let Some((account, purse)) = to {
        add(db, account, purse, amount.smallest())?;
    }
    Ok(())
}

fn add(db: &Connection, account: AccountId, purse: Purse, amount: i64) -> Result<(), Error> {
    // Two statements, since the check of the table would judge the row to be inserted, not the sum.
    let update = "UPDATE purses SET amount = amount + ?3 WHERE account = ?1 AND purse = ?2";
    if db.run(update, params![account, purse, amount])? == 0 {
        let insert = "INSERT INTO purses (account, purse, amount) VALUES (?, ?, ?)";
        db.run(insert, params![account, purse, amount])?;
    }
    Ok(())
}

/// The contents of an account's purses, as the transaction sees them.
pub(super) fn purses(db: &Connection, account: AccountId) -> Result<Purses, Error> {
    let select = "SELECT purse, amount FROM purses WHERE account = ?";
    let rows: Vec<(Purse, Money)> = db.all(select, [account], |row| row.try_into())?;
    let mut purses = Purses::default();
    for (purse, amount) in rows {
        *purses.of(purse) = amount;
    }
    Ok(purses)
}

/// Counts what an account has stored up to now, and then changes how much it stores from now on. To be
/// called in the transaction that stores or deletes a file.
pub(super) fn meter_storage(
    db: &Connection,
    account: AccountId,
    change: i64,
    now: Moment,
) -> Result<(), Error> {
    db.run(
        "UPDATE accounts SET \
         byte_seconds = byte_seconds + stored_bytes * (max(?1 - metered_at, 0) / 1000), \
         metered_at = metered_at + max(?1 - metered_at, 0) / 1000 * 1000, \
         stored_bytes = stored_bytes + ?2 \
         WHERE id = ?3",
        params![now, change, account],
    )?;
    Ok(())
}
