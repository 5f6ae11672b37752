//! Moving money inside a transaction, and metering what is stored.

use rusqlite::ffi::SQLITE_CONSTRAINT_DATATYPE;
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
    record(db, amount, from, to, reason, task, now)?;
    if let Some((account, purse)) = from {
        add(db, account, purse, -amount.smallest())?;
    }
    if let Some((account, purse)) = to {
        add(db, account, purse, amount.smallest())?;
    }
    Ok(())
}

/// Writes the row of a movement, and leaves the purses as they are.
pub(super) fn record(
    db: &Connection,
    amount: Money,
    from: Side,
    to: Side,
    reason: Reason,
    task: Option<&str>,
    now: Moment,
) -> Result<(), Error> {
    let account = |side: Side| side.map(|(account, _)| account);
    let purse = |side: Side| side.map(|(_, purse)| purse);
    db.run(
        "INSERT INTO movements (at, amount, from_account, from_purse, to_account, to_purse, reason, task) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        params![now, amount, account(from), purse(from), account(to), purse(to), reason, task],
    )?;
    Ok(())
}

fn add(db: &Connection, account: AccountId, purse: Purse, amount: i64) -> Result<(), Error> {
    // Two statements, since the check of the table would judge the row to be inserted, not the sum.
    let update = "UPDATE purses SET amount = amount + ?3 WHERE account = ?1 AND purse = ?2";
    let updated = db.run(update, params![account, purse, amount]).map_err(|cause| match cause {
        // A sum that is no integer any more.
        rusqlite::Error::SqliteFailure(failed, _) if failed.extended_code == SQLITE_CONSTRAINT_DATATYPE => {
            Error::new("moving money", format!("{purse:?} would hold more than the largest amount"))
        }
        cause => cause.into(),
    })?;
    if updated == 0 {
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

/// How far a clock may go back before storage is metered from its new time on. Writes are not committed in
/// the order of their moments, so a little is normal.
const CLOCK_TOLERANCE: i64 = 60_000;

/// Meters what an account has stored up to now, changes how much it stores from now on, and returns the
/// byte-seconds that are not charged yet. To be called in the transaction that stores or deletes a file.
pub(super) fn meter_storage(
    db: &Connection,
    account: AccountId,
    change: i64,
    now: Moment,
) -> Result<i128, Error> {
    let select = "SELECT stored_bytes, byte_seconds, gib_seconds, metered_at FROM accounts WHERE id = ?";
    let (stored, rest, gib_seconds, metered_at): (i64, i64, i64, i64) =
        db.one(select, [account], |row| row.try_into())?;
    let elapsed = now.0.saturating_sub(metered_at);
    let seconds = elapsed.max(0) / 1000;
    let metered_at = if elapsed < -CLOCK_TOLERANCE { now.0 } else { metered_at + seconds * 1000 };
    let uncharged =
        i128::from(gib_seconds) * GIB + i128::from(rest) + i128::from(stored) * i128::from(seconds);
    let update = "UPDATE accounts SET stored_bytes = stored_bytes + ?, metered_at = ? WHERE id = ?";
    db.run(update, params![change, metered_at, account])?;
    keep_uncharged(db, account, uncharged)?;
    Ok(uncharged)
}

/// Byte-seconds are kept in two columns: a terabyte makes more than 2^63 of them in four months.
const GIB: i128 = 1 << 30;

/// Keeps how many byte-seconds of an account are not charged yet.
pub(super) fn keep_uncharged(db: &Connection, account: AccountId, byte_seconds: i128) -> Result<(), Error> {
    let gib_seconds = i64::try_from(byte_seconds / GIB).unwrap_or(i64::MAX);
    let rest = i64::try_from(byte_seconds % GIB).unwrap_or(0);
    let update = "UPDATE accounts SET gib_seconds = ?, byte_seconds = ? WHERE id = ?";
    db.run(update, params![gib_seconds, rest, account])?;
    Ok(())
}
