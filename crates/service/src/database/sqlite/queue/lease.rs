//! Claiming tasks by lease and ending them, inside a transaction.

use rusqlite::{Connection, params};

use super::super::statements::Statements as _;
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
const EXPIRED: &str = "SELECT sequence, id, attempt FROM tasks \
     WHERE status = 'computing' AND lease_until < ?2 AND model IN (SELECT value FROM json_each(?1)) \
     ORDER BY lease_until LIMIT 1";

pub(super) fn is_there_work(db: &Connection, models: &str, now: Moment) -> Result<bool, Error> {
    Ok(db.is_there(FIRST_IN_QUEUE, [models])? || db.is_there(EXPIRED, params![models, now])?)
}

/// `models` is a JSON array.
pub(super) fn claim(
    db: &Connection,
    node: &str,
    models: &str,
    rules: LeaseRules,
    now: Moment,
) -> Result<Option<Lease>, Error> {
    loop {
        let expired: Option<(i64, String, i64)> =
            db.first(EXPIRED, params![models, now], |row| row.try_into())?;
        let Some((sequence, id, attempts)) = expired else { break };
        if attempts < rules.attempts {
            return lease(db, sequence, node, rules, now).map(Some);
        }
        // Whatever this task does to nodes, it has done it often enough.
        let message = format!("no node survived this task: {attempts} of them fell silent while they ran it");
        let detail = serde_json::json!({ "message": message }).to_string();
        end(db, &id, &Ending::Error { message, detail }, now)?;
    }
    let first = db.first(FIRST_IN_QUEUE, [models], |row| row.get(0))?;
    first.map(|sequence| lease(db, sequence, node, rules, now)).transpose()
}

fn lease(db: &Connection, sequence: i64, node: &str, rules: LeaseRules, now: Moment) -> Result<Lease, Error> {
    db.run(
        "UPDATE tasks SET updated_at = CASE status WHEN 'in_queue' THEN ?1 ELSE updated_at END, \
         status = 'computing', node = ?2, attempt = attempt + 1, lease_until = ?3, leased_at = ?1 \
         WHERE sequence = ?4",
        params![now, node, now.after(rules.length), sequence],
    )?;
    Ok(db.one(
        "SELECT tasks.id, tasks.model, input, input_format, output_format, attempt \
         FROM tasks JOIN versions ON versions.id = tasks.version WHERE sequence = ?",
        [sequence],
        |row| {
            Ok(Lease {
                task: row.get(0)?,
                model: row.get(1)?,
                input: row.get(2)?,
                input_format: row.get(3)?,
                output_format: row.get(4)?,
                attempt: row.get(5)?,
            })
        },
    )?)
}

/// Ends the task if the lease is the latest one and still runs.
pub(super) fn finish(
    db: &Connection,
    node: &str,
    task: &str,
    attempt: i64,
    ending: &Ending,
    now: Moment,
) -> Result<bool, Error> {
    let ours = "SELECT 1 FROM tasks WHERE id = ? AND status = 'computing' AND node = ? AND attempt = ?";
    let is_ours = db.is_there(ours, params![task, node, attempt])?;
    if is_ours {
        end(db, task, ending, now)?;
    }
    Ok(is_ours)
}

fn end(db: &Connection, task: &str, ending: &Ending, now: Moment) -> Result<(), Error> {
    match ending {
        Ending::Output(output) => {
            charge(db, task, now)?;
            db.run(
                "UPDATE tasks SET status = 'success', cost = price, output = ?, updated_at = ?, \
                 lease_until = NULL WHERE id = ?",
                params![output, now, task],
            )?;
        }
        Ending::Error { message, detail } => {
            release(db, task, now)?;
            db.run(
                "UPDATE tasks SET status = 'failed', message = ?, error = ?, updated_at = ?, \
                 lease_until = NULL WHERE id = ?",
                params![message, detail, now, task],
            )?;
        }
    }
    Ok(())
}
