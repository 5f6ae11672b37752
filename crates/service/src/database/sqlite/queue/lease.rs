//! Claims and ends of tasks inside a transaction.

use rusqlite::{Connection, params};

use super::super::statements::Statements as _;
use super::{charge, refund};
use crate::Result;
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::database::records::{self, column, triple};
use crate::database::values::json;
use crate::queue::{
    ABANDONED, Abandoned, Claim, Ending, Lease, LeaseRules, NOT_STARTED, QUEUED_BATCH, Slot, Status,
    detail_of, not_survived,
};

/// Fair scheduling: selects the lowest turn of an active account that has queued tasks of a model and runs fewer than
/// its limit, without expired leases. One index lookup for each model, and one for each skipped account.
pub(in super::super) const NEXT_TURN: &str = "SELECT (SELECT turn FROM turns WHERE model = wanted.value \
       AND (SELECT state FROM accounts WHERE id = turns.account) = 'active' \
       AND (SELECT count(*) FROM tasks \
            WHERE status = 'computing' AND account = turns.account AND lease_until >= ?6) < ?2 \
       AND (SELECT count(*) FROM tasks \
            WHERE status = 'computing' AND account = turns.account AND node = ?3 AND lease_until >= ?6) < ?4 \
       AND account NOT IN (SELECT value FROM json_each(?5)) \
       ORDER BY turn LIMIT 1) AS next \
     FROM json_each(?1) AS wanted WHERE next IS NOT NULL \
       AND NOT EXISTS (SELECT 1 FROM models WHERE id = wanted.value AND state <> 'active') \
     ORDER BY next LIMIT 1";

pub(in super::super) const FIRST_OF_ACCOUNT: &str = "SELECT (SELECT min(sequence) FROM tasks \
     WHERE status = 'in_queue' AND model = wanted.value AND account = ?2) AS first \
     FROM json_each(?1) AS wanted WHERE first IS NOT NULL \
       AND NOT EXISTS (SELECT 1 FROM models WHERE id = wanted.value AND state <> 'active') \
     ORDER BY first LIMIT 1";

/// Selects the task with the earliest lease expiry, by an index of computing tasks alone.
pub(in super::super) const EXPIRED: &str = "SELECT sequence, id, attempt - releases \
     FROM tasks INDEXED BY tasks_leased \
     WHERE status = 'computing' AND lease_until < ?2 AND model IN (SELECT value FROM json_each(?1)) \
     ORDER BY lease_until LIMIT 1";

/// Returns the slots' claims if none of them can claim a task; None if a claim has to be tried. Writes nothing.
pub(super) fn idle(
    db: &Connection,
    slots: &[Slot],
    rules: LeaseRules,
    now: Moment,
) -> Result<Option<Vec<Claim>>> {
    let mut without_task = Vec::new();
    for slot in slots {
        if without_task.contains(&slot.claimable()) {
            continue;
        }
        let models = json(&slot.models);
        let turn =
            params![models, rules.max_running, slot.node, slot.max_running, numbers(&slot.passed_over), now];
        let expired = params![models, rules.expired_before(now)];
        if db.is_there(NEXT_TURN, turn)? || db.is_there(EXPIRED, expired)? {
            return Ok(None);
        }
        without_task.push(slot.claimable());
    }
    slots.iter().map(|slot| no_task(db, slot)).collect::<Result<_>>().map(Some)
}

pub(super) fn claim(db: &Connection, slots: &[Slot], rules: LeaseRules, now: Moment) -> Result<Vec<Claim>> {
    let mut without_task = Vec::new();
    let mut claims = Vec::new();
    for slot in slots {
        let mut claim = no_task(db, slot)?;
        if matches!(claim, Claim::NoTask) && !without_task.contains(&slot.claimable()) {
            match claim_one(db, slot, rules, now)? {
                Some(lease) => claim = Claim::Leased(lease),
                None => without_task.push(slot.claimable()),
            }
        }
        claims.push(claim);
    }
    Ok(claims)
}

fn numbers(accounts: &[AccountId]) -> String {
    json(&accounts.iter().map(|account| account.0).collect::<Vec<_>>())
}

fn no_task(db: &Connection, slot: &Slot) -> Result<Claim> {
    let is_known = db.is_there("SELECT 1 FROM nodes WHERE id = ?", [&slot.node])?;
    Ok(if is_known { Claim::NoTask } else { Claim::UnknownNode })
}

