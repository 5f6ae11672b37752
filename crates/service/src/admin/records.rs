//! What the operator reads, as the requests of the operator write it, and what that needs of the database.

use async_trait::async_trait;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::Result;
use crate::accounts::{AccountId, Scope};
use crate::catalog::Visibility;
use crate::clock::Moment;
use crate::ledger::Money;
use crate::queue::Status;

/// An API key, of which only a hash is kept.
#[derive(Debug, Serialize)]
pub(crate) struct KeyOverview {
    /// Its identifier: what stands between the first two underscores of a key that the service drew.
    pub(crate) key: String,
    pub(crate) created_at: Moment,
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
    pub(crate) created_at: Moment,
    pub(crate) updated_at: Moment,
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
    /// The keys of nodes and the nodes that are known with each.
    async fn nodes(&self) -> Result<Vec<NodeOverview>>;
    /// A page of the tasks of all accounts, the newest first.
    async fn all_tasks(&self, filter: TaskFilter) -> Result<Vec<TaskOverview>>;
    /// A task of any account.
    async fn any_task(&self, id: &str) -> Result<Option<TaskDetail>>;
    /// Returns the charge of a task from the earnings of its publisher to the purses that it came from, once.
    async fn refund(&self, task: &str, now: Moment) -> Result<Refund>;
}
