//! The operator's reads, changes and refunds in PostgreSQL.

use async_trait::async_trait;
use deadpool_postgres::Transaction;

use super::PostgresDatabase;
use super::failure::{Outcome, read, statement, transaction};
use super::movements::{add_changes, lock, move_all, purses};
use super::queue::end::{Expired, FAIL};
use super::statements::{Params, all, first, is_there, run};
use super::values::signed;
use crate::Result;
use crate::accounts::{AccountId, Scope};
use crate::clock::Moment;
use crate::database::lists::{one_task, page_of_tasks};
use crate::database::records::{
    RowFrom, action, charged, column, key_overview, member_columns, model_overview, movement_overview,
    node_overview, pair, task_detail, task_overview,
};
use crate::database::shared_sql::{
    ACCOUNT_OF_TASK, ACTIONS, ADD_ACTION, ALL_MODELS, KEYS, MOVEMENTS, QUEUED_OF_MODEL, REQUEUE,
};
use crate::ledger::Origin;
use crate::operator::{
    Action, AdminDatabase, KeyOverview, ModelOverview, MovementOverview, NodeOverview, Refund, TaskChange,
    TaskDetail, TaskFilter, TaskOverview,
};
use crate::queue::{Queue as _, Status, detail_of};

#[async_trait]
impl AdminDatabase for PostgresDatabase {
    async fn keys(&self, account: AccountId) -> Result<Vec<KeyOverview>> {
        read!(self, |db| all(db, KEYS, &[&account], key_overview))
    }

    async fn keys_like(&self, beginning: &str) -> Result<Vec<String>> {
        let select = "SELECT id FROM api_keys WHERE revoked_at IS NULL AND starts_with(id, $1) \
                      ORDER BY id COLLATE \"C\" LIMIT 2";
        read!(self, |db| all(db, select, &[&beginning], column))
    }

    async fn memberships(&self, account: AccountId, scope: Scope) -> Result<Vec<String>> {
        let (others, own) = member_columns(scope);
        let select = format!(
            "SELECT username FROM members JOIN accounts ON accounts.id = {others} WHERE {own} = $1 \
             ORDER BY username COLLATE \"C\""
        );
        read!(self, |db| all(db, &select, &[&account], column))
    }

    async fn all_models(&self, limit: u32, offset: u64) -> Result<Vec<ModelOverview>> {
        let (limit, offset) = (i64::from(limit), signed(offset));
        read!(self, |db| all(db, ALL_MODELS, &[&limit, &offset], model_overview))
    }

    async fn movements(&self, account: AccountId, limit: u32, offset: u64) -> Result<Vec<MovementOverview>> {
        let (limit, offset) = (i64::from(limit), signed(offset));
        read!(self, |db| all(db, MOVEMENTS, &[&account, &limit, &offset], movement_overview))
    }

    async fn nodes(&self) -> Result<Vec<NodeOverview>> {
        let select = "SELECT node_keys.name, nodes.id, seen_at, CASE WHEN nodes.id IS NULL THEN models ELSE \
               to_json(ARRAY(SELECT model FROM node_models WHERE node = nodes.id ORDER BY model))::text END, \
               created_at, revoked_at \
             FROM node_keys FULL JOIN nodes ON nodes.key = node_keys.name \
             ORDER BY created_at NULLS FIRST, seen_at DESC";
        read!(self, |db| all(db, select, &[], node_overview))
    }

    async fn all_tasks(&self, filter: TaskFilter) -> Result<Vec<TaskOverview>> {
        let sql = page_of_tasks(filter, "sequence");
        let (limit, offset) = (i64::from(filter.limit), signed(filter.offset));
        read!(self, |db| all(db, &sql, &[&filter.account, &filter.status, &limit, &offset], task_overview))
    }

    async fn any_task(&self, id: &str) -> Result<Option<TaskDetail>> {
        let sql = one_task("sequence");
        read!(self, |db| first(db, &sql, &[&id], task_detail))
    }

