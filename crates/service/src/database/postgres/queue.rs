//! Queue in PostgreSQL: a task and its money always change in one statement.

mod claim;
pub(super) mod create;
pub(super) mod end;
mod retention;

use async_trait::async_trait;

use super::PostgresDatabase;
use super::failure::{read, statement, transaction};
use super::statements::{Params, all, first, one, page, run};
use crate::Result;
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::database::records::{self, column, pair};
use crate::database::shared_sql::{
    FORGET_KEY_TASKS, FORGET_KEYS, KEYED_CREATE, LEASE_STATE, MODEL_LOADS, TASK,
};
use crate::database::values::signed;
use crate::queue::{
    ABANDONED, Abandoned, Cancel, Claim, Created, End, Ending, InsufficientBalance, KEY_RETENTION,
    KeyedCreate, LeaseRules, LeaseState, ModelLoad, NOT_STARTED, NewTask, NodeEnd, QUEUED_BATCH, Queue,
    RETENTION_BATCH, Serving, Slot, Status, Task, TaskSummary, detail_of,
};

#[async_trait]
impl Queue for PostgresDatabase {
    async fn create_task(
        &self,
        task: &NewTask,
        insufficient_balance: InsufficientBalance,
        max_unfinished: u32,
        now: Moment,
    ) -> Result<Created> {
        let create = create::Create { task: task.clone(), max_unfinished, now };
        let created = match &task.spending {
            Some(spending) => self.create_within(spending, &create).await?,
            None => self.create(create).await?,
        };
        // The create that used the key may have spent the rest of the balance.
        let is_refused = matches!(
            created,
            Created::Refused { .. } | Created::KeyLimit { .. } | Created::TooManyUnfinished
        );
        if is_refused && let Some(used) = self.key_used(task, now).await? {
            return Ok(Created::KeyUsed(used));
        }
        match (created, insufficient_balance) {
            (Created::Refused { spendable }, InsufficientBalance::FailTask) => {
                self.create_failed(task, spendable, now).await
            }
            (created, _) => Ok(created),
        }
    }

    async fn keyed_create(&self, account: AccountId, key: &str, now: Moment) -> Result<Option<KeyedCreate>> {
        let used_after = now.before(KEY_RETENTION);
        read!(self, |db| first(db, KEYED_CREATE, &[&account, &key, &used_after], records::keyed_create))
    }

    async fn forget_keys(&self, now: Moment) -> Result<usize> {
        let before = now.before(KEY_RETENTION);
        let day = before.day();
        let forgotten = statement!(self, |db| run(db, FORGET_KEYS, &[&before]))?
            + statement!(self, |db| run(db, FORGET_KEY_TASKS, &[&day]))?;
        Ok(usize::try_from(forgotten).unwrap_or(usize::MAX))
    }

    async fn cancel(&self, account: AccountId, id: &str, now: Moment) -> Result<Cancel> {
        if self.end(&end::CANCEL, &[&id, &account, &now]).await? {
            return Ok(Cancel::Canceled);
        }
        let select = "SELECT status FROM tasks WHERE id = $1 AND account = $2";
        let status = read!(self, |db| first(db, select, &[&id, &account], column))?;
        Ok(status.map_or(Cancel::Unknown, Cancel::Refused))
    }

    async fn task(&self, account: AccountId, id: &str) -> Result<Option<Task>> {
        read!(self, |db| first(db, TASK, &[&id, &account], records::task))
    }

    async fn history(&self, account: AccountId, limit: u32, offset: u64) -> Result<(Vec<TaskSummary>, u64)> {
        // Positions have no gaps: a page is found by its first position at any depth; the count is next minus first.
        let select = "SELECT purses.tasks - first_place, page.* FROM purses LEFT JOIN LATERAL ( \
               SELECT id, status, model, coalesce(cost, 0), created_at, updated_at, place FROM tasks \
               WHERE tasks.account = purses.account AND place >= first_place + $2 ORDER BY place LIMIT $3 \
             ) AS page ON true WHERE purses.account = $1 ORDER BY place";
        // Nothing exists beyond the largest position, and the sum must stay an integer.
        let offset = signed(offset).min(i64::MAX / 2);
        let limit = i64::from(limit);
        read!(self, |db| page(db, select, &[&account, &offset, &limit], records::task_summary))
    }

