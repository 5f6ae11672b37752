//! Interventions of the operator: suspends, resumes and closes accounts, ends tasks, takes files down.

use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::Admin;
use super::adjust::MAX_NOTE;
use super::http::{Done, found, no_task, not_found};
use crate::accounts::{Account, AccountState, OPERATOR, Scope, check_line};
use crate::files::TargetsOf;
use crate::http::request::{ApiJson, ApiPath, present};
use crate::http::response::{Failure, Success};
use crate::operator::{TaskChange, TaskFilter};
use crate::queue::{Cancel, Status};
use crate::{Error, Result};

const PAGE: u32 = 1_000;

impl Admin {
    /// Suspends, resumes or closes an account. A suspended account's queued tasks wait, and its running tasks continue.
    /// A closed account loses its keys and memberships, and its queued tasks are canceled; closing again cancels tasks
    /// created meanwhile. Returns the number of canceled tasks; None if the account is closed and the new state is not.
    /// Fails if there is no such account, or the account is the operator's.
    pub async fn set_account_state(&self, username: &str, state: AccountState) -> Result<Option<usize>> {
        let doing = "changing an account";
        let account = self.account(username, doing).await?;
        if username == OPERATOR {
            return Err(Error::new(doing, "the account of the operator stays active"));
        }
        if state != AccountState::Active {
            // Uploads so far become files if the object store responds; the state changes either way.
            if let Err(cause) = self.objects.reconcile(TargetsOf::Owner(account.id)).await {
                tracing::warn!(%cause, "uploads of an account that is suspended could not be looked for");
            }
        }
        let database = &self.database;
        if !database.set_state(account.id, state, self.clock.now()).await? {
            return Ok(None);
        }
        let canceled = match state {
            AccountState::Closed => self.end_account(&account).await.map_err(Error::after_a_change)?,
            AccountState::Active | AccountState::Suspended => 0,
        };
        self.dispatcher.look_for_all();
        Ok(Some(canceled))
    }

    async fn end_account(&self, account: &Account) -> Result<usize> {
        let database = &self.database;
        for other in database.memberships(account.id, account.scope).await? {
            match account.scope {
                Scope::Organization => self.remove_member(&account.username, &other).await?,
                Scope::Personal => self.remove_member(&other, &account.username).await?,
            };
        }
        let filter =
            TaskFilter { account: Some(account.id), status: Some(Status::Queued), limit: PAGE, offset: 0 };
        let mut canceled = 0;
        loop {
            let queued = database.all_tasks(filter).await?;
            if queued.is_empty() {
                return Ok(canceled);
            }
            for task in queued {
                let outcome = database.cancel(account.id, &task.task, self.clock.now()).await?;
                canceled += usize::from(outcome == Cancel::Canceled);
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AccountChange {
    state: Option<AccountState>,
    #[serde(default, deserialize_with = "present")]
    quota: Option<Option<u64>>,
}

pub(super) async fn change_account(
    admin: Admin,
    ApiPath(username): ApiPath,
    body: ApiJson<AccountChange>,
) -> Done {
    let account = found(&admin, &username).await?;
    let AccountChange { state, quota } = body.value;
    let mut changed = json!({ "account": username });
    if quota.flatten().is_some_and(|quota| i64::try_from(quota).is_err()) {
        return Err(Failure::unprocessable("the quota is more than any account can store").into());
    }
    // The state comes first, because it may be refused.
    if let Some(state) = state {
        let Some(canceled) = admin.set_account_state(&username, state).await? else {
            let message = format!("{username:?} is closed, and a closed account stays closed");
            return Err(Failure::new(StatusCode::CONFLICT, message).into());
        };
        changed["state"] = json!(state);
        changed["canceled_tasks"] = json!(canceled);
    }
    if let Some(quota) = quota {
        let set = admin.database.set_quota(account.id, quota).await;
        set.map_err(|cause| if state.is_some() { cause.after_a_change() } else { cause })?;
        changed["quota"] = json!(quota);
    }
    Ok(Success::data(changed))
}

fn changed(task: &str, change: TaskChange, needed: Status) -> Done {
    match change {
        TaskChange::Done => Ok(Success::data(json!({ "task": task }))),
        TaskChange::Unknown => Err(no_task(task)),
        TaskChange::Refused(status) => {
            let (needed, status) = (needed.word(), status.word());
            let message = format!("only a task that is {needed} can be changed so, and {task} is {status}");
            Err(Failure::new(StatusCode::CONFLICT, message).into())
        }
    }
}

pub(super) async fn cancel_task(admin: Admin, ApiPath(task): ApiPath) -> Done {
    changed(&task, admin.database.cancel_task(&task, admin.clock.now()).await?, Status::Queued)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Failing {
    message: String,
}

pub(super) async fn fail_task(admin: Admin, ApiPath(task): ApiPath, body: ApiJson<Failing>) -> Done {
    let message = body.value.message;
    check_line("message", &message, MAX_NOTE).map_err(Failure::unprocessable)?;
    changed(&task, admin.database.fail_task(&task, &message, admin.clock.now()).await?, Status::Computing)
}

pub(super) async fn requeue_task(admin: Admin, ApiPath(task): ApiPath) -> Done {
    let change = admin.database.requeue_task(&task, admin.clock.now()).await?;
    admin.dispatcher.look_for_all();
    changed(&task, change, Status::Computing)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileUrl {
    url: String,
}

pub(super) async fn take_down(admin: Admin, body: ApiJson<FileUrl>) -> Done {
    let url = body.value.url;
    match admin.objects.delete_file(None, &url).await? {
        true => Ok(Success::data(json!({ "url": url }))),
        false => Err(not_found(format!("there is no file {url:?}"))),
    }
}
