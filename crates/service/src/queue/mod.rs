//! Tasks and the queue that they wait in: created with their price set aside, claimed by nodes by
//! lease, ended once.

mod create_key;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::ledger::{Money, as_number};
use crate::words::words;

pub(crate) use create_key::{CreateKey, KEY_RETENTION, KeyedCreate, MAX_KEY};

words! {
    /// What has become of a task. Statuses go from `Queued` over `Computing` to one of the other three.
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

/// A task to be created. Its inputs have been checked.
#[derive(Debug, Clone)]
pub(crate) struct NewTask {
    pub(crate) id: String,
    pub(crate) account: AccountId,
    pub(crate) model: String,
    /// The version of the model that declared the formats of this task.
    pub(crate) version: i64,
    /// Who is paid when it succeeds.
    pub(crate) publisher: AccountId,
    pub(crate) price: Money,
    /// The inputs as submitted, a JSON object.
    pub(crate) input: String,
    pub(crate) key: Option<CreateKey>,
    pub(crate) traceparent: Option<String>,
    pub(crate) spending: Option<Spending>,
}

/// The daily limit of the API key that creates a task.
#[derive(Debug, Clone)]
pub(crate) struct Spending {
    pub(crate) key: String,
    pub(crate) daily_limit: Money,
}

impl Spending {
    /// Returns what is left of the limit when a price is more than that.
    pub(crate) fn refuse(&self, spent: Money, price: Money) -> Option<Money> {
        let left = self.daily_limit.checked_sub(spent).unwrap_or(Money::ZERO);
        (price > left).then_some(left.max(Money::ZERO))
    }
}

impl NewTask {
    /// Why it fails when the balance does not cover it.
    pub(crate) fn insufficient(&self, spendable: Money) -> String {
        format!("insufficient balance: the model costs {}, and {spendable} can be spent", self.price)
    }
}

/// What happens to a task that the balance does not cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InsufficientBalance {
    /// The call is refused.
    #[default]
    Refuse,
    /// The task is created and fails at once, with a message about the balance.
    FailTask,
}

/// What became of a create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Created {
    Queued,
    /// The key was used before; there is no further task.
    KeyUsed(KeyedCreate),
    /// The balance did not suffice; the task exists and has failed.
    Failed,
    /// The balance did not suffice; there is no task.
    Refused {
        spendable: Money,
    },
    /// The API key may not spend the price today; there is no task.
    KeyLimit {
        left: Money,
    },
    /// The account has as many unfinished tasks as it may have; there is no task.
    TooManyUnfinished,
}

/// What became of a cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cancel {
    Canceled,
    /// Too late: the task has left the queue.
    Refused(Status),
    /// The account has no such task.
    Unknown,
}

/// A task as its owner reads it. Stored JSON is sent as it is: see `with_stored_json`.
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
    /// The model's output, a JSON object; on success.
    #[serde(skip)]
    pub(crate) output: Option<String>,
    /// What the model said; on failure, JSON.
    #[serde(skip)]
    pub(crate) error: Option<String>,
    pub(crate) created_at: Moment,
    pub(crate) updated_at: Moment,
}

/// A task as the history shows it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct TaskSummary {
    pub(crate) task_id: String,
    pub(crate) status: Status,
    pub(crate) model_id: String,
    /// Zero until the task has succeeded.
    #[serde(serialize_with = "as_number")]
    pub(crate) cost: Money,
    pub(crate) created_at: Moment,
    pub(crate) updated_at: Moment,
}

/// A task that a node has leased.
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
    /// Counts the leases of this task; a result is accepted from the latest alone.
    pub(crate) attempt: i64,
    /// Counts the leases of this task that were released and do not count as attempts.
    #[serde(skip)]
    pub(crate) releases: i64,
    /// The trace that the create belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) traceparent: Option<String>,
    #[serde(skip)]
    pub(crate) account: AccountId,
    /// Moment of the create.
    #[serde(skip)]
    pub(crate) created_at: Moment,
}

/// What has become of a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LeaseState {
    /// The task waits for this node to finish it.
    Running { output_format: String, model: String, leased_at: Option<Moment>, traceparent: Option<String> },
    /// The task was ended under this lease.
    Ended,
    /// The task is another node's, or there is none.
    Lost,
}

/// How a lease ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The model's output, a JSON object.
    Output(String),
    /// What went wrong: a message for people, and JSON with the detail.
    Error { message: String, detail: String },
}

/// Why a task fails that no node can end.
pub(crate) const ABANDONED: &str =
    "the node that ran this task stopped responding, and no other node took the task over";

