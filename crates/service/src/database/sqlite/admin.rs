//! What only the operator reads, and refunds, in SQLite.

use async_trait::async_trait;
use rusqlite::Connection;

use super::SqliteDatabase;
use super::movements::{move_all, purses};
use super::statements::Statements as _;
use crate::Result;
use crate::accounts::{AccountId, Scope};
use crate::admin::{
    AdminDatabase, KeyOverview, ModelOverview, NodeOverview, Refund, TaskDetail, TaskFilter, TaskOverview,
};
use crate::clock::Moment;
use crate::database::lists;
use crate::database::records::{
    charged, column, key_overview, member_columns, model_overview, node_overview, task_detail, task_overview,
};
use crate::database::shared_sql::{ALL_MODELS, KEYS};

/// A page of tasks. In SQLite, $1 is a name, and ?1 the number of a parameter.
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

    async fn refund(&self, task: &str, now: Moment) -> Result<Refund> {
        let task = task.to_owned();
        self.write(move |db| refund(db, &task, now)).await
    }
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
    move_all(db, movements, Some(task), now)?;
    Ok(refund)
}
