//! What only the operator reads, and refunds, in SQLite.

use async_trait::async_trait;
use rusqlite::{Connection, params};

use super::SqliteDatabase;
use super::movements::{move_all, purses};
use super::statements::{Statements as _, column};
use super::values::Json;
use crate::accounts::{AccountId, Scope};
use crate::admin::{
    AdminDatabase, KeyOverview, ModelOverview, NodeOverview, Refund, TaskDetail, TaskFilter, TaskOverview,
};
use crate::clock::Moment;
use crate::database::records::record;
use crate::ledger::{Money, Movement, Purse, Reason, Split};
use crate::queue::Status;
use crate::{Error, Result};

/// The columns of a task in a list, which has no inputs and results: they may be long.
const TASK: &str = "tasks.id, username, model, status, price, cost, message, node, attempt, tasks.created_at, \
     updated_at, EXISTS (SELECT 1 FROM movements WHERE task = tasks.id AND reason = 'refund')";
const TASKS: &str = "tasks JOIN accounts ON accounts.id = tasks.account";

/// A page of tasks. Those of an account are read in the order of its history, which has an index.
pub(super) fn page_of_tasks(filter: TaskFilter) -> String {
    let (of_account, order) = match filter.account {
        Some(_) => ("account = ?1", "place"),
        None => ("?1 IS NULL", "sequence"),
    };
    let of_status = if filter.status.is_some() { "status = ?2" } else { "?2 IS NULL" };
    format!(
        "SELECT {TASK} FROM {TASKS} WHERE {of_account} AND {of_status} ORDER BY {order} DESC LIMIT ?3 OFFSET ?4"
    )
}

fn task(row: &rusqlite::Row<'_>) -> rusqlite::Result<TaskOverview> {
    Ok(record!(get row, TaskOverview: task account model status price cost message node attempt
                                  created_at updated_at is_refunded))
}

#[async_trait]
impl AdminDatabase for SqliteDatabase {
    async fn keys(&self, account: AccountId) -> Result<Vec<KeyOverview>> {
        let select = "SELECT id, created_at, revoked_at FROM api_keys WHERE account = ? \
                      ORDER BY created_at DESC, id";
        self.all(select, [account], |row| Ok(record!(get row, KeyOverview: key created_at revoked_at))).await
    }

    async fn keys_like(&self, beginning: &str) -> Result<Vec<String>> {
        let select = "SELECT id FROM api_keys WHERE revoked_at IS NULL \
                      AND substr(id, 1, length(?1)) = ?1 LIMIT 2";
        self.all(select, [beginning.to_owned()], column).await
    }

    async fn memberships(&self, account: AccountId, scope: Scope) -> Result<Vec<String>> {
        let select = match scope {
            Scope::Organization => {
                "SELECT username FROM members JOIN accounts ON accounts.id = person \
                 WHERE organization = ? ORDER BY username"
            }
            Scope::Personal => {
                "SELECT username FROM members JOIN accounts ON accounts.id = organization \
                 WHERE person = ? ORDER BY username"
            }
        };
        self.all(select, [account], column).await
    }

    async fn all_models(&self, limit: u32, offset: u64) -> Result<Vec<ModelOverview>> {
        let select = "SELECT models.id, username, name, price, is_public, is_official, is_verified, \
             is_playground, models.created_at, updated_at \
             FROM models JOIN accounts ON accounts.id = owner ORDER BY sequence LIMIT ? OFFSET ?";
        self.all(select, (limit, offset), |row| {
            Ok(record!(get row, ModelOverview: model publisher name price visibility is_official is_verified
                                           is_playground created_at updated_at))
        })
        .await
    }

    async fn nodes(&self) -> Result<Vec<NodeOverview>> {
        let select = "SELECT node_keys.name, nodes.id, seen_at, created_at, revoked_at, iif(nodes.id IS NULL, \
               models, (SELECT json_group_array(model) FROM node_models WHERE node = nodes.id)) \
             FROM node_keys FULL JOIN nodes ON nodes.key = node_keys.name \
             ORDER BY created_at, seen_at DESC";
        self.all(select, [], |row| {
            let models = row.get::<_, Option<Json<_>>>(5)?.map(|models| models.0);
            let (key, node, seen_at) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(NodeOverview { key, node, seen_at, models, created_at: row.get(3)?, revoked_at: row.get(4)? })
        })
        .await
    }

    async fn all_tasks(&self, filter: TaskFilter) -> Result<Vec<TaskOverview>> {
        self.read(move |db| {
            let sql = page_of_tasks(filter);
            let TaskFilter { account, status, limit, offset } = filter;
            Ok(db.all(&sql, params![account, status, limit, offset], task)?)
        })
        .await
    }

    async fn any_task(&self, id: &str) -> Result<Option<TaskDetail>> {
        let id = id.to_owned();
        self.read(move |db| {
            let select = format!("SELECT {TASK}, input, output, error FROM {TASKS} WHERE tasks.id = ?");
            Ok(db.first(&select, [id], |row| {
                let json = |column| row.get::<_, Option<Json>>(column).map(|json| json.map(|json| json.0));
                let input = row.get::<_, Json>(12)?.0;
                Ok(TaskDetail { overview: task(row)?, input, output: json(13)?, error: json(14)? })
            })?)
        })
        .await
    }

    async fn refund(&self, task: &str, now: Moment) -> Result<Refund> {
        let task = task.to_owned();
        self.write(move |db| refund(db, &task, now)).await
    }
}

/// What the refund of a task needs to know of it.
struct Charged {
    account: AccountId,
    username: String,
    publisher: AccountId,
    status: Status,
    free: Money,
    balance: Money,
}

fn refund(db: &Connection, task: &str, now: Moment) -> Result<Refund> {
    let charged = db.first(
        "SELECT account, username, publisher, status, held_free, held_balance \
         FROM tasks JOIN accounts ON accounts.id = account WHERE tasks.id = ?",
        [task],
        |row| Ok(record!(get row, Charged: account username publisher status free balance)),
    )?;
    let Some(charged) = charged else { return Ok(Refund::Unknown) };
    let overflow = || Error::new("refunding a task", "its price is out of range");
    let amount = charged.free.checked_add(charged.balance).ok_or_else(overflow)?;
    if charged.status != Status::Success || !amount.is_positive() {
        return Ok(Refund::NotCharged);
    }
    if db.is_there("SELECT 1 FROM movements WHERE task = ? AND reason = 'refund'", [task])? {
        return Ok(Refund::Already);
    }
    let earnings = purses(db, charged.publisher)?.earnings;
    if earnings < amount {
        return Ok(Refund::EarningsTooSmall { earnings });
    }
    purses(db, charged.account)?.check_room_for(amount)?;
    let from = Some((charged.publisher, Purse::Earnings));
    let price = Split { free: charged.free, balance: charged.balance };
    let refund = Movement::of_return(from, charged.account, price, Reason::Refund);
    move_all(db, refund, Some(task), now)?;
    Ok(Refund::Done { account: charged.username, amount })
}
