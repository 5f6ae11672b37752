//! Reading tasks, histories and who serves what.

use sqlx::Row;
use sqlx::sqlite::SqlitePool;

use super::super::{signed, unsigned};
use super::status;
use crate::Error;
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::ledger::Money;
use crate::queue::{Serving, Task, TaskSummary};

pub(super) async fn task(readers: &SqlitePool, account: AccountId, id: &str) -> Result<Option<Task>, Error> {
    let row = sqlx::query(
        "SELECT tasks.*, input_format, output_format FROM tasks \
         JOIN versions ON versions.id = tasks.version WHERE tasks.id = ? AND account = ?",
    )
    .bind(id)
    .bind(account.0)
    .fetch_optional(readers)
    .await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(Task {
        id: row.try_get("id")?,
        status: status(row.try_get("status")?)?,
        cost: row.try_get::<Option<i64>, _>("cost")?.map(Money::from_smallest),
        message: row.try_get("message")?,
        input: row.try_get("input")?,
        input_format: row.try_get("input_format")?,
        output_format: row.try_get("output_format")?,
        output: row.try_get("output")?,
        error: row.try_get("error")?,
        created_at: Moment(row.try_get("created_at")?),
        updated_at: Moment(row.try_get("updated_at")?),
    }))
}

/// Places have no gaps, so a page is found by its first place however deep in the history it is, and
/// the count is the next place.
pub(super) async fn history(
    readers: &SqlitePool,
    account: AccountId,
    limit: u32,
    offset: u64,
) -> Result<(Vec<TaskSummary>, u64), Error> {
    // One transaction, so that the count belongs to the page.
    let mut tx = readers.begin().await?;
    let total: i64 = sqlx::query_scalar("SELECT tasks FROM accounts WHERE id = ?")
        .bind(account.0)
        .fetch_one(&mut *tx)
        .await?;
    let rows = sqlx::query(
        "SELECT id, model, status, cost, created_at, updated_at FROM tasks \
         WHERE account = ? AND place >= ? ORDER BY place LIMIT ?",
    )
    .bind(account.0)
    .bind(signed(offset))
    .bind(limit)
    .fetch_all(&mut *tx)
    .await?;
    tx.commit().await?;
    let summaries = rows.iter().map(|row| {
        Ok::<_, Error>(TaskSummary {
            id: row.try_get("id")?,
            model: row.try_get("model")?,
            status: status(row.try_get("status")?)?,
            cost: row.try_get::<Option<i64>, _>("cost")?.map(Money::from_smallest),
            created_at: Moment(row.try_get("created_at")?),
            updated_at: Moment(row.try_get("updated_at")?),
        })
    });
    Ok((summaries.collect::<Result<_, _>>()?, unsigned(total)))
}

/// Consumers are found by a step in the index for each, however many tasks they have.
pub(super) async fn serving(readers: &SqlitePool, model: &str, since: Moment) -> Result<Serving, Error> {
    let row = sqlx::query(
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
    )
    .bind(model)
    .bind(since.0)
    .fetch_one(readers)
    .await?;
    Ok(Serving { serving: row.try_get::<i64, _>(0)? != 0, consumers: unsigned(row.try_get(1)?) })
}
