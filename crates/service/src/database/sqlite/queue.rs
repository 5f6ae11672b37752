//! The queue in SQLite: a task and its money always move in one transaction.

mod create;
mod lease;
mod read;

use async_trait::async_trait;
use sqlx::{Row, SqliteConnection};

use super::movements::move_money;
use super::{SqliteDatabase, unsigned};
use crate::Error;
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::ledger::{Money, Purse, Reason, Split};
use crate::queue::{
    Cancel, Created, Ending, InsufficientBalance, Lease, LeaseRules, LeaseState, NewTask, Queue, Serving,
    Status, Task, TaskSummary,
};

#[async_trait]
impl Queue for SqliteDatabase {
    async fn create_task(
        &self,
        task: &NewTask,
        otherwise: InsufficientBalance,
        now: Moment,
    ) -> Result<Created, Error> {
        let task = task.clone();
        self.together(move |tx| Box::pin(async move { create::create(tx, &task, otherwise, now).await }))
            .await
    }

    async fn cancel(&self, account: AccountId, id: &str, now: Moment) -> Result<Cancel, Error> {
        let mut tx = self.write().await?;
        let row = sqlx::query("SELECT status FROM tasks WHERE id = ? AND account = ?")
            .bind(id)
            .bind(account.0)
            .fetch_optional(&mut *tx)
            .await?;
        let Some(row) = row else {
            return Ok(Cancel::Unknown);
        };
        let status = status(row.try_get("status")?)?;
        if status != Status::Queued {
            return Ok(Cancel::Refused(status));
        }
        release(&mut tx, id, now).await?;
        sqlx::query("UPDATE tasks SET status = 'canceled', updated_at = ? WHERE id = ?")
            .bind(now.0)
            .bind(id)
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(Cancel::Canceled)
    }

    async fn task(&self, account: AccountId, id: &str) -> Result<Option<Task>, Error> {
        read::task(&self.readers, account, id).await
    }

    async fn history(
        &self,
        account: AccountId,
        limit: u32,
        offset: u64,
    ) -> Result<(Vec<TaskSummary>, u64), Error> {
        read::history(&self.readers, account, limit, offset).await
    }

    async fn serving(&self, model: &str, since: Moment) -> Result<Serving, Error> {
        read::serving(&self.readers, model, since).await
    }

    async fn depths(&self) -> Result<Vec<(Status, u64)>, Error> {
        let rows = sqlx::query("SELECT status, tasks FROM task_counts").fetch_all(&self.readers).await?;
        rows.iter().map(|row| Ok((status(row.try_get(0)?)?, unsigned(row.try_get(1)?)))).collect()
    }

    async fn claim(
        &self,
        node: &str,
        models: &[String],
        rules: LeaseRules,
        now: Moment,
    ) -> Result<Option<Lease>, Error> {
        if !lease::is_there_work(&self.readers, models, now).await? {
            return Ok(None);
        }
        let (node, models) = (node.to_owned(), models.to_vec());
        self.together(move |tx| Box::pin(async move { lease::claim(tx, &node, &models, rules, now).await }))
            .await
    }

    async fn heartbeat(
        &self,
        node: &str,
        task: &str,
        attempt: i64,
        until: Moment,
        oldest: Option<Moment>,
    ) -> Result<bool, Error> {
        let done = sqlx::query(
            "UPDATE tasks SET lease_until = ? \
             WHERE id = ? AND status = 'computing' AND node = ? AND attempt = ? \
             AND coalesce(leased_at >= ?, 1)",
        )
        .bind(until.0)
        .bind(task)
        .bind(node)
        .bind(attempt)
        .bind(oldest.map(|oldest| oldest.0))
        .execute(&self.writer)
        .await?;
        Ok(done.rows_affected() > 0)
    }

