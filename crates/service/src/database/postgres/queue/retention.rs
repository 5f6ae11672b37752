//! Retention of tasks: deletes tasks that ended long ago, and keeps the positions of a history without gaps.

use deadpool_postgres::Transaction;

use super::super::failure::PostgresResult;
use super::super::ledger::add_up;
use super::super::movements::lock;
use super::super::statements::{all, one, run};
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::database::records::{column, triple};
use crate::ledger::Reason;
use crate::queue::{RETENTION_BATCH, RetentionPlan, Status};

pub(super) const ACCOUNTS: &str = "SELECT account FROM purses WHERE EXISTS ( \
     SELECT 1 FROM (SELECT status, updated_at FROM tasks WHERE tasks.account = purses.account \
                    ORDER BY place LIMIT $2::bigint + purses.unfinished) AS oldest \
     WHERE status IN ('success', 'failed', 'canceled') AND updated_at < $1)";

pub(super) async fn delete(
    tx: &Transaction<'_>,
    account: AccountId,
    before: Moment,
    now: Moment,
) -> PostgresResult<usize> {
    lock(tx, &[account]).await?;
    let oldest: Vec<(i64, Status, Moment)> = all(
        tx,
        "SELECT place, status, updated_at FROM tasks WHERE account = $1 ORDER BY place \
         LIMIT $2::bigint + (SELECT unfinished FROM purses WHERE account = $1)",
        &[&account, &i64::from(RETENTION_BATCH)],
        triple,
    )
    .await?;
    let Some(RetentionPlan { deleted, moved, first_place }) = RetentionPlan::of(&oldest, before) else {
        return Ok(0);
    };
    // One movement for each pair of purses replaces many, so that the books stay consistent.
    let of_tasks = add_up("task IN (SELECT sequence FROM tasks WHERE account = $1 AND place = ANY ($2))");
    let _: i64 = one(tx, &of_tasks, &[&account, &deleted, &now, &Reason::Carried], column).await?;
    run(tx, "DELETE FROM tasks WHERE account = $1 AND place = ANY ($2)", &[&account, &deleted]).await?;
    if !moved.is_empty() {
        let (places, next): (Vec<i64>, Vec<i64>) = moved.into_iter().unzip();
        // Two steps, because no two tasks may share a position, not even within the statement.
        let leave = "UPDATE tasks SET place = -1 - moved.next \
             FROM unnest($2::bigint[], $3::bigint[]) AS moved (place, next) \
             WHERE tasks.account = $1 AND tasks.place = moved.place";
        run(tx, leave, &[&account, &places, &next]).await?;
        let arrive = "UPDATE tasks SET place = -1 - place WHERE account = $1 AND place < 0";
        run(tx, arrive, &[&account]).await?;
    }
    run(tx, "UPDATE purses SET first_place = $2 WHERE account = $1", &[&account, &first_place]).await?;
    Ok(deleted.len())
}
