//! What only the operator reads, refunds, and copies of the database, in SQLite.

use std::path::Path;

use async_trait::async_trait;
use rusqlite::{Connection, OpenFlags, params};

use super::movements::{move_money, purses};
use super::statements::Statements as _;
use super::values::Json;
use super::{SqliteDatabase, connect, signed};
use crate::Error;
use crate::accounts::{AccountId, Scope};
use crate::admin::{
    AdminDatabase, KeyOverview, ModelOverview, NodeOverview, Refund, TaskDetail, TaskFilter, TaskOverview,
};
use crate::clock::Moment;
use crate::ledger::{Money, Purse, Reason};
use crate::queue::Status;

const TASK: &str = "SELECT tasks.id, username, model, status, price, cost, message, node, attempt, \
     tasks.created_at, updated_at, \
     EXISTS (SELECT 1 FROM movements WHERE task = tasks.id AND reason = 'refund'), input, output, error \
     FROM tasks JOIN accounts ON accounts.id = tasks.account";

fn task(row: &rusqlite::Row<'_>) -> rusqlite::Result<TaskOverview> {
    Ok(TaskOverview {
        task: row.get(0)?,
        account: row.get(1)?,
        model: row.get(2)?,
        status: row.get::<_, Status>(3)?.word(),
        price: row.get(4)?,
        cost: row.get(5)?,
        message: row.get(6)?,
        node: row.get(7)?,
        attempt: row.get(8)?,
        created_at: row.get(9)?,
        updated_at: row.get(10)?,
        is_refunded: row.get(11)?,
    })
}

#[async_trait]
impl AdminDatabase for SqliteDatabase {
    async fn keys(&self, account: AccountId) -> Result<Vec<KeyOverview>, Error> {
        self.read(move |db| {
            Ok(db.all(
                "SELECT id, created_at, revoked_at FROM api_keys WHERE account = ? \
                 ORDER BY created_at DESC, id",
                [account],
                |row| Ok(KeyOverview { key: row.get(0)?, created_at: row.get(1)?, revoked_at: row.get(2)? }),
            )?)
        })
        .await
    }

    async fn keys_like(&self, beginning: &str) -> Result<Vec<String>, Error> {
        let beginning = beginning.to_owned();
        self.read(move |db| {
            // An identifier has letters and digits alone, so nothing in a beginning is a wildcard.
            let select = "SELECT id FROM api_keys WHERE revoked_at IS NULL \
                          AND substr(id, 1, length(?1)) = ?1 LIMIT 2";
            Ok(db.all(select, [beginning], |row| row.get(0))?)
        })
        .await
    }

    async fn memberships(&self, account: AccountId, scope: Scope) -> Result<Vec<String>, Error> {
        self.read(move |db| {
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
            Ok(db.all(select, [account], |row| row.get(0))?)
        })
        .await
    }

    async fn all_models(&self, limit: u32, offset: u64) -> Result<Vec<ModelOverview>, Error> {
        self.read(move |db| {
            Ok(db.all(
                "SELECT models.id, username, name, price, is_public, is_official, is_verified, \
                 is_playground, models.created_at, updated_at \
                 FROM models JOIN accounts ON accounts.id = owner ORDER BY sequence LIMIT ? OFFSET ?",
                params![limit, signed(offset)],
                |row| {
                    Ok(ModelOverview {
                        model: row.get(0)?,
                        publisher: row.get(1)?,
                        name: row.get(2)?,
                        price: row.get(3)?,
                        visibility: row.get(4)?,
                        is_official: row.get(5)?,
                        is_verified: row.get(6)?,
                        is_playground: row.get(7)?,
                        created_at: row.get(8)?,
                        updated_at: row.get(9)?,
                    })
                },
            )?)
        })
        .await
    }

    async fn nodes(&self) -> Result<Vec<NodeOverview>, Error> {
        self.read(|db| {
            let rows = db.all(
                "SELECT node_keys.name, nodes.id, seen_at, created_at, revoked_at, models, \
                 (SELECT json_group_array(model) FROM node_models WHERE node = nodes.id) \
                 FROM node_keys FULL JOIN nodes ON nodes.key = node_keys.name \
                 ORDER BY created_at, seen_at DESC",
                [],
                |row| {
                    let node: Option<String> = row.get(1)?;
                    let registered: String = row.get(6)?;
                    let allowed: Option<String> = row.get(5)?;
                    let models = if node.is_some() { Some(registered) } else { allowed };
                    let overview = NodeOverview {
                        key: row.get(0)?,
                        node,
                        seen_at: row.get(2)?,
                        models: None,
                        created_at: row.get(3)?,
                        revoked_at: row.get(4)?,
                    };
                    Ok((overview, models))
                },
            )?;
            let named = rows.into_iter().map(|(overview, models)| {
                let models = models.map(|models| serde_json::from_str(&models)).transpose();
                let models = models.map_err(|cause| Error::new("reading the models of a node", cause))?;
                Ok(NodeOverview { models, ..overview })
            });
            named.collect()
        })
        .await
    }

    async fn all_tasks(&self, filter: TaskFilter) -> Result<Vec<TaskOverview>, Error> {
        self.read(move |db| {
            let sql = format!(
                "{TASK} WHERE {} AND {} ORDER BY sequence DESC LIMIT ?3 OFFSET ?4",
                if filter.account.is_some() { "account = ?1" } else { "?1 IS NULL" },
                if filter.status.is_some() { "status = ?2" } else { "?2 IS NULL" },
            );
            let TaskFilter { account, status, limit, offset } = filter;
            Ok(db.all(&sql, params![account, status, limit, signed(offset)], task)?)
        })
        .await
    }

    async fn any_task(&self, id: &str) -> Result<Option<TaskDetail>, Error> {
        let id = id.to_owned();
        self.read(move |db| {
            Ok(db.first(&format!("{TASK} WHERE tasks.id = ?"), [id], |row| {
                let json = |json: Option<Json>| json.map(|json| json.0);
                Ok(TaskDetail {
                    overview: task(row)?,
                    input: row.get::<_, Json>(12)?.0,
                    output: json(row.get(13)?),
                    error: json(row.get(14)?),
                })
            })?)
        })
        .await
    }

    async fn refund(&self, task: &str, now: Moment) -> Result<Refund, Error> {
        let task = task.to_owned();
        self.write(move |db| refund(db, &task, now)).await
    }

    async fn blobs_of(&self, backup: &Path) -> Result<Vec<String>, Error> {
        let backup = backup.to_owned();
        self.read(move |_| {
            let copy = connect(&backup, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            Ok(copy.all("SELECT blob FROM objects", [], |row| row.get(0))?)
        })
        .await
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

fn refund(db: &Connection, task: &str, now: Moment) -> Result<Refund, Error> {
    let charged = db.first(
        "SELECT account, username, publisher, status, held_free, held_balance \
         FROM tasks JOIN accounts ON accounts.id = account WHERE tasks.id = ?",
        [task],
        |row| {
            Ok(Charged {
                account: row.get(0)?,
                username: row.get(1)?,
                publisher: row.get(2)?,
                status: row.get(3)?,
                free: row.get(4)?,
                balance: row.get(5)?,
            })
        },
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
    let from = Some((charged.publisher, Purse::Earnings));
    for (purse, part) in [(Purse::Free, charged.free), (Purse::Balance, charged.balance)] {
        let to = Some((charged.account, purse));
        move_money(db, part, from, to, Reason::Refund, Some(task), now)?;
    }
    Ok(Refund::Done { account: charged.username, amount })
}
