//! Deleting tasks that ended long ago: always the oldest of an account, so that the places of its history have no
//! gaps.

use deadpool_postgres::Transaction;

use super::super::failure::Outcome;
use super::super::ledger::add_up;
use super::super::movements::lock;
use super::super::statements::{all, one, run};
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::database::records::{column, triple};
use crate::ledger::Reason;
use crate::queue::{RETENTION_BATCH, Status, last_ended};

/// The accounts whose oldest task ended before a moment.
pub(super) const ACCOUNTS: &str = "SELECT account FROM purses WHERE \
     (SELECT status IN ('success', 'failed', 'canceled') AND updated_at < $1 FROM tasks \
      WHERE tasks.account = purses.account ORDER BY place LIMIT 1)";

/// Deletes the oldest tasks of an account; returns how many.
pub(super) async fn delete(
    tx: &Transaction<'_>,
    account: AccountId,
    before: Moment,
    now: Moment,
) -> Outcome<usize> {
    lock(tx, &[account]).await?;
    let oldest: Vec<(i64, Status, Moment)> = all(
        tx,
        "SELECT place, status, updated_at FROM tasks WHERE account = $1 ORDER BY place LIMIT $2",
        &[&account, &i64::from(RETENTION_BATCH)],
        triple,
    )
    .await?;
    let Some(last) = last_ended(&oldest, before) else { return Ok(0) };
    // One movement for each pair of purses takes the place of many, so that every balance still adds up.
    let of_tasks = add_up("task IN (SELECT sequence FROM tasks WHERE account = $1 AND place <= $2)");
    let _: i64 = one(tx, &of_tasks, &[&account, &last, &now, &Reason::Carried], column).await?;
    let deleted = run(tx, "DELETE FROM tasks WHERE account = $1 AND place <= $2", &[&account, &last]).await?;
    run(tx, "UPDATE purses SET first_place = $2::bigint + 1 WHERE account = $1", &[&account, &last]).await?;
    Ok(usize::try_from(deleted).unwrap_or(usize::MAX))
}
