//! Records in the operator's responses, and the database operations of the administration.

use std::time::Duration;

use async_trait::async_trait;
use axum::http::StatusCode;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::Result;
use crate::accounts::{AccountId, Scope, StoredKey};
use crate::catalog::{ModelState, Visibility};
use crate::clock::Moment;
use crate::ledger::{Money, Purse, Reason};
use crate::queue::{Cancel, Status};

#[derive(Debug, Serialize)]
pub(crate) struct KeyOverview {
    /// Identifier of the key: the part between the first two underscores of a generated key.
    pub(crate) key: String,
    pub(crate) name: Option<String>,
    pub(crate) created_at: Moment,
    pub(crate) expires_at: Option<Moment>,
    pub(crate) daily_limit: Option<Money>,
    pub(crate) models: Option<Vec<String>>,
    pub(crate) revoked_at: Option<Moment>,
}

impl KeyOverview {
    pub(crate) fn is_valid(&self, now: Moment) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|expires_at| expires_at > now)
    }
}

/// Maximum number of an account's valid keys, and of the keys that it makes in a [`DAY`].
pub(crate) const MAX_KEYS: usize = 100;

const DAY: Duration = Duration::from_hours(24);

/// Reason why an account cannot make a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyRefusal {
    NameTaken,
    TooManyValid,
    TooManyNew,
}

impl KeyRefusal {
    pub(crate) fn of(keys: &[KeyOverview], name: Option<&str>, now: Moment) -> Option<Self> {
        let valid = || keys.iter().filter(|key| key.is_valid(now));
        if valid().any(|key| key.name.as_deref() == name) {
            Some(Self::NameTaken)
        } else if valid().count() >= MAX_KEYS {
            Some(Self::TooManyValid)
        } else {
            let new = keys.iter().filter(|key| key.created_at > now.before(DAY));
            (new.count() >= MAX_KEYS).then_some(Self::TooManyNew)
        }
    }
}

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

const MAX_BODY: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Action {
    pub(crate) at: Moment,
    pub(crate) request: String,
    /// Truncated body without secrets (redaction).
    pub(crate) body: Option<String>,
    pub(crate) status: i64,
}

impl Action {
    fn new(at: Moment, request: String, body: Option<&Value>, status: StatusCode) -> Self {
        let body = body.map(|body| body.to_string().chars().take(MAX_BODY).collect());
        Self { at, request, body, status: status.as_u16().into() }
    }
}

/// Request in the audit log that has not ended.
pub(crate) struct Recorded {
    id: i64,
    at: Moment,
    request: String,
}

impl Recorded {
    /// Writes a request to the audit log before it changes anything, at first as one that may have changed something.
    pub(crate) async fn begin(
        database: &(impl AdminDatabase + ?Sized),
        at: Moment,
        request: String,
        body: Option<&Value>,
    ) -> Result<Self> {
        let action = Action::new(at, request, body, StatusCode::INTERNAL_SERVER_ERROR);
        let id = database.record_action(&action).await?;
        Ok(Self { id, at, request: action.request })
    }

    /// Writes the request's end to its entry, or deletes a refused one. A failure is only logged: the request is done.
    pub(crate) async fn end(
        self,
        database: &(impl AdminDatabase + ?Sized),
        body: Option<&Value>,
        status: StatusCode,
    ) {
        let Self { id, at, request } = self;
        let action = Action::new(at, request, body, status);
        let ended = (!status.is_client_error()).then_some(&action);
        if let Err(cause) = database.change_action(id, ended).await {
            let request = &action.request;
            tracing::error!(%cause, request, %status, "a request keeps the status 500 in the audit log");
        }
    }
}

/// Movement of money that belongs to no task.
#[derive(Debug, Serialize)]
pub(crate) struct MovementOverview {
    pub(crate) at: Moment,
    pub(crate) reason: Reason,
    pub(crate) amount: Money,
    /// Purse that the amount came from; null if the amount entered the ledger.
    pub(crate) from: Option<Purse>,
    /// Purse that the amount went to; null if the amount left the ledger.
    pub(crate) to: Option<Purse>,
    pub(crate) reference: Option<String>,
    pub(crate) note: Option<String>,
}

