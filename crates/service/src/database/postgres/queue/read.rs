//! Reading tasks, histories and who serves what.

use deadpool_postgres::{GenericClient, Transaction};

use super::super::failure::Outcome;
use super::super::statements::{all, first, one, run};
use super::super::values::{signed, unsigned};
use crate::Error;
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::database::records::record;
use crate::nodes::NODE_RETENTION;
use crate::queue::{Serving, Status, Task, TaskSummary};

pub(super) async fn task(db: &impl GenericClient, account: AccountId, id: &str) -> Outcome<Option<Task>> {
    first(
        db,
        "SELECT tasks.id, status, coalesce(cost, 0), message, input, input_format, output_format, output, error, \
         tasks.created_at, updated_at, node \
         FROM tasks JOIN versions ON versions.id = tasks.version WHERE tasks.id = $1 AND account = $2",
        &[&id, &account],
        |row| {
            Ok(record!(try_get row, Task: id status cost message input input_format output_format output error
                                          created_at updated_at node))
        },
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
    let rows: Vec<(i64, Option<TaskSummary>)> = all(
        db,
        "SELECT purses.tasks - first_place, page.* FROM purses LEFT JOIN LATERAL ( \
           SELECT id, status, model, coalesce(cost, 0), created_at, updated_at, place FROM tasks \
           WHERE tasks.account = purses.account AND place >= first_place + $2 ORDER BY place LIMIT $3 \
         ) AS page ON true WHERE purses.account = $1 ORDER BY place",
        // Beyond the largest place there is nothing, and the sum must not leave the range of integers.
        &[&account, &signed(offset).min(i64::MAX / 2), &i64::from(limit)],
        |row| {
            let id: Option<String> = row.try_get(1)?;
            let task = match id {
                Some(_) => Some(record!(try_get row from 1, TaskSummary: task_id status model_id cost
                                                                         created_at updated_at)),
                None => None,
            };
            Ok((row.try_get(0)?, task))
        },
    )
    .await?;
    let Some(&(total, _)) = rows.first() else {
        return Err(Error::new("reading a history", "its account is not there").into());
    };
    Ok((rows.into_iter().filter_map(|(_, task)| task).collect(), unsigned(total)))
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
        |row| Ok(Serving { serving: row.try_get(0)?, consumers: unsigned(row.try_get(1)?) }),
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
        |row| Ok((row.try_get(0)?, unsigned(row.try_get(1)?))),
    )
    .await
}

/// Notes that a node of a process is alive, and forgets those of processes that ended long ago.
pub(super) async fn node_seen(tx: &Transaction<'_>, node: &str, models: &[String], now: Moment) -> Outcome {
    let forget = "DELETE FROM nodes WHERE key IS NULL AND seen_at < $1 AND id <> $2";
    run(tx, forget, &[&now.before(NODE_RETENTION), &node]).await?;
    let seen = "INSERT INTO nodes (id, seen_at) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET seen_at = $2";
    run(tx, seen, &[&node, &now]).await?;
    let gone = "DELETE FROM node_models WHERE node = $1 AND model <> ALL ($2)";
    run(tx, gone, &[&node, &models]).await?;
    let insert = "INSERT INTO node_models (model, node) SELECT DISTINCT model, $1 FROM unnest($2::text[]) AS \
                  served (model) ON CONFLICT DO NOTHING";
    run(tx, insert, &[&node, &models]).await?;
    Ok(())
}
