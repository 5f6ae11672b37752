//! The operator's reads, changes and refunds in SQLite.

use async_trait::async_trait;
use rusqlite::{Connection, params};

use super::SqliteDatabase;
use super::movements::{move_all, purses};
use super::queue::{cancel, lease};
use super::statements::Statements as _;
use crate::Result;
use crate::accounts::{AccountId, Scope};
use crate::clock::Moment;
use crate::database::lists;
use crate::database::records::{
    action, charged, column, key_overview, member_columns, model_overview, movement_overview, node_overview,
    pair, task_detail, task_overview,
};
use crate::database::shared_sql::{
    ACCOUNT_OF_TASK, ACTIONS, ADD_ACTION, ALL_MODELS, KEYS, MOVEMENTS, QUEUED_OF_MODEL, REQUEUE,
};
use crate::ledger::Origin;
use crate::operator::{
    Action, AdminDatabase, KeyOverview, ModelOverview, MovementOverview, NodeOverview, Refund, TaskChange,
    TaskDetail, TaskFilter, TaskOverview,
};
use crate::queue::Status;

/// Returns the query for a page of tasks. In SQLite, $1 is a name, and ?1 a parameter number.
pub(super) fn page_of_tasks(filter: TaskFilter) -> String {
    lists::page_of_tasks(filter, "id").replace('$', "?")
}

#[async_trait]
impl AdminDatabase for SqliteDatabase {
    async fn keys(&self, account: AccountId) -> Result<Vec<KeyOverview>> {
        self.all(KEYS, [account], key_overview).await
    }

    async fn keys_like(&self, beginning: &str) -> Result<Vec<String>> {
        let select = "SELECT id FROM api_keys WHERE revoked_at IS NULL \
                      AND substr(id, 1, length(?1)) = ?1 ORDER BY id LIMIT 2";
        self.all(select, [beginning.to_owned()], column).await
    }

    async fn memberships(&self, account: AccountId, scope: Scope) -> Result<Vec<String>> {
        let (others, own) = member_columns(scope);
        let select = format!(
            "SELECT username FROM members JOIN accounts ON accounts.id = {others} WHERE {own} = ? ORDER BY username"
        );
        self.all(select, [account], column).await
    }

    async fn all_models(&self, limit: u32, offset: u64) -> Result<Vec<ModelOverview>> {
        self.all(ALL_MODELS, (limit, offset), model_overview).await
    }

    async fn movements(&self, account: AccountId, limit: u32, offset: u64) -> Result<Vec<MovementOverview>> {
        self.all(MOVEMENTS, (account, limit, offset), movement_overview).await
    }

    async fn nodes(&self) -> Result<Vec<NodeOverview>> {
        let select = "SELECT node_keys.name, nodes.id, seen_at, iif(nodes.id IS NULL, models, \
               (SELECT json_group_array(model) FROM node_models WHERE node = nodes.id)), created_at, revoked_at \
             FROM node_keys FULL JOIN nodes ON nodes.key = node_keys.name \
             ORDER BY created_at, seen_at DESC";
        self.all(select, [], node_overview).await
    }

    async fn all_tasks(&self, filter: TaskFilter) -> Result<Vec<TaskOverview>> {
        let TaskFilter { account, status, limit, offset } = filter;
        self.all(page_of_tasks(filter), (account, status, limit, offset), task_overview).await
    }

    async fn any_task(&self, id: &str) -> Result<Option<TaskDetail>> {
        self.first(lists::one_task("id"), [id.to_owned()], task_detail).await
    }

    async fn record_action(&self, action: &Action) -> Result<()> {
        let Action { at, request, body, status } = action.clone();
        self.run(ADD_ACTION, (at, request, body, status)).await.map(drop)
    }

    async fn actions(&self, limit: u32, offset: u64) -> Result<Vec<Action>> {
        self.all(ACTIONS, (limit, offset), action).await
    }

    async fn queued_of_model(&self, model: &str) -> Result<Vec<(AccountId, String)>> {
        self.all(QUEUED_OF_MODEL, [model.to_owned()], pair).await
    }

    async fn cancel_task(&self, id: &str, now: Moment) -> Result<TaskChange> {
        let id = id.to_owned();
        self.write(move |db| {
            let Some(account) = db.first(ACCOUNT_OF_TASK, [&id], column)? else {
                return Ok(TaskChange::Unknown);
            };
            Ok(cancel(db, account, &id, now)?.into())
        })
        .await
    }

    async fn fail_task(&self, id: &str, message: &str, now: Moment) -> Result<TaskChange> {
        let (id, message) = (id.to_owned(), message.to_owned());
        self.write(move |db| {
            let refused = refuse_unless_running(db, &id)?;
            if refused.is_none() {
                lease::fail(db, &id, message, now)?;
            }
            Ok(refused.unwrap_or(TaskChange::Done))
        })
        .await
    }

    async fn requeue_task(&self, id: &str, now: Moment) -> Result<TaskChange> {
        let id = id.to_owned();
        self.write(move |db| {
            let refused = refuse_unless_running(db, &id)?;
            db.run(REQUEUE, params![now.0 - 1, id])?;
            Ok(refused.unwrap_or(TaskChange::Done))
        })
        .await
    }

    async fn refund(&self, task: &str, now: Moment) -> Result<Refund> {
        let task = task.to_owned();
        self.write(move |db| refund(db, &task, now)).await
    }
}

/// Returns the reason why a task cannot be changed as a running one; None if the task is running.
fn refuse_unless_running(db: &Connection, task: &str) -> Result<Option<TaskChange>> {
    Ok(match db.first("SELECT status FROM tasks WHERE id = ?", [task], column)? {
        Some(Status::Computing) => None,
        Some(status) => Some(TaskChange::Refused(status)),
        None => Some(TaskChange::Unknown),
    })
}

fn refund(db: &Connection, task: &str, now: Moment) -> Result<Refund> {
    let charged = db.first(
        "SELECT account, username, publisher, status, held_free, held_balance \
         FROM tasks JOIN accounts ON accounts.id = account WHERE tasks.id = ?",
        [task],
        charged,
    )?;
    let Some(charged) = charged else { return Ok(Refund::Unknown) };
    if !charged.is_charged() {
        return Ok(Refund::NotCharged);
    }
    if db.is_there("SELECT 1 FROM movements WHERE task = ? AND reason = 'refund'", [task])? {
        return Ok(Refund::Already);
    }
    let owned = purses(db, charged.account)?;
    let publisher = purses(db, charged.publisher)?;
    let (movements, refund) = charged.refund(&owned, &publisher)?;
    move_all(db, movements, Origin::Task(task), now)?;
    Ok(refund)
}
