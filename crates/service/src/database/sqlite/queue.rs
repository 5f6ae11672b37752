//! Queue in SQLite: a task and its money always change in one transaction.

mod create;
pub(super) mod lease;
mod retention;

use async_trait::async_trait;
use rusqlite::{Connection, params};

use super::SqliteDatabase;
use super::movements::{move_all, move_money};
use super::statements::Statements as _;
use crate::Result;
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::database::engine::{self, Engine as _, Rows as _};
use crate::database::records::{self, Row, RowFrom, column, pair, split};
use crate::database::shared_sql::{
    FORGET_KEY_TASKS, FORGET_KEYS, KEYED_CREATE, LEASE_STATE, MODEL_LOADS, TASK,
};
use crate::ledger::{Money, Movement, Origin, Purse, Reason, Split};
use crate::queue::{
    Abandoned, Cancel, Claim, Created, End, Ending, InsufficientBalance, KEY_RETENTION, KeyedCreate,
    LeaseRules, LeaseState, ModelLoad, NewTask, NodeEnd, Queue, RETENTION_BATCH, Serving, Slot, Status, Task,
    TaskSummary,
};

#[async_trait]
impl Queue for SqliteDatabase {
    async fn create_task(
        &self,
        task: &NewTask,
        insufficient_balance: InsufficientBalance,
        max_unfinished: u32,
        now: Moment,
    ) -> Result<Created> {
        let task = task.clone();
        self.write(move |db| create::create(db, &task, insufficient_balance, max_unfinished, now)).await
    }

    async fn keyed_create(&self, account: AccountId, key: &str, now: Moment) -> Result<Option<KeyedCreate>> {
        let used_after = now.before(KEY_RETENTION);
        self.first(KEYED_CREATE, engine::params![account, key, used_after], records::keyed_create).await
    }

    async fn forget_keys(&self, now: Moment) -> Result<usize> {
        let before = now.before(KEY_RETENTION);
        let keys = self.run(FORGET_KEYS, engine::params![before]).await?;
        let tasks = self.run(FORGET_KEY_TASKS, engine::params![before.day()]).await?;
        Ok(usize::try_from(keys + tasks).unwrap_or(usize::MAX))
    }

    async fn cancel(&self, account: AccountId, id: &str, now: Moment) -> Result<Cancel> {
        let id = id.to_owned();
        self.write(move |db| cancel(db, account, &id, now)).await
    }

    async fn task(&self, account: AccountId, id: &str) -> Result<Option<Task>> {
        self.first(TASK, engine::params![id, account], records::task).await
    }

    async fn history(&self, account: AccountId, limit: u32, offset: u64) -> Result<(Vec<TaskSummary>, u64)> {
        // Positions have no gaps: a page is found by its first position at any depth; the count is next minus first.
        self.read(move |db| {
            let snapshot = db.unchecked_transaction()?;
            let places = "SELECT first_place, tasks FROM accounts WHERE id = ?";
            let (first, next): (i64, i64) = snapshot.one(places, [account], pair)?;
            let select = "SELECT id, status, model, coalesce(cost, 0), created_at, updated_at FROM tasks \
                 WHERE account = ? AND place >= ? ORDER BY place LIMIT ?";
            let from = first.saturating_add_unsigned(offset);
            let page = snapshot.all(select, params![account, from, limit], records::task_summary)?;
            Ok((page, next.abs_diff(first)))
        })
        .await
    }

    async fn serving(&self, model: &str, since: Moment) -> Result<Serving> {
        // One index lookup for each consumer, however many tasks they have.
        let select = "SELECT EXISTS (SELECT 1 FROM node_models JOIN nodes ON nodes.id = node_models.node \
                        WHERE model = ?1 AND coalesce(node_models.seen_at, nodes.seen_at) >= ?2), \
                (WITH RECURSIVE consumers (account) AS ( \
                   SELECT min(account) FROM tasks \
                   WHERE status IN ('in_queue', 'computing') AND model = ?1 \
                   UNION ALL SELECT (SELECT min(account) FROM tasks \
                     WHERE status IN ('in_queue', 'computing') AND model = ?1 \
                     AND tasks.account > consumers.account) \
                   FROM consumers WHERE consumers.account IS NOT NULL) \
                 SELECT count(account) FROM consumers)";
        let model = model.to_owned();
        self.read(move |db| Ok(db.one(select, params![model, since], records::serving)?)).await
    }

