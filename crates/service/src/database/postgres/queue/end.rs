//! Ending tasks, each in one statement: nothing happens unless the task is still what the caller believes.

use rusqlite::types::FromSqlResult;

use super::super::PostgresDatabase;
use super::super::failure::statement;
use super::super::statements::{one, run};
use crate::Result;
use crate::clock::Moment;
use crate::database::records::{Row, column, triple};
use crate::queue::detail_of;

/// A task whose lease has expired, with what it must still be when it is failed for that.
pub(super) struct Expired {
    id: String,
    node: String,
    attempt: i64,
}

impl Expired {
    pub(super) fn read(row: &dyn Row) -> FromSqlResult<Self> {
        let (id, node, attempt) = triple(row)?;
        Ok(Self { id, node, attempt })
    }
}

/// What the statements of an end know of its task.
macro_rules! returning {
    () => {
        " RETURNING sequence, account, publisher, held_free, held_balance, updated_at)"
    };
}

/// Gives what a task holds back to the purses that it came from.
macro_rules! release {
    () => {
        ", purse AS ( \
             UPDATE purses SET free = purses.free + ended.held_free, \
               balance = purses.balance + ended.held_balance, \
               held = purses.held - ended.held_free - ended.held_balance, unfinished = purses.unfinished - 1 \
             FROM ended WHERE purses.account = ended.account), \
           moved AS ( \
             INSERT INTO movements (at, amount, from_account, from_purse, to_account, to_purse, reason, task) \
             SELECT updated_at, part.amount, account, 'held', account, part.purse, 'release', sequence FROM ended \
               CROSS JOIN LATERAL (VALUES ('free', held_free), ('balance', held_balance)) AS part (purse, amount) \
             WHERE part.amount > 0) \
         SELECT count(*) > 0 FROM ended"
    };
}

/// Cancels a task that is still queued.
pub(super) const CANCEL: &str = concat!(
    "WITH ended AS (UPDATE tasks SET status = 'canceled', updated_at = $3 \
     WHERE id = $1 AND account = $2 AND status = 'in_queue'",
    returning!(),
    release!()
);

/// Fails a task by its node; or without it, with the moment $7 before which its lease has to have expired: then the node
/// has lost the lease, as if the task had gone to another one.
pub(super) const FAIL: &str = concat!(
    "WITH ended AS (UPDATE tasks SET status = 'failed', message = $4, error = $5, updated_at = $6, \
       lease_until = NULL, attempt = attempt + ($7::bigint IS NOT NULL)::int \
     WHERE id = $1 AND status = 'computing' AND node = $2 AND attempt = $3 \
       AND coalesce(lease_until < $7, true)",
    returning!(),
    release!()
);

/// Pays what the task holds to the publisher of its model. From now on its outputs stay until they are old, also when
/// the task is deleted.
pub(super) const SUCCEED: &str = concat!(
    "WITH ended AS (UPDATE tasks SET status = 'success', cost = price, output = $4, updated_at = $5, \
       lease_until = NULL \
     WHERE id = $1 AND status = 'computing' AND node = $2 AND attempt = $3",
    returning!(),
    ", settled AS ( \
         UPDATE objects SET lease = NULL FROM ended WHERE lease = $1 || '/' || $3::bigint), \
       purse AS ( \
         UPDATE purses SET held = purses.held - ended.held_free - ended.held_balance, \
           unfinished = purses.unfinished - 1 \
         FROM ended WHERE purses.account = ended.account), \
       moved AS ( \
         INSERT INTO movements (at, amount, from_account, from_purse, to_account, to_purse, reason, task) \
         SELECT updated_at, held_free + held_balance, account, 'held', publisher, 'earnings', 'charge', sequence \
         FROM ended WHERE held_free + held_balance > 0), \
       earned AS ( \
         INSERT INTO purse_changes (account, purse, amount) \
         SELECT publisher, 'earnings', held_free + held_balance FROM ended WHERE held_free + held_balance > 0) \
     SELECT count(*) > 0 FROM ended"
);

impl PostgresDatabase {
    /// Fails a task, if its lease expired before a moment and is still the latest one. One whose money cannot be moved,
    /// such as in damaged books, counts as leased until a moment, so that all others are claimed meanwhile.
    pub(super) async fn fail_or_postpone(
        &self,
        task: &Expired,
        message: String,
        expired_before: Moment,
        until: Moment,
        now: Moment,
    ) -> Result<bool> {
        let detail = detail_of(&message);
        let before = Some(expired_before);
        let failed = statement!(self, |db| one(
            db,
            FAIL,
            &[&task.id, &task.node, &task.attempt, &message, &detail, &now, &before],
            column,
        ));
        match failed {
            Err(cause) if !cause.is_unavailable() && !cause.is_in_doubt() => {
                tracing::error!(%cause, task = task.id, "a task cannot be failed; it is tried again later");
                let postpone = "UPDATE tasks SET lease_until = $4 \
                     WHERE id = $1 AND status = 'computing' AND node = $2 AND attempt = $3";
                statement!(self, |db| run(db, postpone, &[&task.id, &task.node, &task.attempt, &until]))?;
                Ok(false)
            }
            failed => failed,
        }
    }
}