    async fn serving(&self, model: &str, since: Moment) -> Result<Serving> {
        // One index lookup for each consumer with queued tasks, however many tasks there are.
        let select = "SELECT EXISTS (SELECT 1 FROM node_models JOIN nodes ON nodes.id = node_models.node \
                        WHERE model = $1 AND coalesce(node_models.seen_at, nodes.seen_at) >= $2), \
                (SELECT count(*) FROM ( \
                   SELECT account FROM turns WHERE model = $1 AND EXISTS ( \
                     SELECT 1 FROM tasks WHERE status = 'in_queue' AND tasks.model = turns.model \
                     AND tasks.account = turns.account) \
                   UNION SELECT account FROM tasks WHERE status = 'computing' AND model = $1) AS consumers)";
        read!(self, |db| one(db, select, &[&model, &since], records::serving))
    }

    async fn oldest_queued(&self) -> Result<Option<Moment>> {
        // Approximately the order of creation, exactly the order of the queue: one index lookup for each turn.
        let select = "SELECT min((SELECT created_at FROM tasks WHERE status = 'in_queue' \
                        AND tasks.account = turns.account AND tasks.model = turns.model \
                        ORDER BY sequence LIMIT 1)) FROM turns \
             WHERE EXISTS (SELECT 1 FROM accounts WHERE id = turns.account AND state = 'active') \
               AND NOT EXISTS (SELECT 1 FROM models WHERE id = turns.model AND state <> 'active')";
        read!(self, |db| one(db, select, &[], column))
    }

    async fn model_loads(&self, since: Moment) -> Result<Vec<ModelLoad>> {
        read!(self, |db| all(db, MODEL_LOADS, &[&since], records::model_load))
    }

    async fn depths(&self) -> Result<Vec<(Status, u64)>> {
        // Unfinished tasks only. Ended tasks would need a scan, or a counter that every transaction updates.
        let select = "SELECT 'in_queue', count(*) FROM tasks WHERE status = 'in_queue' \
             UNION ALL SELECT 'computing', count(*) FROM tasks WHERE status = 'computing'";
        read!(self, |db| all(db, select, &[], pair))
    }

    async fn finish_and_claim(
        &self,
        ends: &[End],
        slots: &[Slot],
        rules: LeaseRules,
        now: Moment,
    ) -> Result<(Vec<bool>, Vec<Claim>)> {
        let mut ended = Vec::new();
        for End { node, task, attempt, ending } in ends {
            ended.push(self.finish(node, task, *attempt, ending, now).await?);
        }
        Ok((ended, self.claim_slots(slots, rules, now).await?))
    }

    async fn release(&self, node: &str, task: &str, attempt: i64, now: Moment) -> Result<()> {
        let expired = now.0 - 1;
        statement!(self, |db| run(
            db,
            "UPDATE tasks SET lease_until = $4, releases = releases + 1 \
             WHERE id = $1 AND status = 'computing' AND node = $2 AND attempt = $3 AND lease_until > $4",
            &[&task, &node, &attempt, &expired],
        ))
        .map(|_| ())
    }

    async fn fail_abandoned(&self, which: Abandoned, now: Moment) -> Result<usize> {
        let Abandoned { expired_before, live_since, unclaimed_before, latest } = which;
        let later = "UPDATE tasks SET lease_until = least(lease_until, $1), leased_at = least(leased_at, $1) \
             WHERE status = 'computing' AND (lease_until > $1 OR leased_at > $1)";
        statement!(self, |db| run(db, later, &[&latest]))?;
        let seen = "UPDATE nodes SET seen_at = $1 WHERE seen_at > $1";
        statement!(self, |db| run(db, seen, &[&now]))?;
        let seen = "UPDATE node_models SET seen_at = $1 WHERE seen_at > $1";
        statement!(self, |db| run(db, seen, &[&now]))?;
        let abandoned: Vec<end::Expired> = read!(self, |db| all(
            db,
            "SELECT id, node, attempt FROM tasks \
             WHERE status = 'computing' AND lease_until < $1 AND (lease_until < $3 OR NOT EXISTS \
             (SELECT 1 FROM node_models JOIN nodes ON nodes.id = node_models.node \
              WHERE node_models.model = tasks.model \
              AND coalesce(node_models.seen_at, nodes.seen_at) >= $2)) LIMIT 1000",
            &[&expired_before, &live_since, &unclaimed_before],
            end::Expired::read,
        ))?;
        let mut failed = 0;
        for task in &abandoned {
            let message = ABANDONED.to_owned();
            let judged = self.fail_or_postpone(task, message, expired_before, now, now).await?;
            failed += usize::from(judged == end::Judged::Failed);
        }
        Ok(failed)
    }

