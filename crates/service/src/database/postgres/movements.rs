//! Moving money inside a transaction, and metering what is stored.

use deadpool_postgres::Transaction;
use tokio_postgres::Row;

use super::failure::Failure;
use super::statements::{first, one, run};
use crate::Error;
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::database::records::record;
use crate::ledger::{Money, Purse, Purses, Reason};

/// One side of a movement; None is the world outside.
pub(super) type Side = Option<(AccountId, Purse)>;

/// Locks the purses of accounts, always in the same order, so that transactions wait for each other in no circle.
pub(super) async fn lock(tx: &Transaction<'_>, accounts: &[AccountId]) -> Result<(), Failure> {
    let lock = "SELECT account FROM purses WHERE account = ANY ($1) ORDER BY account FOR UPDATE";
    run(tx, lock, &[&accounts]).await?;
    Ok(())
}

/// What a purse holds, with what is still to be added to it.
const PURSES: &str = "SELECT balance, free, held, debt, \
     earnings + (SELECT coalesce(sum(amount), 0) FROM purse_changes \
                 WHERE purse_changes.account = purses.account AND purse = 'earnings')::bigint, \
     revenue + (SELECT coalesce(sum(amount), 0) FROM purse_changes \
                WHERE purse_changes.account = purses.account AND purse = 'revenue')::bigint \
     FROM purses WHERE account = $1";

pub(super) fn read_purses(row: &Row, from: usize) -> Result<Purses, tokio_postgres::Error> {
    Ok(record!(try_get row from from, Purses: balance free held debt earnings revenue))
}

/// The contents of an account's purses.
pub(super) async fn purses(
    db: &impl deadpool_postgres::GenericClient,
    account: AccountId,
) -> Result<Purses, Failure> {
    Ok(first(db, PURSES, &[&account], |row| read_purses(row, 0)).await?.unwrap_or_default())
}

/// Adds what is still to be added to the purses of an account, which the transaction has locked.
pub(super) async fn add_changes(tx: &Transaction<'_>, account: AccountId) -> Result<(), Failure> {
    run(
        tx,
        "WITH added AS (DELETE FROM purse_changes WHERE account = $1 RETURNING purse, amount) \
         UPDATE purses SET \
           earnings = earnings + (SELECT coalesce(sum(amount), 0) FROM added WHERE purse = 'earnings')::bigint, \
           revenue = revenue + (SELECT coalesce(sum(amount), 0) FROM added WHERE purse = 'revenue')::bigint \
         WHERE account = $1",
        &[&account],
    )
    .await?;
    Ok(())
}

/// A movement of money.
pub(super) struct Movement {
    pub(super) amount: Money,
    pub(super) from: Side,
    pub(super) to: Side,
    pub(super) reason: Reason,
    /// The sequence of a task.
    pub(super) task: Option<i64>,
}

/// Moves an amount from one purse to another and writes the row that proves it. Nothing moves when the amount is
/// zero.
pub(super) async fn move_money(tx: &Transaction<'_>, movement: Movement, now: Moment) -> Result<(), Failure> {
    let Movement { amount, from, to, reason, task } = movement;
    if amount == Money::ZERO {
        return Ok(());
    }
    let account = |side: Side| side.map(|(account, _)| account);
    let purse = |side: Side| side.map(|(_, purse)| purse);
    run(
        tx,
        "INSERT INTO movements (at, amount, from_account, from_purse, to_account, to_purse, reason, task) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        &[&now, &amount, &account(from), &purse(from), &account(to), &purse(to), &reason, &task],
    )
    .await?;
    if let Some((account, purse)) = from {
        add(tx, account, purse, -amount.smallest()).await?;
    }
    match to {
        Some((account, purse @ (Purse::Earnings | Purse::Revenue))) => {
            let insert = "INSERT INTO purse_changes (account, purse, amount) VALUES ($1, $2, $3)";
            run(tx, insert, &[&account, &purse, &amount]).await?;
        }
        Some((account, purse)) => add(tx, account, purse, amount.smallest()).await?,
        None => {}
    }
    Ok(())
}

async fn add(tx: &Transaction<'_>, account: AccountId, purse: Purse, amount: i64) -> Result<(), Failure> {
    let column = purse.word();
    let update = format!("UPDATE purses SET {column} = {column} + $2 WHERE account = $1");
    match run(tx, &update, &[&account, &amount]).await? {
        0 => Err(Error::new("moving money", format!("there is no account {}", account.0)).into()),
        _ => Ok(()),
    }
}

/// How far a clock may go back before storage is metered from its new time on. Writes are not committed in the
/// order of their moments, so a little is normal.
const CLOCK_TOLERANCE: i64 = 60_000;

/// Meters what an account has stored up to now, changes how much it stores from now on, and returns the
/// byte-seconds that are not charged yet. To be called in the transaction that stores or deletes a file.
pub(super) async fn meter_storage(
    tx: &Transaction<'_>,
    account: AccountId,
    change: i64,
    now: Moment,
) -> Result<i128, Failure> {
    let select = "SELECT stored_bytes, byte_seconds, gib_seconds, metered_at FROM purses WHERE account = $1 FOR UPDATE";
    let (stored, rest, gib_seconds, metered_at): (i64, i64, i64, i64) = one(tx, select, &[&account], |row| {
        Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?))
    })
    .await?;
    let elapsed = now.0.saturating_sub(metered_at);
    let seconds = elapsed.max(0) / 1000;
    let metered_at = if elapsed < -CLOCK_TOLERANCE { now.0 } else { metered_at + seconds * 1000 };
    let uncharged =
        i128::from(gib_seconds) * GIB + i128::from(rest) + i128::from(stored) * i128::from(seconds);
    let update = "UPDATE purses SET stored_bytes = stored_bytes + $2, metered_at = $3 WHERE account = $1";
    run(tx, update, &[&account, &change, &metered_at]).await?;
    keep_uncharged(tx, account, uncharged).await?;
    Ok(uncharged)
}

/// Byte-seconds are kept in two columns: a terabyte makes more than 2^63 of them in four months.
const GIB: i128 = 1 << 30;

/// Keeps how many byte-seconds of an account are not charged yet.
pub(super) async fn keep_uncharged(
    tx: &Transaction<'_>,
    account: AccountId,
    byte_seconds: i128,
) -> Result<(), Failure> {
    let gib_seconds = i64::try_from(byte_seconds / GIB).unwrap_or(i64::MAX);
    let rest = i64::try_from(byte_seconds % GIB).unwrap_or(0);
    let update = "UPDATE purses SET gib_seconds = $2, byte_seconds = $3 WHERE account = $1";
    run(tx, update, &[&account, &gib_seconds, &rest]).await?;
    Ok(())
}