/// Leases one task to a slot. Expired leases go first; a task out of attempts fails, and the search continues.
///
/// Queued tasks follow by fair scheduling. An account has one turn, a number, and a row of `turns` for each model with
/// queued tasks. The account with the lowest turn gets the slot for its oldest task, and moves behind all others. A
/// claim or a cancel of the last queued task leaves its row of `turns`, which the next claim that meets it deletes.
fn claim_one(db: &Connection, slot: &Slot, rules: LeaseRules, now: Moment) -> Result<Option<Lease>> {
    let (node, models) = (&*slot.node, json(&slot.models));
    loop {
        let expired: Option<(i64, String, i64)> =
            db.first(EXPIRED, params![models, rules.expired_before(now)], triple)?;
        let Some((sequence, id, attempts)) = expired else { break };
        if attempts < rules.attempts {
            return lease(db, sequence, node, rules, now).map(Some);
        }
        fail_or_postpone(db, &id, not_survived(attempts), now.after(rules.length), now)?;
    }
    loop {
        let next =
            params![models, rules.max_running, node, slot.max_running, numbers(&slot.passed_over), now];
        let Some(turn) = db.first(NEXT_TURN, next, column::<i64>)? else { return Ok(None) };
        let account: AccountId =
            db.one("SELECT account FROM turns WHERE turn = ? LIMIT 1", [turn], column)?;
        if let Some(sequence) = db.first(FIRST_OF_ACCOUNT, params![models, account], column)? {
            let pass = "UPDATE turns SET turn = (SELECT max(turn) + 1 FROM turns) WHERE account = ?";
            db.run(pass, [account])?;
            return lease(db, sequence, node, rules, now).map(Some);
        }
        // A paused model keeps its turns.
        let delete = "DELETE FROM turns WHERE account = ?2 AND model IN (SELECT value FROM json_each(?1)) \
             AND NOT EXISTS (SELECT 1 FROM tasks WHERE status = 'in_queue' \
                             AND tasks.model = turns.model AND tasks.account = turns.account)";
        db.run(delete, params![models, account])?;
    }
}

pub(super) fn fail_abandoned(db: &Connection, which: Abandoned, now: Moment) -> Result<usize> {
    let Abandoned { expired_before, live_since, unclaimed_before, latest } = which;
    let later = "UPDATE tasks SET lease_until = min(lease_until, ?1), leased_at = min(leased_at, ?1) \
         WHERE status = 'computing' AND (lease_until > ?1 OR leased_at > ?1)";
    db.run(later, [latest])?;
    debug_assert!(
        !db.is_there("SELECT 1 FROM tasks WHERE status = 'computing' AND lease_until > ?", [latest])?,
        "a lease is longer than allowed",
    );
    db.run("UPDATE nodes SET seen_at = ?1 WHERE seen_at > ?1", [now])?;
    db.run("UPDATE node_models SET seen_at = ?1 WHERE seen_at > ?1", [now])?;
    let abandoned: Vec<String> = db.all(
        "SELECT id FROM tasks WHERE status = 'computing' AND lease_until < ?1 AND (lease_until < ?3 OR NOT EXISTS \
         (SELECT 1 FROM node_models JOIN nodes ON nodes.id = node_models.node \
          WHERE node_models.model = tasks.model \
          AND coalesce(node_models.seen_at, nodes.seen_at) >= ?2)) LIMIT 1000",
        params![expired_before, live_since, unclaimed_before],
        column,
    )?;
    let mut failed = 0;
    for id in &abandoned {
        failed += usize::from(fail_or_postpone(db, id, ABANDONED.to_owned(), now, now)?);
    }
    Ok(failed)
}

pub(super) fn fail_queued(db: &Connection, created_before: Moment, now: Moment) -> Result<usize> {
    // One index lookup for each account and model, however many tasks are queued.
    let select = "SELECT id FROM turns JOIN tasks ON tasks.sequence = ( \
           SELECT min(sequence) FROM tasks WHERE status = 'in_queue' \
           AND tasks.model = turns.model AND tasks.account = turns.account) \
         WHERE created_at < ? LIMIT ?";
    let queued: Vec<String> = db.all(select, params![created_before, QUEUED_BATCH], column)?;
    let ending = Ending::Error { detail: detail_of(NOT_STARTED), message: NOT_STARTED.to_owned() };
    let mut failed = 0;
    for id in &queued {
        failed += usize::from(try_to_fail(db, id, || {
            // The state table leads through `computing`, which no other transaction sees.
            db.change_one("UPDATE tasks SET status = 'computing' WHERE id = ?", [id])?;
            end(db, id, &ending, now)
        })?);
    }
    Ok(failed)
}