    async fn oldest_queued(&self) -> Result<Option<Moment>> {
        // One index lookup for each account and model, however many tasks are queued.
        let select = "SELECT created_at FROM tasks WHERE sequence = ( \
                        SELECT min((SELECT min(sequence) FROM tasks WHERE status = 'in_queue' \
                                    AND model = turns.model AND account = turns.account)) FROM turns \
                        WHERE (SELECT state FROM accounts WHERE id = turns.account) = 'active' \
                          AND NOT EXISTS (SELECT 1 FROM models WHERE id = turns.model AND state <> 'active'))";
        self.first(select, &[], column).await
    }

    async fn model_loads(&self, since: Moment) -> Result<Vec<ModelLoad>> {
        self.all(MODEL_LOADS, engine::params![since], records::model_load).await
    }

    async fn depths(&self) -> Result<Vec<(Status, u64)>> {
        self.all("SELECT status, tasks FROM task_counts", &[], pair).await
    }

    async fn finish_and_claim(
        &self,
        ends: &[End],
        slots: &[Slot],
        rules: LeaseRules,
        now: Moment,
    ) -> Result<(Vec<bool>, Vec<Claim>)> {
        let (ends, slots) = (ends.to_vec(), slots.to_vec());
        if ends.is_empty() {
            let looking = slots.clone();
            // A read-only check, so that idle nodes do not delay writes.
            let idle = self.read(move |db| lease::idle(db, &looking, rules, now)).await?;
            if let Some(claims) = idle {
                return Ok((Vec::new(), claims));
            }
        }
        self.write(move |db| {
            let finish = |end: &End| lease::finish(db, &end.node, &end.task, end.attempt, &end.ending, now);
            let ended = ends.iter().map(finish).collect::<Result<_, _>>()?;
            Ok((ended, lease::claim(db, &slots, rules, now)?))
        })
        .await
    }

    async fn release(&self, node: &str, task: &str, attempt: i64, now: Moment) -> Result<()> {
        let release = "UPDATE tasks SET lease_until = ?1, releases = releases + 1 \
             WHERE id = ?2 AND status = 'computing' AND node = ?3 AND attempt = ?4 AND lease_until > ?1";
        self.run(release, engine::params![now.0 - 1, task, node, attempt]).await.map(drop)
    }

    async fn fail_abandoned(&self, which: Abandoned, now: Moment) -> Result<usize> {
        self.write(move |db| lease::fail_abandoned(db, which, now)).await
    }

    async fn heartbeat(
        &self,
        node: &str,
        task: &str,
        attempt: i64,
        until: Moment,
        oldest: Option<Moment>,
    ) -> Result<bool> {
        let prolong = "UPDATE tasks SET lease_until = ? \
             WHERE id = ? AND status = 'computing' AND node = ? AND attempt = ? AND coalesce(leased_at >= ?, 1)";
        Ok(self.run(prolong, engine::params![until, task, node, attempt, oldest]).await? > 0)
    }

    async fn finish(&self, node: &str, task: &str, attempt: i64, end: &Ending, now: Moment) -> Result<bool> {
        let (node, task, end) = (node.to_owned(), task.to_owned(), end.clone());
        self.write(move |db| lease::finish(db, &node, &task, attempt, &end, now)).await
    }