    async fn finish(
        &self,
        node: &str,
        task: &str,
        attempt: i64,
        ending: &Ending,
        now: Moment,
    ) -> Result<bool, Error> {
        let (node, task, ending) = (node.to_owned(), task.to_owned(), ending.clone());
        self.together(move |tx| {
            Box::pin(async move { lease::finish(tx, &node, &task, attempt, &ending, now).await })
        })
        .await
    }

    async fn lease_state(&self, node: &str, task: &str, attempt: i64) -> Result<LeaseState, Error> {
        let row = sqlx::query(
            "SELECT status, output_format FROM tasks JOIN versions ON versions.id = tasks.version \
             WHERE tasks.id = ? AND node = ? AND attempt = ?",
        )
        .bind(task)
        .bind(node)
        .bind(attempt)
        .fetch_optional(&self.readers)
        .await?;
        let Some(row) = row else { return Ok(LeaseState::Lost) };
        Ok(match status(row.try_get("status")?)? {
            Status::Computing => LeaseState::Running { output_format: row.try_get("output_format")? },
            _ => LeaseState::Ended,
        })
    }

    async fn node_seen(&self, node: &str, models: &[String], now: Moment) -> Result<(), Error> {
        let mut tx = self.write().await?;
        sqlx::query("INSERT INTO nodes (id, seen_at) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET seen_at = ?2")
            .bind(node)
            .bind(now.0)
            .execute(&mut *tx)
            .await?;
        sqlx::query("DELETE FROM node_models WHERE node = ?").bind(node).execute(&mut *tx).await?;
        sqlx::query("INSERT INTO node_models SELECT DISTINCT value, ?1 FROM json_each(?2)")
            .bind(node)
            .bind(serde_json::json!(models).to_string())
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(())
    }

    async fn node_gone(&self, node: &str, now: Moment) -> Result<(), Error> {
        let mut tx = self.write().await?;
        sqlx::query("DELETE FROM nodes WHERE id = ?").bind(node).execute(&mut *tx).await?;
        sqlx::query("UPDATE tasks SET lease_until = ? WHERE status = 'computing' AND node = ?")
            .bind(now.0 - 1)
            .bind(node)
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(())
    }
}

fn status(word: String) -> Result<Status, Error> {
    Status::from_word(&word).ok_or_else(|| Error::new("reading a task", format!("{word:?} is no status")))
}

/// Whose money a task holds.
struct Hold {
    account: AccountId,
    publisher: AccountId,
    held: Split,
}

async fn hold(tx: &mut SqliteConnection, task: &str) -> Result<Hold, Error> {
    let row = sqlx::query("SELECT account, publisher, held_free, held_balance FROM tasks WHERE id = ?")
        .bind(task)
        .fetch_one(tx)
        .await?;
    Ok(Hold {
        account: AccountId(row.try_get("account")?),
        publisher: AccountId(row.try_get("publisher")?),
        held: Split {
            free: Money::from_smallest(row.try_get("held_free")?),
            balance: Money::from_smallest(row.try_get("held_balance")?),
        },
    })
}

/// Gives what a task holds back to the purses that it came from.
async fn release(tx: &mut SqliteConnection, task: &str, now: Moment) -> Result<(), Error> {
    let hold = hold(tx, task).await?;
    let from = Some((hold.account, Purse::Held));
    for (purse, part) in [(Purse::Free, hold.held.free), (Purse::Balance, hold.held.balance)] {
        let to = Some((hold.account, purse));
        move_money(tx, part, from, to, Reason::Release, Some(task), now).await?;
    }
    Ok(())
}

/// Pays what a task holds to the publisher of its model.
async fn charge(tx: &mut SqliteConnection, task: &str, now: Moment) -> Result<(), Error> {
    let hold = hold(tx, task).await?;
    let price = hold.held.free.checked_add(hold.held.balance).unwrap_or_default();
    let (from, to) = (Some((hold.account, Purse::Held)), Some((hold.publisher, Purse::Earnings)));
    move_money(tx, price, from, to, Reason::Charge, Some(task), now).await
}