/// Fails a task whose node has lost the lease, as if another node had claimed the task.
pub(super) fn fail(db: &Connection, task: &str, message: String, now: Moment) -> Result<()> {
    db.change_one("UPDATE tasks SET attempt = attempt + 1 WHERE id = ?", [task])?;
    end(db, task, &Ending::Error { detail: detail_of(&message), message }, now)
}

/// Fails a task after its lease expiry. If that is impossible, extends its lease, so that others can be claimed.
fn fail_or_postpone(
    db: &Connection,
    task: &str,
    message: String,
    until: Moment,
    now: Moment,
) -> Result<bool> {
    let has_failed = try_to_fail(db, task, || fail(db, task, message, now))?;
    if !has_failed {
        db.change_one("UPDATE tasks SET lease_until = ? WHERE id = ?", params![until, task])?;
    }
    Ok(has_failed)
}

/// Fails a task; false, without any effect, if its money cannot be moved, such as in a damaged ledger.
fn try_to_fail(db: &Connection, task: &str, fail: impl FnOnce() -> Result<()>) -> Result<bool> {
    db.run("SAVEPOINT failing", [])?;
    let failed = fail();
    if let Err(cause) = &failed {
        // SQLite rolls back the whole transaction by itself if the disk is full.
        if db.is_autocommit() {
            return Err(cause.again());
        }
        tracing::error!(%cause, task, "a task cannot be failed; it is tried again later");
        db.run("ROLLBACK TO failing", [])?;
    }
    db.run("RELEASE failing", [])?;
    Ok(failed.is_ok())
}

fn lease(db: &Connection, sequence: i64, node: &str, rules: LeaseRules, now: Moment) -> Result<Lease> {
    db.change_one(
        "UPDATE tasks SET updated_at = CASE status WHEN 'in_queue' THEN ?1 ELSE updated_at END, \
         status = 'computing', node = ?2, attempt = attempt + 1, lease_until = ?3, leased_at = ?1 \
         WHERE sequence = ?4",
        params![now, node, now.after(rules.length), sequence],
    )?;
    let lease = db.one(
        "SELECT tasks.id, tasks.model, input, input_format, output_format, attempt, releases, \
         traceparent, account, tasks.created_at \
         FROM tasks JOIN versions ON versions.id = tasks.version WHERE sequence = ?",
        [sequence],
        records::lease,
    )?;
    debug_assert!(lease.attempt > 0, "a leased task has had no attempt");
    Ok(lease)
}

pub(super) fn finish(
    db: &Connection,
    node: &str,
    task: &str,
    attempt: i64,
    ending: &Ending,
    now: Moment,
) -> Result<bool> {
    let ours = "SELECT 1 FROM tasks WHERE id = ? AND status = 'computing' AND node = ? AND attempt = ?";
    let is_ours = db.is_there(ours, params![task, node, attempt])?;
    if is_ours {
        end(db, task, ending, now)?;
    }
    Ok(is_ours)
}

fn end(db: &Connection, task: &str, ending: &Ending, now: Moment) -> Result<()> {
    debug_assert_eq!(
        db.one("SELECT status FROM tasks WHERE id = ?", [task], column::<Status>)?,
        Status::Computing,
        "a task ends that is not computing",
    );
    match ending {
        Ending::Output(output) => {
            charge(db, task, now)?;
            db.change_one(
                "UPDATE tasks SET status = 'success', cost = price, output = ?, updated_at = ?, \
                 lease_until = NULL WHERE id = ?",
                params![output, now, task],
            )?;
            // Outputs are now paid for: they expire by age, even if the task is deleted.
            db.run(
                "UPDATE objects SET lease = NULL \
                 WHERE lease = (SELECT id || '/' || attempt FROM tasks WHERE id = ?)",
                [task],
            )?;
        }
        Ending::Error { message, detail } => {
            refund(db, task, now)?;
            db.change_one(
                "UPDATE tasks SET status = 'failed', message = ?, error = ?, updated_at = ?, \
                 lease_until = NULL WHERE id = ?",
                params![message, detail, now, task],
            )?;
        }
    }
    Ok(())
}
