//! What only the operator reads, and refunds, in PostgreSQL.

use async_trait::async_trait;
use deadpool_postgres::Transaction;
use tokio_postgres::Row;

use super::PostgresDatabase;
use super::failure::{Outcome, read, transaction};
use super::movements::{add_changes, lock, move_all, purses};
use super::statements::{all, column, first, is_there};
use super::values::{Json, signed};
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
     updated_at, EXISTS (SELECT 1 FROM movements WHERE task = tasks.sequence AND reason = 'refund')";
const TASKS: &str = "tasks JOIN accounts ON accounts.id = tasks.account";

fn task(row: &Row) -> Result<TaskOverview, tokio_postgres::Error> {
    Ok(record!(try_get row, TaskOverview: task account model status price cost message node attempt
                                          created_at updated_at is_refunded))
}

#[async_trait]
impl AdminDatabase for PostgresDatabase {
    async fn keys(&self, account: AccountId) -> Result<Vec<KeyOverview>> {
        let select = "SELECT id, created_at, revoked_at FROM api_keys WHERE account = $1 \
                      ORDER BY created_at DESC, id";
        read!(self, |db| all(db, select, &[&account], |row| {
            Ok(record!(try_get row, KeyOverview: key created_at revoked_at))
        }))
    }

    async fn keys_like(&self, beginning: &str) -> Result<Vec<String>> {
        let select = "SELECT id FROM api_keys WHERE revoked_at IS NULL AND starts_with(id, $1) LIMIT 2";
        read!(self, |db| all(db, select, &[&beginning], column))
    }

    async fn memberships(&self, account: AccountId, scope: Scope) -> Result<Vec<String>> {
        let select = match scope {
            Scope::Organization => {
                "SELECT username FROM members JOIN accounts ON accounts.id = person \
                 WHERE organization = $1 ORDER BY username COLLATE \"C\""
            }
            Scope::Personal => {
                "SELECT username FROM members JOIN accounts ON accounts.id = organization \
                 WHERE person = $1 ORDER BY username COLLATE \"C\""
            }
        };
        read!(self, |db| all(db, select, &[&account], column))
    }

    async fn all_models(&self, limit: u32, offset: u64) -> Result<Vec<ModelOverview>> {
        let select = "SELECT models.id, username, name, price, is_public, is_official, is_verified, \
             is_playground, models.created_at, updated_at \
             FROM models JOIN accounts ON accounts.id = owner ORDER BY sequence LIMIT $1 OFFSET $2";
        let (limit, offset) = (i64::from(limit), signed(offset));
        read!(self, |db| all(db, select, &[&limit, &offset], |row| {
            Ok(record!(try_get row, ModelOverview: model publisher name price visibility is_official
                                                   is_verified is_playground created_at updated_at))
        }))
    }

    async fn nodes(&self) -> Result<Vec<NodeOverview>> {
        let select = "SELECT node_keys.name, nodes.id, seen_at, created_at, revoked_at, models, \
             ARRAY(SELECT model FROM node_models WHERE node = nodes.id ORDER BY model) \
             FROM node_keys FULL JOIN nodes ON nodes.key = node_keys.name \
             ORDER BY created_at NULLS FIRST, seen_at DESC";
        read!(self, |db| all(db, select, &[], |row| {
            let node: Option<String> = row.try_get(1)?;
            let allowed: Option<Json<_>> = row.try_get(5)?;
            let models = match node {
                Some(_) => Some(row.try_get(6)?),
                None => allowed.map(|models| models.0),
            };
            Ok(NodeOverview {
                key: row.try_get(0)?,
                models,
                seen_at: row.try_get(2)?,
                created_at: row.try_get(3)?,
                revoked_at: row.try_get(4)?,
                node,
            })
        }))
    }

    async fn all_tasks(&self, filter: TaskFilter) -> Result<Vec<TaskOverview>> {
        // Those of an account are read in the order of its history, which has an index.
        let (of_account, order) = match filter.account {
            Some(_) => ("account = $1", "place"),
            None => ("$1::bigint IS NULL", "sequence"),
        };
        let of_status = if filter.status.is_some() { "status = $2" } else { "$2::text IS NULL" };
        let sql = format!(
            "SELECT {TASK} FROM {TASKS} WHERE {of_account} AND {of_status} ORDER BY {order} DESC \
             LIMIT $3 OFFSET $4"
        );
        let (limit, offset) = (i64::from(filter.limit), signed(filter.offset));
        read!(self, |db| all(db, &sql, &[&filter.account, &filter.status, &limit, &offset], task))
    }

    async fn any_task(&self, id: &str) -> Result<Option<TaskDetail>> {
        let sql = format!("SELECT {TASK}, input, output, error FROM {TASKS} WHERE tasks.id = $1");
        read!(self, |db| first(db, &sql, &[&id], |row| {
            let json = |json: Option<Json>| json.map(|json| json.0);
            Ok(TaskDetail {
                overview: task(row)?,
                input: row.try_get::<_, Json>(12)?.0,
                output: json(row.try_get(13)?),
                error: json(row.try_get(14)?),
            })
        }))
    }

    async fn refund(&self, task: &str, now: Moment) -> Result<Refund> {
        transaction!(self, |tx| refund(tx, task, now))
    }
}

/// What the refund of a task needs to know of it.
struct Charged {
    sequence: i64,
    account: AccountId,
    username: String,
    publisher: AccountId,
    status: Status,
    free: Money,
    balance: Money,
}

async fn refund(tx: &Transaction<'_>, task: &str, now: Moment) -> Outcome<Refund> {
    let charged = first(
        tx,
        "SELECT sequence, account, username, publisher, status, held_free, held_balance \
         FROM tasks JOIN accounts ON accounts.id = account WHERE tasks.id = $1",
        &[&task],
        |row| {
            Ok(Charged {
                sequence: row.try_get(0)?,
                account: row.try_get(1)?,
                username: row.try_get(2)?,
                publisher: row.try_get(3)?,
                status: row.try_get(4)?,
                free: row.try_get(5)?,
                balance: row.try_get(6)?,
            })
        },
    )
    .await?;
    let Some(charged) = charged else { return Ok(Refund::Unknown) };
    let overflow = || Error::new("refunding a task", "its price is out of range");
    let amount = charged.free.checked_add(charged.balance).ok_or_else(overflow)?;
    if charged.status != Status::Success || !amount.is_positive() {
        return Ok(Refund::NotCharged);
    }
    // From here on, another refund of the task waits, and then sees this one.
    lock(tx, &[charged.account, charged.publisher]).await?;
    if !is_there(tx, "SELECT 1 FROM tasks WHERE id = $1", &[&task]).await? {
        // Retention has deleted it meanwhile, and its refund with it.
        return Ok(Refund::Unknown);
    }
    let refunded = "SELECT 1 FROM movements WHERE task = $1 AND reason = 'refund'";
    if is_there(tx, refunded, &[&charged.sequence]).await? {
        return Ok(Refund::Already);
    }
    add_changes(tx, charged.publisher).await?;
    let earnings = purses(tx, charged.publisher).await?.earnings;
    if earnings < amount {
        return Ok(Refund::EarningsTooSmall { earnings });
    }
    purses(tx, charged.account).await?.check_room_for(amount)?;
    let from = Some((charged.publisher, Purse::Earnings));
    let price = Split { free: charged.free, balance: charged.balance };
    let refund = Movement::of_return(from, charged.account, price, Reason::Refund);
    move_all(tx, refund, Some(charged.sequence), now).await?;
    Ok(Refund::Done { account: charged.username, amount })
}