/// The message of a task that waited for too long.
pub(crate) const NOT_STARTED: &str = "no node started this task within the time that tasks may wait";

/// The number of tasks that waited for too long and fail in one step.
pub(crate) const QUEUED_BATCH: i64 = 1_000;

/// Why a task fails that no node has ended.
pub(crate) fn not_survived(attempts: i64) -> String {
    format!("no node survived this task: {attempts} leases of it expired")
}

/// The detail of a failure of which there is no more to say than its message.
pub(crate) fn detail_of(message: &str) -> String {
    serde_json::json!({ "message": message }).to_string()
}

/// The end of a task under a lease.
#[derive(Debug, Clone)]
pub(crate) struct End {
    pub(crate) node: String,
    pub(crate) task: String,
    pub(crate) attempt: i64,
    pub(crate) ending: Ending,
}

/// Which tasks are abandoned: their lease expired before a moment, and no node is there that takes them over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Abandoned {
    pub(crate) expired_before: Moment,
    /// A node that was seen since then is there, and takes over tasks of its models.
    pub(crate) live_since: Moment,
    /// What expired before that was taken over by none: a node may be alive and serve other models while what runs this
    /// one is broken.
    pub(crate) unclaimed_before: Moment,
    /// No lease begins or ends later, unless the clock was ahead and was set back: then that is at this moment.
    pub(crate) latest: Moment,
}

/// How claims behave.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaseRules {
    /// How long a node may go without a heartbeat.
    pub(crate) length: Duration,
    /// After how many leases a task that never ended fails.
    pub(crate) attempts: i64,
    /// How many tasks of one account may be computing at a time.
    pub(crate) max_running: u32,
    /// Leases that expired at this moment or later are left to their nodes.
    pub(crate) expired_before: Moment,
}

impl LeaseRules {
    /// The moment before which a lease has to have expired for its task to be claimed.
    pub(crate) fn expired_before(&self, now: Moment) -> Moment {
        self.expired_before.min(now)
    }
}

/// A slot of a node that is free to run a task.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    pub(crate) node: String,
    /// The models whose tasks it may claim.
    pub(crate) models: Arc<[String]>,
    /// How many tasks of one account may be computing on this node at a time.
    pub(crate) max_running: u32,
    /// Accounts of which it claims no queued task, in order.
    pub(crate) passed_over: Vec<AccountId>,
}

impl Slot {
    /// What decides which tasks it may claim. A limit of a node counts what runs on that node.
    pub(crate) fn claimable(&self) -> (&[String], u32, Option<&str>, &[AccountId]) {
        let has_limit = self.max_running < u32::MAX;
        (&self.models, self.max_running, has_limit.then_some(&*self.node), &self.passed_over)
    }
}

/// What became of a claim for one slot.
#[derive(Debug, Clone)]
pub(crate) enum Claim {
    Leased(Lease),
    /// No task of its models may be claimed now.
    NoTask,
    /// The node has left, or its key was revoked.
    UnknownNode,
}

/// How a node has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeEnd {
    /// It died: its leases count as attempts.
    Died,
    /// It left in order: its leases are released, and do not count.
    Left,
    /// It died, and what it ran was run by processes of their own, which cannot have killed it: its leases count only
    /// when that goes on and on.
    DiedAlone,
}

impl NodeEnd {
    /// Number of leases of a task that may end in this way before they count.
    pub(crate) const fn uncounted(self) -> i64 {
        match self {
            Self::Died => 0,
            Self::DiedAlone => 20,
            Self::Left => i64::MAX,
        }
    }
}

/// How many tasks retention deletes in one transaction.
pub(crate) const RETENTION_BATCH: u32 = 500;

/// Plan of retention for the oldest tasks of an account. Those that it leaves take the last places of those that it
/// deletes, in their order, so that the places of a history have no gaps.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RetentionPlan {
    /// The places of the tasks to be deleted.
    pub(crate) deleted: Vec<i64>,
    /// The place of each task that is left before the last of these, and its next place. In this order, each next place
    /// is free.
    pub(crate) moved: Vec<(i64, i64)>,
    /// The place of the oldest task that is left.
    pub(crate) first_place: i64,
}

impl RetentionPlan {
    /// Deletes those of the oldest tasks that ended before a moment, each with its place, its status and when it changed;
    /// None when there is none.
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
        Some(Self { deleted, moved, first_place })
    }
}

