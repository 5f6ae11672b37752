//! The operator's reads, changes and refunds, in any engine.

use async_trait::async_trait;

use super::accounts::add_key;
use super::cache::CachedRows;
use super::engine::{Engine, How, Rows as _, params, work};
use super::lists::{one_task, page_of_tasks};
use super::records::{
    action, charged, column, key_overview, member_columns, model_overview, movement_overview, node_overview,
    pair, task_detail, task_overview,
};
use super::values::signed;
use crate::accounts::{AccountId, Scope, StoredKey};
use crate::clock::Moment;
use crate::ledger::Origin;
use crate::operator::{
    Action, AdminDatabase, KeyOverview, KeyRefusal, ModelOverview, MovementOverview, NodeOverview, Refund,
    TaskChange, TaskDetail, TaskFilter, TaskOverview,
};
use crate::queue::Status;
use crate::{Error, Result};

const KEYS_OF_ACCOUNT: &str = "SELECT id, created_at, revoked_at, name, expires_at, daily_limit, models \
     FROM api_keys WHERE account = $1 ORDER BY created_at DESC, id";

#[async_trait]
impl<E: Engine> AdminDatabase for E {
    async fn keys(&self, account: AccountId) -> Result<Vec<KeyOverview>> {
        self.all(KEYS_OF_ACCOUNT, params![account], key_overview).await
    }

    async fn add_own_key(
        &self,
        owner: AccountId,
        key: &StoredKey,
        now: Moment,
    ) -> Result<Result<(), KeyRefusal>> {
        work!(self, How::Change(CachedRows::Keys), |db, owner, key, now| {
            // Concurrent creates of an account would exceed its limits, or take one name twice.
            db.lock_purses(&[*owner]).await?;
            let keys = db.all(KEYS_OF_ACCOUNT, params![owner], key_overview).await?;
            match KeyRefusal::of(&keys, key.rules.name.as_deref(), *now) {
                Some(refusal) => Ok(Err(refusal)),
                None => add_key(db, *owner, key, *now).await.map(Ok),
            }
        })
    }

    async fn keys_like(&self, beginning: &str) -> Result<Vec<String>> {
        let select = "SELECT id FROM api_keys WHERE revoked_at IS NULL \
                      AND substr(id, 1, length($1)) = $1 ORDER BY id LIMIT 2";
        self.all(select, params![beginning], column).await
    }

    async fn memberships(&self, account: AccountId, scope: Scope) -> Result<Vec<String>> {
        let (others, own) = member_columns(scope);
        let select =
            format!("SELECT username FROM members JOIN accounts ON accounts.id = {others} WHERE {own} = $1");
        let mut usernames: Vec<String> = self.all(&select, params![account], column).await?;
        usernames.sort_unstable();
        Ok(usernames)
    }

    async fn all_models(&self, limit: u32, offset: u64) -> Result<Vec<ModelOverview>> {
        let select = "SELECT models.id, username, name, price, is_public, is_official, \
             is_verified, is_playground, models.state, models.created_at, updated_at \
             FROM models JOIN accounts ON accounts.id = owner ORDER BY sequence LIMIT $1 OFFSET $2";
        self.all(select, params![limit, signed(offset)], model_overview).await
    }

    async fn movements(&self, account: AccountId, limit: u32, offset: u64) -> Result<Vec<MovementOverview>> {
        let select = "SELECT at, reason, movements.amount, from_purse, to_purse, reference, note \
             FROM movements LEFT JOIN adjustments ON adjustments.id = adjustment \
             WHERE task IS NULL AND coalesce(from_account, to_account) = $1 \
             ORDER BY at DESC, movements.id DESC LIMIT $2 OFFSET $3";
        self.all(select, params![account, limit, signed(offset)], movement_overview).await
    }

    async fn nodes(&self) -> Result<Vec<NodeOverview>> {
        let select = format!(
            "SELECT node_keys.name, nodes.id, seen_at, CASE WHEN nodes.id IS NULL THEN models \
               ELSE (SELECT {} FROM node_models WHERE node = nodes.id) END, created_at, revoked_at \
             FROM node_keys FULL JOIN nodes ON nodes.key = node_keys.name \
             ORDER BY created_at NULLS FIRST, seen_at DESC",
            E::DIALECT.json_of_models
        );
        self.all(&select, params![], node_overview).await
    }

    async fn all_tasks(&self, filter: TaskFilter) -> Result<Vec<TaskOverview>> {
        let TaskFilter { account, status, limit, offset } = filter;
        let page = page_of_tasks(filter, E::DIALECT.task);
        self.all(&page, params![account, status, limit, signed(offset)], task_overview).await
    }