/// A known node, or a node key without a known node.
#[derive(Debug, Serialize)]
pub(crate) struct NodeOverview {
    /// Name of the node's key; null for a node inside the service.
    pub(crate) key: Option<String>,
    pub(crate) node: Option<String>,
    pub(crate) seen_at: Option<Moment>,
    /// Models that the node serves or the key may serve; null for all models.
    pub(crate) models: Option<Vec<String>>,
    pub(crate) created_at: Option<Moment>,
    pub(crate) revoked_at: Option<Moment>,
}

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

#[derive(Debug, Serialize)]
pub(crate) struct TaskDetail {
    #[serde(flatten)]
    pub(crate) overview: TaskOverview,
    pub(crate) input: Box<RawValue>,
    pub(crate) output: Option<Box<RawValue>>,
    pub(crate) error: Option<Box<RawValue>>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct TaskFilter {
    pub(crate) account: Option<AccountId>,
    pub(crate) status: Option<Status>,
    pub(crate) limit: u32,
    pub(crate) offset: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskChange {
    Done,
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

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refund {
    Done {
        account: String,
        amount: Money,
    },
    /// The task has not succeeded, or cost nothing.
    NotCharged,
    Already,
    EarningsTooSmall {
        earnings: Money,
    },
    Unknown,
}

#[async_trait]
pub(crate) trait AdminDatabase: Send + Sync {
    async fn keys(&self, account: AccountId) -> Result<Vec<KeyOverview>>;
    /// Inserts a key that its owner makes, unless the account's other keys are a reason to refuse it.
    async fn add_own_key(
        &self,
        owner: AccountId,
        key: &StoredKey,
        now: Moment,
    ) -> Result<Result<(), KeyRefusal>>;
    /// Returns up to two valid keys whose identifiers have this prefix; an exact match comes first.
    async fn keys_like(&self, beginning: &str) -> Result<Vec<String>>;
    async fn memberships(&self, account: AccountId, scope: Scope) -> Result<Vec<String>>;
    async fn all_models(&self, limit: u32, offset: u64) -> Result<Vec<ModelOverview>>;
    async fn movements(&self, account: AccountId, limit: u32, offset: u64) -> Result<Vec<MovementOverview>>;
    async fn nodes(&self) -> Result<Vec<NodeOverview>>;
    async fn all_tasks(&self, filter: TaskFilter) -> Result<Vec<TaskOverview>>;
    async fn any_task(&self, id: &str) -> Result<Option<TaskDetail>>;
    async fn record_action(&self, action: &Action) -> Result<i64>;
    /// Changes the body and the status of an entry, or deletes it.
    async fn change_action(&self, id: i64, action: Option<&Action>) -> Result<()>;
    async fn actions(&self, limit: u32, offset: u64) -> Result<Vec<Action>>;
    /// Returns up to 1,000 queued tasks of a model, with their accounts.
    async fn queued_of_model(&self, model: &str) -> Result<Vec<(AccountId, String)>>;
    async fn cancel_task(&self, id: &str, now: Moment) -> Result<TaskChange>;
    /// Fails a running task; its node loses the lease.
    async fn fail_task(&self, id: &str, message: &str, now: Moment) -> Result<TaskChange>;
    /// Ends the lease of a running task, which any node can then claim.
    async fn requeue_task(&self, id: &str, now: Moment) -> Result<TaskChange>;
    /// Refunds the charge of a task from the publisher's earnings to the purses that paid for it, once.
    async fn refund(&self, task: &str, now: Moment) -> Result<Refund>;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_long_body_is_truncated_in_the_log() {
        let logged =
            |body| Action::new(Moment(0), "POST /api-key/keys".to_owned(), Some(&body), StatusCode::OK).body;
        assert_eq!(logged(json!({"name": "laptop"})).as_deref(), Some(r#"{"name":"laptop"}"#));
        let long = logged(json!({"models": vec!["m".repeat(200); 100]}));
        assert_eq!(long.map(|body| body.chars().count()), Some(MAX_BODY));
    }
}
