//! Movements of money inside a transaction.

use rusqlite::ffi::SQLITE_CONSTRAINT_DATATYPE;
use rusqlite::{Connection, params};

use super::statements::Statements as _;
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::database::records::pair;
use crate::ledger::{Money, Movement, Origin, Purse, Purses, Reason, Side};
use crate::{Error, Result};

pub(super) fn move_money(
    db: &Connection,
    movement: Movement,
    origin: Origin<&str>,
    now: Moment,
) -> Result<()> {
    let Movement { amount, from, to, .. } = movement;
    if amount == Money::ZERO {
        return Ok(());
    }
    record(db, movement, origin, now)?;
    if let Some((account, purse)) = from {
        add(db, account, purse, -amount.smallest())?;
    }
    if let Some((account, purse @ (Purse::Earnings | Purse::Revenue))) = to {
        make_room(db, account, purse, amount, now)?;
    }
    if let Some((account, purse)) = to {
        add(db, account, purse, amount.smallest())?;
    }
    Ok(())
}

/// Moves the excess over the largest amount out of the ledger: no task fails because of its publisher's earnings.
fn make_room(db: &Connection, account: AccountId, purse: Purse, amount: Money, now: Moment) -> Result<()> {
    let kept = *purses(db, account)?.of(purse);
    if kept.checked_add(amount).is_some() {
        return Ok(());
    }
    let room = i64::MAX - kept.smallest();
    let excess = Money::from_smallest(amount.smallest() - room);
    let from = Some((account, purse));
    let overflow = Movement { amount: excess, from, to: None, reason: Reason::Overflow };
    record(db, overflow, Origin::Neither, now)?;
    add(db, account, purse, -excess.smallest())
}

pub(super) fn move_all(
    db: &Connection,
    movements: impl IntoIterator<Item = Movement>,
    origin: Origin<&str>,
    now: Moment,
) -> Result<()> {
    movements.into_iter().try_for_each(|movement| move_money(db, movement, origin, now))
}

pub(super) fn record(db: &Connection, movement: Movement, origin: Origin<&str>, now: Moment) -> Result<()> {
    movement.assert_valid();
    let Movement { amount, from, to, reason } = movement;
    let account = |side: Side| side.map(|(account, _)| account);
    let purse = |side: Side| side.map(|(_, purse)| purse);
    let (task, adjustment) = origin.parts();
    db.change_one(
        "INSERT INTO movements (at, amount, from_account, from_purse, to_account, to_purse, reason, task, adjustment) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        params![now, amount, account(from), purse(from), account(to), purse(to), reason, task, adjustment],
    )
}

fn add(db: &Connection, account: AccountId, purse: Purse, amount: i64) -> Result<()> {
    // Two statements: in an upsert, the table's check would apply to the inserted row, not to the sum.
    let update = "UPDATE purses SET amount = amount + ?3 WHERE account = ?1 AND purse = ?2";
    let updated = db.run(update, params![account, purse, amount]).map_err(|cause| match cause {
        // The sum is no integer any more.
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

pub(super) fn purses(db: &Connection, account: AccountId) -> Result<Purses> {
    let select = "SELECT purse, amount FROM purses WHERE account = ?";
    let rows: Vec<(Purse, Money)> = db.all(select, [account], pair)?;
    let mut purses = Purses::default();
    for (purse, amount) in rows {
        *purses.of(purse) = amount;
    }
    purses.assert_signs();
    Ok(purses)
}