    async fn any_task(&self, id: &str) -> Result<Option<TaskDetail>> {
        self.first(&one_task(E::DIALECT.task), params![id], task_detail).await
    }

    async fn record_action(&self, action: &Action) -> Result<i64> {
        let Action { at, request, body, status } = action;
        let insert =
            "INSERT INTO operator_log (at, request, body, status) VALUES ($1, $2, $3, $4) RETURNING id";
        let ids = self.all_as(How::Statement, insert, params![at, request, body, status], column).await?;
        ids.first().copied().ok_or_else(|| Error::new("writing the audit log", "the entry has no number"))
    }

    async fn change_action(&self, id: i64, action: Option<&Action>) -> Result<()> {
        let changed = match action {
            None => self.run("DELETE FROM operator_log WHERE id = $1", params![id]).await,
            Some(Action { body, status, .. }) => {
                let update = "UPDATE operator_log SET body = $1, status = $2 WHERE id = $3";
                self.run(update, params![body, status, id]).await
            }
        };
        changed.map(drop)
    }

    async fn actions(&self, limit: u32, offset: u64) -> Result<Vec<Action>> {
        let select = "SELECT at, request, body, status FROM operator_log ORDER BY id DESC LIMIT $1 OFFSET $2";
        self.all(select, params![limit, signed(offset)], action).await
    }

    async fn queued_of_model(&self, model: &str) -> Result<Vec<(AccountId, String)>> {
        let select = "SELECT account, id FROM tasks WHERE status = 'in_queue' AND model = $1 LIMIT 1000";
        self.all(select, params![model], pair).await
    }

    async fn cancel_task(&self, id: &str, now: Moment) -> Result<TaskChange> {
        let account = self.first("SELECT account FROM tasks WHERE id = $1", params![id], column).await?;
        match account {
            Some(account) => Ok(self.cancel(account, id, now).await?.into()),
            None => Ok(TaskChange::Unknown),
        }
    }

    async fn fail_task(&self, id: &str, message: &str, now: Moment) -> Result<TaskChange> {
        if self.fail_running(id, message, now).await? {
            return Ok(TaskChange::Done);
        }
        refused(self, id).await
    }

    async fn requeue_task(&self, id: &str, now: Moment) -> Result<TaskChange> {
        // The ended lease does not count as an attempt. A task without a node has been requeued since its last lease.
        let requeue = "UPDATE tasks SET lease_until = $1, node = '', \
                         releases = releases + CASE WHEN node = '' THEN 0 ELSE 1 END \
                       WHERE id = $2 AND status = 'computing'";
        match self.run(requeue, params![now.0 - 1, id]).await? {
            0 => refused(self, id).await,
            _ => Ok(TaskChange::Done),
        }
    }

    async fn refund(&self, task: &str, now: Moment) -> Result<Refund> {
        work!(self, How::Transaction, |db, task, now| {
            let select = "SELECT account, username, publisher, status, held_free, held_balance \
                 FROM tasks JOIN accounts ON accounts.id = account WHERE tasks.id = $1";
            let Some(charged) = db.first(select, params![task], charged).await? else {
                return Ok(Refund::Unknown);
            };
            if !charged.is_charged() {
                return Ok(Refund::NotCharged);
            }
            // From here on, a concurrent refund of the task waits, and then sees this one.
            db.lock_purses(&[charged.account, charged.publisher]).await?;
            if !db.is_there("SELECT 1 FROM tasks WHERE id = $1", params![task]).await? {
                // Retention has deleted the task meanwhile, together with its refund.
                return Ok(Refund::Unknown);
            }
            let refunded = format!(
                "SELECT 1 FROM movements WHERE task = (SELECT {} FROM tasks WHERE id = $1) AND reason = 'refund'",
                db.dialect().task
            );
            if db.is_there(&refunded, params![task]).await? {
                return Ok(Refund::Already);
            }
            let owned = db.purses(charged.account).await?;
            let publisher = db.spendable_purses(charged.publisher).await?;
            let (movements, refund) = charged.refund(&owned, &publisher)?;
            db.move_all(&movements, Origin::Task(task), *now).await?;
            Ok(refund)
        })
    }
}

async fn refused(database: &impl Engine, id: &str) -> Result<TaskChange> {
    let status: Option<Status> =
        database.first("SELECT status FROM tasks WHERE id = $1", params![id], column).await?;
    Ok(status.map_or(TaskChange::Unknown, TaskChange::Refused))
}
