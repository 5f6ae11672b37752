//! Reading tasks, histories and who serves what.

use rusqlite::{Connection, params};

use super::super::statements::Statements as _;
use crate::Result;
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::database::records;
use crate::queue::{Serving, Task, TaskSummary};

pub(super) fn task(db: &Connection, account: AccountId, id: &str) -> Result<Option<Task>> {
    let select = "SELECT tasks.id, status, coalesce(cost, 0), message, input, input_format, output_format, output, \
         error, tasks.created_at, updated_at, node \
         FROM tasks JOIN versions ON versions.id = tasks.version WHERE tasks.id = ? AND account = ?";
    Ok(db.first(select, params![id, account], records::task)?)
}

/// Places have no gaps, so a page is found by its first place however deep in the history it is, and
/// the count is the next place less the first one.
pub(super) fn history(
    db: &Connection,
    account: AccountId,
    limit: u32,
    offset: u64,
) -> Result<(Vec<TaskSummary>, u64)> {
    // One transaction, so that the count belongs to the page.
    let snapshot = db.unchecked_transaction()?;
    let places = "SELECT first_place, tasks FROM accounts WHERE id = ?";
    let (first, next): (i64, i64) = snapshot.one(places, [account], records::pair)?;
    let page = snapshot.all(
        "SELECT id, status, model, coalesce(cost, 0), created_at, updated_at FROM tasks \
         WHERE account = ? AND place >= ? ORDER BY place LIMIT ?",
        params![account, first.saturating_add_unsigned(offset), limit],
        records::task_summary,
    )?;
    Ok((page, next.abs_diff(first)))
}

/// Consumers are found by a step in the index for each, however many tasks they have.
pub(super) fn serving(db: &Connection, model: &str, since: Moment) -> Result<Serving> {
    Ok(db.one(
        "SELECT EXISTS (SELECT 1 FROM node_models JOIN nodes ON nodes.id = node_models.node \
                        WHERE model = ?1 AND seen_at >= ?2), \
                (WITH RECURSIVE consumers (account) AS ( \
                   SELECT min(account) FROM tasks \
                   WHERE status IN ('in_queue', 'computing') AND model = ?1 \
                   UNION ALL SELECT (SELECT min(account) FROM tasks \
                     WHERE status IN ('in_queue', 'computing') AND model = ?1 \
                     AND tasks.account > consumers.account) \
                   FROM consumers WHERE consumers.account IS NOT NULL) \
                 SELECT count(account) FROM consumers)",
        params![model, since],
        records::serving,
    )?)
}
