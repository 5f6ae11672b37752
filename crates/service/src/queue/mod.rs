//! Tasks and their queue. A create reserves the price, a node claims the task by a lease, and each task ends once.

mod create_key;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::ledger::{Money, as_number};
use crate::string_enum::string_enum;

pub(crate) use create_key::{CreateKey, KEY_RETENTION, KeyedCreate, MAX_KEY};

string_enum! {
    /// Status of a task. A task goes from `Queued` to `Computing` to one of the three final statuses.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub(crate) enum Status {
        #[serde(rename = "in_queue")]
        Queued = "in_queue",
        Computing = "computing",
        Success = "success",
        Failed = "failed",
        Canceled = "canceled",
    }
}

/// A task to be created. The caller has checked its inputs.
#[derive(Debug, Clone)]
pub(crate) struct NewTask {
    pub(crate) id: String,
    pub(crate) account: AccountId,
    pub(crate) model: String,
    pub(crate) version: i64,
    pub(crate) publisher: AccountId,
    pub(crate) price: Money,
    pub(crate) input: String,
    pub(crate) key: Option<CreateKey>,
    pub(crate) traceparent: Option<String>,
    pub(crate) spending: Option<Spending>,
}

#[derive(Debug, Clone)]
pub(crate) struct Spending {
    pub(crate) key: String,
    pub(crate) daily_limit: Money,
}

impl Spending {
    /// Returns the rest of today's limit if the price exceeds it.
    pub(crate) fn refuse(&self, spent: Money, price: Money) -> Option<Money> {
        let left = self.daily_limit.checked_sub(spent).unwrap_or(Money::ZERO);
        (price > left).then_some(left.max(Money::ZERO))
    }
}

impl NewTask {
    pub(crate) fn insufficient(&self, spendable: Money) -> String {
        format!("insufficient balance: the model costs {}, and {spendable} can be spent", self.price)
    }
}

