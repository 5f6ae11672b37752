//! Ends of tasks, each in one statement, which has no effect unless the task is in the expected state.

use rusqlite::types::FromSqlResult;

use super::super::PostgresDatabase;
use super::super::failure::statement;
use super::super::statements::{Params, one, run};
use crate::Result;
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::database::records::{Row, column, pair, triple};
use crate::queue::detail_of;

pub(super) struct Expired {
    id: String,
    pub(super) node: String,
    pub(super) attempt: i64,
}

impl Expired {
    pub(super) fn read(row: &dyn Row) -> FromSqlResult<Self> {
        let (id, node, attempt) = triple(row)?;
        Ok(Self { id, node, attempt })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judged {
    Failed,
    Locked,
    /// The task has ended or was leased again, or its lease was extended because it cannot be failed.
    Elsewhere,
}

/// Statements that skip locked purses or wait. Each returns whether task $1 has ended, and the account if skipped.
pub(super) struct Statements {
    pub(super) free: &'static str,
    waiting: &'static str,
}

macro_rules! locked {
    ($lock:literal) => {
        concat!(
            "WITH locked AS (SELECT account FROM purses \
             WHERE account = (SELECT account FROM tasks WHERE id = $1) FOR UPDATE",
            $lock,
            ")"
        )
    };
}

macro_rules! ended {
    () => {
        " SELECT count(*) > 0, \
           (SELECT account FROM tasks WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM locked)) FROM ended"
    };
}

/// Locks the purses of a task before the task, in the order of all transactions.
macro_rules! statements {
    ($($end:expr),+) => {
        Statements {
            free: concat!(locked!(" SKIP LOCKED"), $($end),+, ended!()),
            waiting: concat!(locked!(""), $($end),+, ended!()),
        }
    };
}

macro_rules! returning {
    () => {
        " AND account IN (SELECT account FROM locked) \
         RETURNING sequence, account, publisher, held_free, held_balance, updated_at)"
    };
}

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
             WHERE part.amount > 0)"
    };
}

pub(super) const CANCEL: Statements = statements!(
    ", ended AS (UPDATE tasks SET status = 'canceled', updated_at = $3 \
     WHERE id = $1 AND account = $2 AND status = 'in_queue'",
    returning!(),
    release!()
);

/// Fails a task for its node or, if the lease expired before $7, without the node, which then loses the lease.
pub(super) const FAIL: Statements = statements!(
    ", ended AS (UPDATE tasks SET status = 'failed', message = $4, error = $5, updated_at = $6, \
       lease_until = NULL, attempt = attempt + ($7::bigint IS NOT NULL)::int \
     WHERE id = $1 AND status = 'computing' AND node = $2 AND attempt = $3 \
       AND coalesce(lease_until < $7, true)",
    returning!(),
    release!()
);

pub(super) const FAIL_QUEUED: Statements = statements!(
    ", ended AS (UPDATE tasks SET status = 'failed', message = $2, error = $3, updated_at = $4 \
     WHERE id = $1 AND status = 'in_queue'",
    returning!(),
    release!()
);

/// Pays the reserved price to the model's publisher. Outputs, now paid for, expire by age, even if the task is deleted.
pub(super) const SUCCEED: Statements = statements!(
    ", ended AS (UPDATE tasks SET status = 'success', cost = price, output = $4, updated_at = $5, \
       lease_until = NULL \
     WHERE id = $1 AND status = 'computing' AND node = $2 AND attempt = $3",
    returning!(),
    ", kept AS ( \
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
         SELECT publisher, 'earnings', held_free + held_balance FROM ended WHERE held_free + held_balance > 0)"
);

impl PostgresDatabase {
    /// Ends a task. If its purses are locked, one statement for each account of this process waits for them.
    pub(super) async fn end(&self, statements: &Statements, params: Params<'_>) -> Result<bool> {
        let (ended, locked): (bool, Option<AccountId>) =
            statement!(self, |db| one(db, statements.free, params, pair))?;
        let Some(account) = locked else { return Ok(ended) };
        let _turn = self.purse_queues.enter(account).await?;
        statement!(self, |db| one(db, statements.waiting, params, column))
    }

    /// Fails a task if its lease expired before a moment and is the latest. A task whose money cannot be moved (damaged
    /// ledger) keeps its lease until `until`, so that others can be claimed; one with locked purses is retried.
    pub(super) async fn fail_or_postpone(
        &self,
        task: &Expired,
        message: String,
        expired_before: Moment,
        until: Moment,
        now: Moment,
    ) -> Result<Judged> {
        let detail = detail_of(&message);
        let before = Some(expired_before);
        let failed: Result<(bool, Option<AccountId>)> = statement!(self, |db| one(
            db,
            FAIL.free,
            &[&task.id, &task.node, &task.attempt, &message, &detail, &now, &before],
            pair,
        ));
        match failed {
            Ok((true, _)) => Ok(Judged::Failed),
            Ok((false, Some(_))) => Ok(Judged::Locked),
            Ok((false, None)) => Ok(Judged::Elsewhere),
            Err(cause) if !cause.is_unavailable() && !cause.is_in_doubt() => {
                tracing::error!(%cause, task = task.id, "a task cannot be failed; it is tried again later");
                let postpone = "UPDATE tasks SET lease_until = $4 \
                     WHERE id = $1 AND status = 'computing' AND node = $2 AND attempt = $3";
                statement!(self, |db| run(db, postpone, &[&task.id, &task.node, &task.attempt, &until]))?;
                Ok(Judged::Elsewhere)
            }
            Err(cause) => Err(cause),
        }
    }
}