    async fn record_action(&self, action: &Action) -> Result<()> {
        let Action { at, request, body, status } = action;
        statement!(self, |db| run(db, ADD_ACTION, &[at, request, body, status])).map(|_| ())
    }

    async fn actions(&self, limit: u32, offset: u64) -> Result<Vec<Action>> {
        let (limit, offset) = (i64::from(limit), signed(offset));
        read!(self, |db| all(db, ACTIONS, &[&limit, &offset], action))
    }

    async fn queued_of_model(&self, model: &str) -> Result<Vec<(AccountId, String)>> {
        read!(self, |db| all(db, QUEUED_OF_MODEL, &[&model], pair))
    }

    async fn cancel_task(&self, id: &str, now: Moment) -> Result<TaskChange> {
        let account: Option<AccountId> = read!(self, |db| first(db, ACCOUNT_OF_TASK, &[&id], column))?;
        match account {
            Some(account) => Ok(self.cancel(account, id, now).await?.into()),
            None => Ok(TaskChange::Unknown),
        }
    }

    async fn fail_task(&self, id: &str, message: &str, now: Moment) -> Result<TaskChange> {
        let detail = detail_of(message);
        // Every lease expiry lies before this moment.
        let any_lease = Some(Moment(i64::MAX));
        let running = "SELECT id, node, attempt FROM tasks WHERE id = $1 AND status = 'computing'";
        // The task may go to another node between the two statements.
        while let Some(task) = read!(self, |db| first(db, running, &[&id], Expired::read))? {
            let Expired { node, attempt, .. } = &task;
            let params: Params<'_> = &[&id, node, attempt, &message, &detail, &now, &any_lease];
            if self.end(&FAIL, params).await? {
                return Ok(TaskChange::Done);
            }
        }
        self.refused(id).await
    }

    async fn requeue_task(&self, id: &str, now: Moment) -> Result<TaskChange> {
        let expired = now.0 - 1;
        match statement!(self, |db| run(db, REQUEUE, &[&expired, &id]))? {
            0 => self.refused(id).await,
            _ => Ok(TaskChange::Done),
        }
    }

    async fn refund(&self, task: &str, now: Moment) -> Result<Refund> {
        transaction!(self, |tx| refund(tx, task, now))
    }
}

impl PostgresDatabase {
    /// Returns the reason why a task cannot be changed as a running one.
    async fn refused(&self, id: &str) -> Result<TaskChange> {
        let select = "SELECT status FROM tasks WHERE id = $1";
        let status: Option<Status> = read!(self, |db| first(db, select, &[&id], column))?;
        Ok(status.map_or(TaskChange::Unknown, TaskChange::Refused))
    }
}

async fn refund(tx: &Transaction<'_>, task: &str, now: Moment) -> Outcome<Refund> {
    let select = "SELECT sequence, account, username, publisher, status, held_free, held_balance \
         FROM tasks JOIN accounts ON accounts.id = account WHERE tasks.id = $1";
    let found =
        first(tx, select, &[&task], |row| Ok((row.get::<i64>(0)?, charged(&RowFrom { first: 1, row })?)))
            .await?;
    let Some((sequence, charged)) = found else { return Ok(Refund::Unknown) };
    if !charged.is_charged() {
        return Ok(Refund::NotCharged);
    }
    // From here on, a concurrent refund of the task waits, and then sees this one.
    lock(tx, &[charged.account, charged.publisher]).await?;
    if !is_there(tx, "SELECT 1 FROM tasks WHERE id = $1", &[&task]).await? {
        // Retention has deleted the task meanwhile, together with its refund.
        return Ok(Refund::Unknown);
    }
    let refunded = "SELECT 1 FROM movements WHERE task = $1 AND reason = 'refund'";
    if is_there(tx, refunded, &[&sequence]).await? {
        return Ok(Refund::Already);
    }
    let owned = purses(tx, charged.account).await?;
    let publisher = add_changes(tx, charged.publisher).await?;
    let (movements, refund) = charged.refund(&owned, &publisher)?;
    move_all(tx, movements, Origin::Task(sequence), now).await?;
    Ok(refund)
}
