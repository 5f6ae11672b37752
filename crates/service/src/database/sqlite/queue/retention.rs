//! Retention of tasks: deletes tasks that ended long ago, and keeps the positions of a history without gaps.

use rusqlite::{Connection, params};

use super::super::ledger::add_up;
use super::super::statements::Statements as _;
use crate::Result;
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::database::records::triple;
use crate::database::values::json;
use crate::queue::{RETENTION_BATCH, RetentionPlan, Status};

pub(super) const ACCOUNTS: &str = "SELECT id FROM accounts WHERE EXISTS ( \
     SELECT 1 FROM tasks WHERE account = accounts.id AND place < first_place + ?2 + unfinished \
     AND status IN ('success', 'failed', 'canceled') AND updated_at < ?1)";

pub(super) fn delete(db: &Connection, account: AccountId, before: Moment, now: Moment) -> Result<usize> {
    let oldest: Vec<(i64, Status, Moment)> = db.all(
        "SELECT place, status, updated_at FROM tasks WHERE account = ?1 ORDER BY place \
         LIMIT ?2 + (SELECT unfinished FROM accounts WHERE id = ?1)",
        params![account, RETENTION_BATCH],
        triple,
    )?;
    let Some(RetentionPlan { deleted, moved, first_place }) = RetentionPlan::of(&oldest, before) else {
        return Ok(0);
    };
    let places = json(&deleted);
    // One movement for each pair of purses replaces many, so that the books stay consistent.
    let of_tasks = "task IN (SELECT id FROM tasks WHERE account = ? \
                    AND place IN (SELECT value FROM json_each(?)))";
    add_up(db, of_tasks, params![account, places], now)?;
    let delete = "DELETE FROM tasks WHERE account = ? AND place IN (SELECT value FROM json_each(?))";
    let rows = db.run(delete, params![account, places])?;
    debug_assert_eq!(rows, deleted.len(), "retention deletes other tasks than it planned");
    for (place, next) in moved {
        let update = "UPDATE tasks SET place = ? WHERE account = ? AND place = ?";
        db.change_one(update, params![next, account, place])?;
    }
    db.change_one("UPDATE accounts SET first_place = ?2 WHERE id = ?1", params![account, first_place])?;
    Ok(deleted.len())
}
