//! What the operator reads, as the requests of the operator write it, and what that needs of the database.

use async_trait::async_trait;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::Result;
use crate::accounts::{AccountId, Scope};
use crate::catalog::{ModelState, Visibility};
use crate::clock::Moment;
use crate::ledger::{Money, Purse, Reason};
use crate::queue::{Cancel, Status};

/// An API key, of which only a hash is kept.
#[derive(Debug, Serialize)]
pub(crate) struct KeyOverview {
    /// Its identifier: what stands between the first two underscores of a key that the service drew.
    pub(crate) key: String,
    pub(crate) name: Option<String>,
    pub(crate) created_at: Moment,
    pub(crate) expires_at: Option<Moment>,
    pub(crate) daily_limit: Option<Money>,
    pub(crate) models: Option<Vec<String>>,
    pub(crate) revoked_at: Option<Moment>,
}

/// A model, with what only the operator knows of it.
#[derive(Debug, Serialize)]
pub(crate) struct ModelOverview {
    pub(crate) model: String,
    pub(crate) publisher: String,
    pub(crate) name: String,
    pub(crate) price: Money,
    pub(crate) visibility: Visibility,
    pub(crate) is_official: bool,
    pub(crate) is_verified: bool,
    pub(crate) is_playground: bool,
    pub(crate) state: ModelState,
    pub(crate) created_at: Moment,
    pub(crate) updated_at: Moment,
}

/// Something that an operator did: a request, what it said, and the status of the response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Action {
    pub(crate) at: Moment,
    pub(crate) request: String,
    /// The beginning of the body, without secrets.
    pub(crate) body: Option<String>,
    pub(crate) status: i64,
}

/// A movement of money that belongs to no task.
#[derive(Debug, Serialize)]
pub(crate) struct MovementOverview {
    pub(crate) at: Moment,
    pub(crate) reason: Reason,
    pub(crate) amount: Money,
    /// The purse that the amount came from; null for the world outside.
    pub(crate) from: Option<Purse>,
    /// The purse that the amount went to; null for the world outside.
    pub(crate) to: Option<Purse>,
    pub(crate) reference: Option<String>,
    pub(crate) note: Option<String>,
}

/// A node that was seen, or a key of nodes that no node has been seen with.
#[derive(Debug, Serialize)]
pub(crate) struct NodeOverview {
    /// The name of its key; null for the node inside the service.
    pub(crate) key: Option<String>,
    pub(crate) node: Option<String>,
    pub(crate) seen_at: Option<Moment>,
    /// What the node serves, or what the key may serve; null for any model.
    pub(crate) models: Option<Vec<String>>,
    pub(crate) created_at: Option<Moment>,
    pub(crate) revoked_at: Option<Moment>,
}

/// A task of any account.
#[derive(Debug, Serialize)]
pub(crate) struct TaskOverview {
    pub(crate) task: String,
    pub(crate) account: String,
    pub(crate) model: String,
    pub(crate) status: Status,
    pub(crate) price: Money,
    pub(crate) cost: Option<Money>,
    pub(crate) message: Option<String>,
    pub(crate) node: Option<String>,
    pub(crate) attempt: i64,
    pub(crate) created_at: Moment,
    pub(crate) updated_at: Moment,
    pub(crate) is_refunded: bool,
}

/// The same with what went in and what came out.
#[derive(Debug, Serialize)]
pub(crate) struct TaskDetail {
    #[serde(flatten)]
    pub(crate) overview: TaskOverview,
    pub(crate) input: Box<RawValue>,
    pub(crate) output: Option<Box<RawValue>>,
    pub(crate) error: Option<Box<RawValue>>,
}

/// Which tasks are listed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TaskFilter {
    pub(crate) account: Option<AccountId>,
    pub(crate) status: Option<Status>,
    pub(crate) limit: u32,
    pub(crate) offset: u64,
}

/// The outcome of ending a task, or its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskChange {
    Done,
    /// The task is in a status that cannot be changed so.
    Refused(Status),
    Unknown,
}

impl From<Cancel> for TaskChange {
    fn from(cancel: Cancel) -> Self {
        match cancel {
            Cancel::Canceled => Self::Done,
            Cancel::Refused(status) => Self::Refused(status),
            Cancel::Unknown => Self::Unknown,
        }
    }
}

/// What became of a refund.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refund {
    Done {
        account: String,
        amount: Money,
    },
    /// The task has not succeeded, or cost nothing.
    NotCharged,
    Already,
    /// The publisher's earnings do not cover it.
    EarningsTooSmall {
        earnings: Money,
    },
    Unknown,
}

/// What the operator needs of the database besides what other parts of the service need. Every method is
/// one transaction.
#[async_trait]
pub(crate) trait AdminDatabase: Send + Sync {
    /// The keys of an account, the newest first.
    async fn keys(&self, account: AccountId) -> Result<Vec<KeyOverview>>;
    /// The valid keys whose identifiers begin like this, two at most; first the one whose identifier this is.
    async fn keys_like(&self, beginning: &str) -> Result<Vec<String>>;
    /// The members of an organization, or the organizations that a person is a member of.
    async fn memberships(&self, account: AccountId, scope: Scope) -> Result<Vec<String>>;
    /// A page of all models in the order of their publication.
    async fn all_models(&self, limit: u32, offset: u64) -> Result<Vec<ModelOverview>>;
    /// A page of the movements of an account that belong to no task, the newest first.
    async fn movements(&self, account: AccountId, limit: u32, offset: u64) -> Result<Vec<MovementOverview>>;
    /// The keys of nodes and the nodes that are known with each.
    async fn nodes(&self) -> Result<Vec<NodeOverview>>;
    /// A page of the tasks of all accounts, the newest first.
    async fn all_tasks(&self, filter: TaskFilter) -> Result<Vec<TaskOverview>>;
    /// A task of any account.
    async fn any_task(&self, id: &str) -> Result<Option<TaskDetail>>;
    async fn record_action(&self, action: &Action) -> Result<()>;
    /// A page of what operators did, the newest first.
    async fn actions(&self, limit: u32, offset: u64) -> Result<Vec<Action>>;
    /// Returns up to 1,000 queued tasks of a model, with their accounts.
    async fn queued_of_model(&self, model: &str) -> Result<Vec<(AccountId, String)>>;
    /// Cancels a queued task of any account.
    async fn cancel_task(&self, id: &str, now: Moment) -> Result<TaskChange>;
    /// Fails a running task, which its node has lost then.
    async fn fail_task(&self, id: &str, message: &str, now: Moment) -> Result<TaskChange>;
    /// Ends the lease of a running task, which its node has lost then: any node can claim it.
    async fn requeue_task(&self, id: &str, now: Moment) -> Result<TaskChange>;
    /// Returns the charge of a task from the earnings of its publisher to the purses that it came from, once.
    async fn refund(&self, task: &str, now: Moment) -> Result<Refund>;
}