    async fn fail_running(&self, task: &str, message: &str, now: Moment) -> Result<bool> {
        let (task, message) = (task.to_owned(), message.to_owned());
        self.write(move |db| {
            let running = "SELECT 1 FROM tasks WHERE id = ? AND status = 'computing'";
            let is_running = db.is_there(running, [&task])?;
            if is_running {
                lease::fail(db, &task, message, now)?;
            }
            Ok(is_running)
        })
        .await
    }

    async fn lease_state(&self, node: &str, task: &str, attempt: i64) -> Result<LeaseState> {
        let of_lease = engine::params![task, node, attempt];
        Ok(self.first(LEASE_STATE, of_lease, records::lease_state).await?.unwrap_or(LeaseState::Lost))
    }

    async fn node_ended(&self, node: &str, end: NodeEnd, now: Moment) -> Result<()> {
        let node = node.to_owned();
        self.write(move |db| {
            db.run("DELETE FROM nodes WHERE id = ?", [&node])?;
            let expire = "UPDATE tasks SET lease_until = ?1, releases = releases + (releases < ?2) \
                          WHERE status = 'computing' AND node = ?3 AND lease_until > ?1";
            db.run(expire, params![now.0 - 1, end.uncounted(), node])?;
            Ok(())
        })
        .await
    }

    async fn fail_queued(&self, created_before: Moment, now: Moment) -> Result<usize> {
        let mut failed = 0;
        loop {
            let batch = self.write(move |db| lease::fail_queued(db, created_before, now)).await?;
            failed += batch;
            if batch == 0 {
                return Ok(failed);
            }
        }
    }

    async fn delete_ended_tasks(&self, ended_before: Moment, now: Moment) -> Result<usize> {
        let mut deleted = 0;
        let which = engine::params![ended_before, i64::from(RETENTION_BATCH)];
        for account in self.all(retention::ACCOUNTS, which, column).await? {
            // Small transactions, so that other writes run in between.
            loop {
                let batch = self.write(move |db| retention::delete(db, account, ended_before, now)).await?;
                deleted += batch;
                if batch == 0 {
                    break;
                }
            }
        }
        Ok(deleted)
    }
}

fn cancel(db: &Connection, account: AccountId, id: &str, now: Moment) -> Result<Cancel> {
    let select = "SELECT status FROM tasks WHERE id = ? AND account = ?";
    match db.first(select, params![id, account], column)? {
        None => Ok(Cancel::Unknown),
        Some(Status::Queued) => {
            refund(db, id, now)?;
            let update = "UPDATE tasks SET status = 'canceled', updated_at = ? WHERE id = ?";
            db.change_one(update, params![now, id])?;
            Ok(Cancel::Canceled)
        }
        Some(status) => Ok(Cancel::Refused(status)),
    }
}

fn hold(db: &Connection, task: &str) -> Result<(AccountId, AccountId, Split)> {
    let select = "SELECT account, publisher, held_free, held_balance FROM tasks WHERE id = ?";
    let hold = |row: &dyn Row| Ok((row.get(0)?, row.get(1)?, split(&RowFrom { first: 2, row })?));
    let (account, publisher, held): (_, _, Split) = db.one(select, [task], hold)?;
    debug_assert!(held.free >= Money::ZERO, "a task holds a negative amount of free credits");
    debug_assert!(held.balance >= Money::ZERO, "a task holds a negative part of the balance");
    Ok((account, publisher, held))
}

fn refund(db: &Connection, task: &str, now: Moment) -> Result<()> {
    let (account, _, held) = hold(db, task)?;
    let released = Movement::of_return(Some((account, Purse::Held)), account, held, Reason::Release);
    move_all(db, released, Origin::Task(task), now)
}

fn charge(db: &Connection, task: &str, now: Moment) -> Result<()> {
    let (account, publisher, held) = hold(db, task)?;
    let amount = held.total()?;
    let from = Some((account, Purse::Held));
    let to = Some((publisher, Purse::Earnings));
    move_money(db, Movement { amount, from, to, reason: Reason::Charge }, Origin::Task(task), now)
}