/// What the store knows of tasks. Every method is one transaction.
#[async_trait]
pub(crate) trait Queue: Send + Sync {
    /// Sets the price aside, puts the task into the queue and remembers its key, all or nothing. A key that is
    /// remembered comes before every other reason for a refusal. An account that has `max_unfinished` tasks that
    /// have not ended gets no further one.
    async fn create_task(
        &self,
        task: &NewTask,
        otherwise: InsufficientBalance,
        max_unfinished: u32,
        now: Moment,
    ) -> Result<Created>;
    /// Returns the create that used a key, while it is remembered.
    async fn keyed_create(&self, account: AccountId, key: &str, now: Moment) -> Result<Option<KeyedCreate>>;
    /// Deletes some of the keys that are remembered no longer; returns how many.
    async fn forget_keys(&self, now: Moment) -> Result<usize>;
    async fn task(&self, account: AccountId, id: &str) -> Result<Option<Task>>;
    /// A page of the account's tasks, oldest first, and how many there are in all.
    async fn history(&self, account: AccountId, limit: u32, offset: u64) -> Result<(Vec<TaskSummary>, u64)>;
    /// Cancels a task that is still queued, and gives its price back.
    async fn cancel(&self, account: AccountId, id: &str, now: Moment) -> Result<Cancel>;

    /// Ends tasks as `finish` does, then leases a task for each slot, in one commit where the engine has one writer:
    /// first one whose lease has expired, then one of the account whose turn it is. Accounts take turns, however many
    /// tasks each has; the tasks of one account are claimed in the order of their creation. A task that was leased too
    /// often fails instead.
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
    /// Ends a lease in order, unless it has ended or expired: the task can be claimed at once, and the lease does not
    /// count as an attempt.
    async fn release(&self, node: &str, task: &str, attempt: i64, now: Moment) -> Result<()>;
    /// Fails the tasks that are abandoned, and gives their prices back. Returns how many. One that cannot be failed is
    /// left for later, here as in a claim. Nodes that were seen later than now, while the clock was ahead, were seen now.
    async fn fail_abandoned(&self, which: Abandoned, now: Moment) -> Result<usize>;
    /// Prolongs a lease; false when it is no longer the node's, or began before the oldest that is prolonged.
    async fn heartbeat(
        &self,
        node: &str,
        task: &str,
        attempt: i64,
        until: Moment,
        oldest: Option<Moment>,
    ) -> Result<bool>;
    /// Ends a task and moves its money; false when the lease is no longer the node's, and then nothing
    /// happens.
    async fn finish(&self, node: &str, task: &str, attempt: i64, end: &Ending, now: Moment) -> Result<bool>;
    /// What has become of a lease, for a node that asks again.
    async fn lease_state(&self, node: &str, task: &str, attempt: i64) -> Result<LeaseState>;

    /// Forgets a node that has ended; what it had leased can be claimed at once.
    async fn node_ended(&self, node: &str, end: NodeEnd, now: Moment) -> Result<()>;
    /// Fails the tasks that were created before a moment and that no node has started, and gives their prices back.
    /// Returns how many. One that cannot be failed is left for later.
    async fn fail_queued(&self, created_before: Moment, now: Moment) -> Result<usize>;
    /// Deletes tasks that ended before a moment, among the oldest of each account: beside those that have not ended, as
    /// many as one transaction deletes. Their movements of money are added up. Returns how many tasks.
    async fn delete_ended_tasks(&self, ended_before: Moment, now: Moment) -> Result<usize>;
    /// Whether a node seen since then runs the model, and how many accounts have tasks on it that have
    /// not ended.
    async fn serving(&self, model: &str, since: Moment) -> Result<Serving>;
    /// Returns the load of each model that has unfinished tasks, or a node that was seen since then.
    async fn model_loads(&self, since: Moment) -> Result<Vec<ModelLoad>>;
    /// How many tasks there are of each status.
    async fn depths(&self) -> Result<Vec<(Status, u64)>>;
    /// Since when the task has waited that has waited longest.
    async fn oldest_queued(&self) -> Result<Option<Moment>>;
}

/// Tasks that wait for a model and run on it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModelLoad {
    pub(crate) model: String,
    pub(crate) queued: u64,
    pub(crate) computing: u64,
    /// Since when the first of those that are queued has waited.
    pub(crate) waits_since: Option<Moment>,
    pub(crate) nodes: u64,
}

/// Whether a model is served, and how many use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Serving {
    pub(crate) serving: bool,
    pub(crate) consumers: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_retention_leaves_takes_the_last_places_of_what_it_deletes_in_its_order() {
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
