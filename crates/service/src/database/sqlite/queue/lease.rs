//! Claiming tasks by lease and ending them, inside a transaction.

use sqlx::sqlite::SqlitePool;
use sqlx::{Row, SqliteConnection};

use super::{charge, release};
use crate::Error;
use crate::clock::Moment;
use crate::queue::{Ending, Lease, LeaseRules};

/// The longest-waiting task of each model is one step in an index, so the queue may be as long as it
/// likes, and tasks of models that nothing serves are never in the way.
const FIRST_IN_QUEUE: &str = "SELECT (SELECT min(sequence) FROM tasks \
     WHERE status = 'in_queue' AND model = wanted.value) AS first \
     FROM json_each(?1) AS wanted WHERE first IS NOT NULL ORDER BY first LIMIT 1";

/// Leased tasks whose node has gone silent, by a query of their own.
const EXPIRED: &str = "SELECT sequence FROM tasks \
     WHERE status = 'computing' AND lease_until < ?2 AND model IN (SELECT value FROM json_each(?1)) \
     ORDER BY lease_until LIMIT 1";

/// A look without the right to write, so that idle nodes keep nobody waiting.
pub(super) async fn is_there_work(
    readers: &SqlitePool,
    models: &[String],
    now: Moment,
) -> Result<bool, Error> {
    let models = serde_json::json!(models).to_string();
    let queued: Option<i64> =
        sqlx::query_scalar(FIRST_IN_QUEUE).bind(&models).fetch_optional(readers).await?;
    if queued.is_some() {
        return Ok(true);
    }
    let expired: Option<i64> =
        sqlx::query_scalar(EXPIRED).bind(&models).bind(now.0).fetch_optional(readers).await?;
    Ok(expired.is_some())
}

pub(super) async fn claim(
    tx: &mut SqliteConnection,
    node: &str,
    models: &[String],
    rules: LeaseRules,
    now: Moment,
) -> Result<Option<Lease>, Error> {
    let models = serde_json::json!(models).to_string();
    loop {
        let expired: Option<i64> =
            sqlx::query_scalar(EXPIRED).bind(&models).bind(now.0).fetch_optional(&mut *tx).await?;
        let Some(sequence) = expired else { break };
        let row = sqlx::query("SELECT id, attempt FROM tasks WHERE sequence = ?")
            .bind(sequence)
            .fetch_one(&mut *tx)
            .await?;
        let (id, attempts): (String, i64) = (row.try_get("id")?, row.try_get("attempt")?);
        if attempts < rules.attempts {
            return lease(tx, sequence, node, rules, now).await.map(Some);
        }
        // Whatever this task does to nodes, it has done it often enough.
        let message = format!("no node survived this task: {attempts} of them fell silent while they ran it");
        let detail = serde_json::json!({ "message": message }).to_string();
        end(tx, &id, &Ending::Error { message, detail }, now).await?;
    }
    let first: Option<i64> =
        sqlx::query_scalar(FIRST_IN_QUEUE).bind(&models).fetch_optional(&mut *tx).await?;
    match first {
        Some(sequence) => lease(tx, sequence, node, rules, now).await.map(Some),
        None => Ok(None),
    }
}

async fn lease(
    tx: &mut SqliteConnection,
    sequence: i64,
    node: &str,
    rules: LeaseRules,
    now: Moment,
) -> Result<Lease, Error> {
    sqlx::query(
        "UPDATE tasks SET updated_at = CASE status WHEN 'in_queue' THEN ?1 ELSE updated_at END, \
         status = 'computing', node = ?2, attempt = attempt + 1, lease_until = ?3, leased_at = ?1 \
         WHERE sequence = ?4",
    )
    .bind(now.0)
    .bind(node)
    .bind(now.after(rules.length).0)
    .bind(sequence)
    .execute(&mut *tx)
    .await?;
    let row = sqlx::query(
        "SELECT tasks.id, tasks.model, input, attempt, input_format, output_format \
         FROM tasks JOIN versions ON versions.id = tasks.version WHERE sequence = ?",
    )
    .bind(sequence)
    .fetch_one(&mut *tx)
    .await?;
    Ok(Lease {
        task: row.try_get("id")?,
        model: row.try_get("model")?,
        input: row.try_get("input")?,
        input_format: row.try_get("input_format")?,
        output_format: row.try_get("output_format")?,
        attempt: row.try_get("attempt")?,
    })
}

/// Ends the task if the lease is the latest one and still runs.
pub(super) async fn finish(
    tx: &mut SqliteConnection,
    node: &str,
    task: &str,
    attempt: i64,
    ending: &Ending,
    now: Moment,
) -> Result<bool, Error> {
    let ours: Option<i64> = sqlx::query_scalar(
        "SELECT sequence FROM tasks WHERE id = ? AND status = 'computing' AND node = ? AND attempt = ?",
    )
    .bind(task)
    .bind(node)
    .bind(attempt)
    .fetch_optional(&mut *tx)
    .await?;
    if ours.is_none() {
        return Ok(false);
    }
    end(tx, task, ending, now).await?;
    Ok(true)
}

async fn end(tx: &mut SqliteConnection, task: &str, ending: &Ending, now: Moment) -> Result<(), Error> {
    let update = match ending {
        Ending::Output(output) => {
            charge(tx, task, now).await?;
            sqlx::query(
                "UPDATE tasks SET status = 'success', cost = price, output = ?1, updated_at = ?3, \
                 lease_until = NULL WHERE id = ?4",
            )
            .bind(output)
            .bind(None::<String>)
        }
        Ending::Error { message, detail } => {
            release(tx, task, now).await?;
            sqlx::query(
                "UPDATE tasks SET status = 'failed', message = ?1, error = ?2, updated_at = ?3, \
                 lease_until = NULL WHERE id = ?4",
            )
            .bind(message)
            .bind(Some(detail.clone()))
        }
    };
    update.bind(now.0).bind(task).execute(tx).await?;
    Ok(())
}