/// Policy for a create whose price exceeds the balance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InsufficientBalance {
    /// Refuse the create.
    #[default]
    Refuse,
    /// Create the task, and fail it at once with a message about the balance.
    FailTask,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Created {
    Queued,
    KeyUsed(KeyedCreate),
    /// The balance did not suffice; the task exists and has failed.
    Failed,
    Refused {
        spendable: Money,
    },
    KeyLimit {
        left: Money,
    },
    TooManyUnfinished,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cancel {
    Canceled,
    Refused(Status),
    Unknown,
}

/// A task in the response to its owner. `with_stored_json` inserts the stored JSON unchanged.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Task {
    #[serde(rename = "task_id")]
    pub(crate) id: String,
    pub(crate) status: Status,
    /// Zero until the task has succeeded.
    #[serde(serialize_with = "as_number")]
    pub(crate) cost: Money,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    #[serde(skip)]
    pub(crate) input: String,
    #[serde(skip)]
    pub(crate) input_format: String,
    #[serde(skip)]
    pub(crate) output_format: String,
    #[serde(skip)]
    pub(crate) output: Option<String>,
    #[serde(skip)]
    pub(crate) error: Option<String>,
    pub(crate) created_at: Moment,
    pub(crate) updated_at: Moment,
    #[serde(skip)]
    pub(crate) attempt: i64,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct TaskSummary {
    pub(crate) task_id: String,
    pub(crate) status: Status,
    pub(crate) model_id: String,
    #[serde(serialize_with = "as_number")]
    pub(crate) cost: Money,
    pub(crate) created_at: Moment,
    pub(crate) updated_at: Moment,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Lease {
    pub(crate) task: String,
    pub(crate) model: String,
    #[serde(skip)]
    pub(crate) input: String,
    #[serde(skip)]
    pub(crate) input_format: String,
    #[serde(skip)]
    pub(crate) output_format: String,
    /// Number of leases of this task so far. The service accepts a result from the latest lease alone.
    pub(crate) attempt: i64,
    /// Number of released leases of this task, which do not count as attempts.
    #[serde(skip)]
    pub(crate) releases: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) traceparent: Option<String>,
    #[serde(skip)]
    pub(crate) account: AccountId,
    #[serde(skip)]
    pub(crate) created_at: Moment,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LeaseState {
    Running {
        output_format: String,
        model: String,
        leased_at: Option<Moment>,
        traceparent: Option<String>,
    },
    Ended,
    /// The lease has passed to another node, or the task does not exist.
    Lost,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    Output(String),
    Error { message: String, detail: String },
}

pub(crate) const ABANDONED: &str =
    "the node that ran this task stopped responding, and no other node took the task over";

pub(crate) const NOT_STARTED: &str = "no node started this task within the time that tasks may wait";

pub(crate) const QUEUED_BATCH: i64 = 1_000;

pub(crate) fn not_survived(attempts: i64) -> String {
    format!("no node survived this task: {attempts} leases of it expired")
}

pub(crate) fn detail_of(message: &str) -> String {
    serde_json::json!({ "message": message }).to_string()
}

#[derive(Debug, Clone)]
pub(crate) struct End {
    pub(crate) node: String,
    pub(crate) task: String,
    pub(crate) attempt: i64,
    pub(crate) ending: Ending,
}

/// Criteria for abandoned tasks: the lease expired, and no live node can claim the task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Abandoned {
    pub(crate) expired_before: Moment,
    /// Nodes with a heartbeat since this moment are live and can claim tasks of their models.
    pub(crate) live_since: Moment,
    /// Leases that expired earlier fail although nodes are live: none claimed them, perhaps as their model is broken.
    pub(crate) unclaimed_before: Moment,
    /// Latest plausible start or expiry of a lease. Later ones (the clock was set back) are clamped.
    pub(crate) latest: Moment,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaseRules {
    pub(crate) length: Duration,
    /// Number of expired leases after which a task fails.
    pub(crate) attempts: i64,
    pub(crate) max_running: u32,
    /// Leases that expired before this moment can be claimed; later ones still belong to their nodes.
    pub(crate) expired_before: Moment,
}

impl LeaseRules {
    pub(crate) fn expired_before(&self, now: Moment) -> Moment {
        self.expired_before.min(now)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Slot {
    pub(crate) node: String,
    pub(crate) models: Arc<[String]>,
    /// Limit of computing tasks of one account on this node.
    pub(crate) max_running: u32,
    pub(crate) passed_over: Vec<AccountId>,
}

impl Slot {
    /// Returns the models, limit, node and excluded accounts. With a limit, only tasks on that node count.
    pub(crate) fn claimable(&self) -> (&[String], u32, Option<&str>, &[AccountId]) {
        let has_limit = self.max_running < u32::MAX;
        (&self.models, self.max_running, has_limit.then_some(&*self.node), &self.passed_over)
    }
}

#[derive(Debug, Clone)]
pub(crate) enum Claim {
    Leased(Lease),
    NoTask,
    UnknownNode,
}

/// Reason for the end of a node, which decides whether its leases count as attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeEnd {
    Died,
    /// The node deregistered (graceful shutdown): its leases are released, and do not count.
    Left,
    /// The node died, but not by its tasks in separate processes: its leases count only after many such deaths.
    DiedAlone,
}

impl NodeEnd {
    /// Returns the number of leases of a task that may end in this way before they count as attempts.
    pub(crate) const fn uncounted(self) -> i64 {
        match self {
            Self::Died => 0,
            Self::DiedAlone => 20,
            Self::Left => i64::MAX,
        }
    }
}

pub(crate) const RETENTION_BATCH: u32 = 500;

/// Retention plan for an account's oldest tasks. Retained tasks move up in order, so that positions stay without gaps.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RetentionPlan {
    pub(crate) deleted: Vec<i64>,
    /// Current and next position of each retained task before the last deleted one. Each next position is free.
    pub(crate) moved: Vec<(i64, i64)>,
    pub(crate) first_place: i64,
}

impl RetentionPlan {
    /// Plans to delete the tasks that ended before a moment, given position, status and last change of the oldest ones.
    pub(crate) fn of(oldest: &[(i64, Status, Moment)], before: Moment) -> Option<Self> {
        let is_old = |(_, status, updated_at): &&(i64, Status, Moment)| {
            !matches!(status, Status::Queued | Status::Computing) && *updated_at < before
        };
        let deleted: Vec<i64> =
            oldest.iter().filter(is_old).map(|(place, ..)| *place).take(RETENTION_BATCH as usize).collect();
        let last = *deleted.last()?;
        let left = oldest.iter().map(|(place, ..)| *place).rev();
        let left = left.filter(|place| *place < last && deleted.binary_search(place).is_err());
        let moved: Vec<(i64, i64)> = left.zip((i64::MIN..=last).rev()).collect();
        let first_place = moved.last().map_or(last + 1, |(_, next)| *next);
        debug_assert!(moved.iter().all(|(place, next)| place < next), "retention moves a task down");
        debug_assert_eq!(
            first_place - oldest[0].0,
            deleted.len() as i64,
            "retention leaves a gap in the positions of a history",
        );
        Some(Self { deleted, moved, first_place })
    }
}

#[async_trait]
pub(crate) trait Queue: Send + Sync {
    /// Reserves the price, enqueues the task and stores its idempotency key; a known key precedes every refusal.
    async fn create_task(
        &self,
        task: &NewTask,
        insufficient_balance: InsufficientBalance,
        max_unfinished: u32,
        now: Moment,
    ) -> Result<Created>;
    async fn keyed_create(&self, account: AccountId, key: &str, now: Moment) -> Result<Option<KeyedCreate>>;
    async fn forget_keys(&self, now: Moment) -> Result<usize>;
    async fn task(&self, account: AccountId, id: &str) -> Result<Option<Task>>;
    async fn history(&self, account: AccountId, limit: u32, offset: u64) -> Result<(Vec<TaskSummary>, u64)>;
    async fn cancel(&self, account: AccountId, id: &str, now: Moment) -> Result<Cancel>;

    /// Ends tasks as `finish` does, then leases a task for each slot; an engine with one writer does both in one
    /// commit. Tasks after a lease expiry go first; queued tasks follow by fair scheduling: accounts take turns, and
    /// the oldest task of an account goes first. A task that has used up its attempts fails instead.
    async fn finish_and_claim(
        &self,
        ends: &[End],
        slots: &[Slot],
        rules: LeaseRules,
        now: Moment,
    ) -> Result<(Vec<bool>, Vec<Claim>)>;
    #[cfg(test)]
    async fn claim(&self, slots: &[Slot], rules: LeaseRules, now: Moment) -> Result<Vec<Claim>> {
        self.finish_and_claim(&[], slots, rules, now).await.map(|(_, claims)| claims)
    }
    /// Releases a valid lease: a node can claim the task at once, and the lease does not count as an attempt.
    async fn release(&self, node: &str, task: &str, attempt: i64, now: Moment) -> Result<()>;
    /// Fails the abandoned tasks and refunds their prices; returns the number. A task that cannot be failed is skipped
    /// and retried later, as in a claim. Heartbeats from the future (the clock was set back) are clamped to now.
    async fn fail_abandoned(&self, which: Abandoned, now: Moment) -> Result<usize>;
    /// Extends a lease; false if the node no longer holds the lease, or if the lease began before `oldest`.
    async fn heartbeat(
        &self,
        node: &str,
        task: &str,
        attempt: i64,
        until: Moment,
        oldest: Option<Moment>,
    ) -> Result<bool>;
    /// Ends a task and transfers its price; false, without any effect, if the node no longer holds the lease.
    async fn finish(&self, node: &str, task: &str, attempt: i64, end: &Ending, now: Moment) -> Result<bool>;
    /// Fails a running task for the operator, and releases its price; false if the task is not running.
    async fn fail_running(&self, task: &str, message: &str, now: Moment) -> Result<bool>;
    async fn lease_state(&self, node: &str, task: &str, attempt: i64) -> Result<LeaseState>;

    /// Deletes a node that has ended and makes its leases claimable at once.
    async fn node_ended(&self, node: &str, end: NodeEnd, now: Moment) -> Result<()>;
    /// Fails and refunds the tasks created before a moment and never claimed. Skips a task that cannot be failed.
    async fn fail_queued(&self, created_before: Moment, now: Moment) -> Result<usize>;
    /// Retention: deletes accounts' oldest tasks that ended before a moment, in batches, and folds their movements.
    async fn delete_ended_tasks(&self, ended_before: Moment, now: Moment) -> Result<usize>;
    /// Returns whether a node seen since `since` serves the model, and the number of accounts with unfinished tasks.
    async fn serving(&self, model: &str, since: Moment) -> Result<Serving>;
    async fn model_loads(&self, since: Moment) -> Result<Vec<ModelLoad>>;
    async fn depths(&self) -> Result<Vec<(Status, u64)>>;
    /// Returns the enqueue time of the oldest queued task that is of no paused model and no suspended account.
    async fn oldest_queued(&self) -> Result<Option<Moment>>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModelLoad {
    pub(crate) model: String,
    pub(crate) queued: u64,
    pub(crate) computing: u64,
    pub(crate) waits_since: Option<Moment>,
    pub(crate) nodes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Serving {
    pub(crate) serving: bool,
    pub(crate) consumers: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_retention_keeps_hold_their_places_in_its_order() {
        let task = |(place, is_old): (i64, bool)| match is_old {
            true => (place, Status::Success, Moment(1)),
            false => (place, Status::Queued, Moment(0)),
        };
        let plan = |tasks: &[bool]| {
            let oldest: Vec<_> = (10..).zip(tasks.iter().copied()).map(task).collect();
            RetentionPlan::of(&oldest, Moment(2))
        };
        assert_eq!(plan(&[]), None);
        assert_eq!(plan(&[false, false]), None);
        let all = RetentionPlan { deleted: vec![10, 11], moved: vec![], first_place: 12 };
        assert_eq!(plan(&[true, true, false]), Some(all));
        let around =
            RetentionPlan { deleted: vec![11, 13], moved: vec![(12, 13), (10, 12)], first_place: 12 };
        assert_eq!(plan(&[false, true, false, true, false]), Some(around));
        let young = (10, Status::Failed, Moment(2));
        assert_eq!(RetentionPlan::of(&[young], Moment(2)), None);
    }
}
