//! Reading tasks, histories and who serves what.

use deadpool_postgres::GenericClient;

use super::super::failure::Outcome;
use super::super::statements::{all, first, one, page};
use super::super::values::signed;
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::database::records;
use crate::queue::{Serving, Status, Task, TaskSummary};

pub(super) async fn task(db: &impl GenericClient, account: AccountId, id: &str) -> Outcome<Option<Task>> {
    first(
        db,
        "SELECT tasks.id, status, coalesce(cost, 0), message, input, input_format, output_format, output, error, \
         tasks.created_at, updated_at, node \
         FROM tasks JOIN versions ON versions.id = tasks.version WHERE tasks.id = $1 AND account = $2",
        &[&id, &account],
        records::task,
    )
    .await
}

/// Places have no gaps, so a page is found by its first place however deep in the history it is, and the count is
/// the next place less the first one. One statement, so that the count belongs to the page.
pub(super) async fn history(
    db: &impl GenericClient,
    account: AccountId,
    limit: u32,
    offset: u64,
) -> Outcome<(Vec<TaskSummary>, u64)> {
    page(
        db,
        "SELECT purses.tasks - first_place, page.* FROM purses LEFT JOIN LATERAL ( \
           SELECT id, status, model, coalesce(cost, 0), created_at, updated_at, place FROM tasks \
           WHERE tasks.account = purses.account AND place >= first_place + $2 ORDER BY place LIMIT $3 \
         ) AS page ON true WHERE purses.account = $1 ORDER BY place",
        // Beyond the largest place there is nothing, and the sum must not leave the range of integers.
        &[&account, &signed(offset).min(i64::MAX / 2), &i64::from(limit)],
        records::task_summary,
    )
    .await
}

/// Consumers are found by a step in the index for each that has queued tasks, however many these are.
pub(super) async fn serving(db: &impl GenericClient, model: &str, since: Moment) -> Outcome<Serving> {
    one(
        db,
        "SELECT EXISTS (SELECT 1 FROM node_models JOIN nodes ON nodes.id = node_models.node \
                        WHERE model = $1 AND seen_at >= $2), \
                (SELECT count(*) FROM ( \
                   SELECT account FROM turns WHERE model = $1 AND EXISTS ( \
                     SELECT 1 FROM tasks WHERE status = 'in_queue' AND tasks.model = turns.model \
                     AND tasks.account = turns.account) \
                   UNION SELECT account FROM tasks WHERE status = 'computing' AND model = $1) AS consumers)",
        &[&model, &since],
        records::serving,
    )
    .await
}

/// Unfinished tasks alone: those that have ended would have to be counted one by one, or in a row that every
/// transaction touches.
pub(super) async fn depths(db: &impl GenericClient) -> Outcome<Vec<(Status, u64)>> {
    all(
        db,
        "SELECT 'in_queue', count(*) FROM tasks WHERE status = 'in_queue' \
         UNION ALL SELECT 'computing', count(*) FROM tasks WHERE status = 'computing'",
        &[],
        records::pair,
    )
    .await
}
