//! Deleting tasks that ended long ago: always the oldest of an account, so that the places of its history have
//! no gaps.

use rusqlite::{Connection, params};

use super::super::ledger::add_up;
use super::super::statements::Statements as _;
use crate::Result;
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::database::records::triple;
use crate::queue::{RETENTION_BATCH, Status, last_ended};

/// The accounts whose oldest task ended before a moment.
pub(super) const ACCOUNTS: &str = "SELECT id FROM accounts WHERE \
     (SELECT status IN ('success', 'failed', 'canceled') AND updated_at < ? FROM tasks \
      WHERE account = accounts.id ORDER BY place LIMIT 1)";

/// Deletes the oldest tasks of an account; returns how many.
pub(super) fn delete(db: &Connection, account: AccountId, before: Moment, now: Moment) -> Result<usize> {
    let oldest: Vec<(i64, Status, Moment)> = db.all(
        "SELECT place, status, updated_at FROM tasks WHERE account = ? ORDER BY place LIMIT ?",
        params![account, RETENTION_BATCH],
        triple,
    )?;
    let Some(last) = last_ended(&oldest, before) else { return Ok(0) };
    // One movement for each pair of purses takes the place of many, so that every balance still adds up.
    let of_tasks = "task IN (SELECT id FROM tasks WHERE account = ? AND place <= ?)";
    add_up(db, of_tasks, params![account, last], now)?;
    let deleted = db.run("DELETE FROM tasks WHERE account = ? AND place <= ?", params![account, last])?;
    db.run("UPDATE accounts SET first_place = ?2 + 1 WHERE id = ?1", params![account, last])?;
    Ok(deleted)
}