    async fn heartbeat(
        &self,
        node: &str,
        task: &str,
        attempt: i64,
        until: Moment,
        oldest: Option<Moment>,
    ) -> Result<bool> {
        let prolonged = statement!(self, |db| run(
            db,
            "UPDATE tasks SET lease_until = $4 \
             WHERE id = $1 AND status = 'computing' AND node = $2 AND attempt = $3 \
             AND coalesce(leased_at >= $5, true)",
            &[&task, &node, &attempt, &until, &oldest],
        ))?;
        Ok(prolonged > 0)
    }

    async fn finish(&self, node: &str, task: &str, attempt: i64, end: &Ending, now: Moment) -> Result<bool> {
        match end {
            Ending::Output(output) => self.end(&end::SUCCEED, &[&task, &node, &attempt, output, &now]).await,
            Ending::Error { message, detail } => {
                let any_time: Option<Moment> = None;
                let values: Params<'_> = &[&task, &node, &attempt, message, detail, &now, &any_time];
                self.end(&end::FAIL, values).await
            }
        }
    }

    async fn fail_running(&self, task: &str, message: &str, now: Moment) -> Result<bool> {
        let detail = detail_of(message);
        // Every lease expiry lies before this moment.
        let any_lease = Some(Moment(i64::MAX));
        let running = "SELECT id, node, attempt FROM tasks WHERE id = $1 AND status = 'computing'";
        // The task may go to another node between the two statements.
        while let Some(found) = read!(self, |db| first(db, running, &[&task], end::Expired::read))? {
            let end::Expired { node, attempt, .. } = &found;
            let params: Params<'_> = &[&task, node, attempt, &message, &detail, &now, &any_lease];
            if self.end(&end::FAIL, params).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn lease_state(&self, node: &str, task: &str, attempt: i64) -> Result<LeaseState> {
        let lease: Params<'_> = &[&task, &node, &attempt];
        let state = read!(self, |db| first(db, LEASE_STATE, lease, records::lease_state))?;
        Ok(state.unwrap_or(LeaseState::Lost))
    }

    async fn node_ended(&self, node: &str, end: NodeEnd, now: Moment) -> Result<()> {
        let expired = now.0 - 1;
        statement!(self, |db| run(
            db,
            "WITH gone AS (DELETE FROM nodes WHERE id = $1) \
             UPDATE tasks SET lease_until = $2, releases = releases + (releases < $3)::int \
             WHERE status = 'computing' AND node = $1 AND lease_until > $2",
            &[&node, &expired, &end.uncounted()],
        ))
        .map(|_| ())
    }

    async fn fail_queued(&self, created_before: Moment, now: Moment) -> Result<usize> {
        // At most $2 index steps for each account and model, however many tasks are queued.
        let select = "SELECT id FROM turns CROSS JOIN LATERAL ( \
               SELECT id, created_at FROM tasks WHERE status = 'in_queue' \
                 AND tasks.model = turns.model AND tasks.account = turns.account \
               ORDER BY sequence LIMIT $2) AS first WHERE created_at < $1 LIMIT $2";
        let detail = detail_of(NOT_STARTED);
        let mut failed = 0;
        loop {
            let queued: Vec<String> =
                read!(self, |db| all(db, select, &[&created_before, &QUEUED_BATCH], column))?;
            let before = failed;
            for task in &queued {
                let values: Params<'_> = &[task, &NOT_STARTED, &detail, &now];
                let ended: Result<bool> =
                    statement!(self, |db| one(db, end::FAIL_QUEUED.free, values, column));
                match ended {
                    Err(cause) if !cause.is_unavailable() && !cause.is_in_doubt() => {
                        tracing::error!(%cause, task, "a task cannot be failed; it is tried again later");
                    }
                    ended => failed += usize::from(ended?),
                }
            }
            if failed == before {
                return Ok(failed);
            }
        }
    }

    async fn delete_ended_tasks(&self, ended_before: Moment, now: Moment) -> Result<usize> {
        let mut deleted = 0;
        let batch = i64::from(RETENTION_BATCH);
        for account in read!(self, |db| all(db, retention::ACCOUNTS, &[&ended_before, &batch], column))? {
            // Small transactions, so that the account is not locked for long.
            loop {
                let batch = transaction!(self, |tx| retention::delete(tx, account, ended_before, now))?;
                deleted += batch;
                if batch == 0 {
                    break;
                }
            }
        }
        Ok(deleted)
    }
}
