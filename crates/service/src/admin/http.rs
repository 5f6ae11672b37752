//! Administration over HTTP, as JSON; `docs/admin-http.md` documents the requests.

use crate::http::request::BodyLimits;
use std::convert::Infallible;
use std::path::PathBuf;

use axum::extract::{DefaultBodyLimit, FromRef, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{delete, get, patch, post, put};
use axum::{Extension, Router};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::adjust::{credit, debit, movements};
use super::audit_log::{Details, DoneWith, actions, record};
use super::keys::add_key;
use super::levers::{cancel_task, change_account, fail_task, requeue_task, take_down};
use super::{Admin, Backup};
use crate::Error;
use crate::accounts::{Account, Scope};
use crate::catalog::{ModelChange, ModelSpec};
use crate::http::request::{ApiJson, ApiPath, ApiQuery, Whole, page_size, position, whole};
use crate::http::response::{DetailedFailure, Failure, Success, unknown_path, wrong_method};
use crate::ledger::Audit;
use crate::operator::{TaskDetail, TaskFilter};
use crate::queue::Status;

/// Builds the router of the administration. Access to the socket is the only authorization.
pub(crate) fn router(admin: Admin) -> Router {
    Router::new()
        .route("/accounts", get(accounts).post(add_account))
        .route("/accounts/{account}", get(account).patch(change_account))
        .route("/accounts/{account}/credits", post(credit))
        .route("/accounts/{account}/debits", post(debit))
        .route("/accounts/{account}/movements", get(movements))
        .route("/accounts/{account}/members", get(members))
        .route("/accounts/{account}/members/{person}", put(add_member).delete(remove_member))
        .route("/accounts/{account}/keys", get(keys).post(add_key))
        .route("/keys/revoke", post(revoke_key))
        .route("/models", get(models).post(publish_model).put(publish_model))
        .route("/models/{model}", patch(change_model))
        .route("/models/{model}/versions", post(publish_version))
        .route("/nodes", get(nodes))
        .route("/nodes/keys", post(add_node_key))
        .route("/nodes/keys/{name}", delete(revoke_node_key))
        .route("/tasks", get(tasks))
        .route("/tasks/{task}", get(task))
        .route("/tasks/{task}/cancel", post(cancel_task))
        .route("/tasks/{task}/fail", post(fail_task))
        .route("/tasks/{task}/requeue", post(requeue_task))
        .route("/tasks/{task}/refund", post(refund))
        .route("/files", delete(take_down))
        .route("/audit", get(audit))
        .route("/log", get(actions))
        .route_layer(from_fn_with_state(admin.clone(), record))
        .route_layer(from_fn_with_state(admin.clone(), run_to_end))
        .route("/backups", post(backup))
        .method_not_allowed_fallback(wrong_method)
        .fallback(unknown_path("docs/admin-http.md lists the requests"))
        .layer(DefaultBodyLimit::max(admin.limits.body))
        .with_state(admin)
}

/// Completes a request even if the operator disconnects: steps after a write, such as dropping a cached key, follow.
async fn run_to_end(State(admin): State<Admin>, request: Request, next: Next) -> Result<Response, Failure> {
    let panicked = |cause| Error::new("running an administration request", cause).into();
    admin.requests.spawn(next.run(request)).await.map_err(panicked)
}

impl FromRequestParts<Self> for Admin {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, admin: &Self) -> Result<Self, Infallible> {
        Ok(admin.clone())
    }
}

impl FromRef<Admin> for BodyLimits {
    fn from_ref(admin: &Admin) -> Self {
        admin.limits.into()
    }
}

pub(super) fn not_found(message: impl Into<String>) -> DetailedFailure {
    Failure::new(StatusCode::NOT_FOUND, message).into()
}

pub(super) type Done<T = Value> = crate::http::response::Done<T, DetailedFailure>;

async fn accounts(admin: Admin) -> Done {
    let accounts = admin.accounts().await?;
    Ok(Success::data(json!({ "accounts": accounts })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewAccount {
    account: String,
    #[serde(default)]
    scope: Scope,
}

async fn add_account(admin: Admin, body: ApiJson<NewAccount>) -> Done {
    let NewAccount { account, scope } = body.value;
    admin.add_account(&account, scope).await?;
    Ok(Success::data(json!({ "account": account })))
}

async fn account(admin: Admin, ApiPath(username): ApiPath) -> Done {
    let database = &admin.database;
    let account = found(&admin, &username).await?;
    let purses = database.purses(account.id).await?;
    let usage = database.usage(account.id).await?;
    let quota = database.storage_use(account.id).await?.quota;
    let (_, tasks) = database.history(account.id, 1, 0).await?;
    let related = database.memberships(account.id, account.scope).await?;
    let keys = database.keys(account.id).await?;
    let valid_keys = keys.iter().filter(|key| key.revoked_at.is_none()).count();
    let relation = match account.scope {
        Scope::Organization => "members",
        Scope::Personal => "organizations",
    };
    Ok(Success::data(json!({
        "account": account.username,
        "scope": account.scope,
        "state": account.state,
        "balance": purses.balance,
        "free_balance": purses.free,
        "debt": purses.owed(),
        "earnings": purses.earnings,
        "held": purses.held,
        "files": usage.files,
        "stored_bytes": usage.bytes,
        "quota": quota,
        "tasks": tasks,
        "valid_keys": valid_keys,
        relation: related,
    })))
}

pub(super) async fn found(admin: &Admin, username: &str) -> Result<Account, DetailedFailure> {
    let account = admin.database.account(username).await?;
    account.ok_or_else(|| not_found(format!("there is no account {username:?}")))
}

async fn members(admin: Admin, ApiPath(username): ApiPath) -> Done {
    let organization = found(&admin, &username).await?;
    if organization.scope != Scope::Organization {
        let message = format!("{username:?} is a person, and organizations have members");
        return Err(Failure::unprocessable(message).into());
    }
    let members = admin.database.memberships(organization.id, Scope::Organization).await?;
    let members: Vec<Value> = members.iter().map(|member| json!({ "member": member })).collect();
    Ok(Success::data(json!({ "members": members })))
}

async fn keys(admin: Admin, ApiPath(username): ApiPath) -> Done {
    let account = found(&admin, &username).await?;
    let keys = admin.database.keys(account.id).await?;
    Ok(Success::data(json!({ "keys": keys })))
}

type Membership = ApiPath<(String, String)>;

async fn add_member(admin: Admin, ApiPath((organization, person)): Membership) -> Done {
    admin.add_member(&organization, &person).await?;
    Ok(Success::data(json!({ "organization": organization, "member": person })))
}

async fn remove_member(admin: Admin, ApiPath((organization, person)): Membership) -> Done {
    match admin.remove_member(&organization, &person).await? {
        true => Ok(Success::data(json!({ "organization": organization, "former_member": person }))),
        false => Err(not_found(format!("{person} is no member of {organization}"))),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Revocation {
    key: String,
}

async fn revoke_key(admin: Admin, body: ApiJson<Revocation>) -> DoneWith {
    match admin.revoke(&body.value.key).await? {
        Some(id) => {
            let details = Details(json!({ "key": id }));
            Ok((Extension(details), Success::data(json!({ "key": id, "revoked": true }))))
        }
        None => Err(not_found("there is no valid key like this; one that was revoked stays revoked")),
    }
}

const MAX_PAGE: u32 = 1_000;
const DEFAULT_PAGE: u32 = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageQuery {
    #[serde(default, deserialize_with = "whole")]
    limit: Option<Whole>,
    #[serde(default, deserialize_with = "whole")]
    offset: Option<Whole>,
}

impl PageQuery {
    pub(super) fn bounds(self) -> Result<(u32, u64), Failure> {
        let limit = page_size("limit", self.limit, DEFAULT_PAGE, MAX_PAGE)?;
        Ok((limit, position("offset", self.offset, 0)?))
    }
}

async fn models(admin: Admin, ApiQuery(page): ApiQuery<PageQuery>) -> Done {
    let (limit, offset) = page.bounds()?;
    let models = admin.database.all_models(limit, offset).await?;
    Ok(Success::data(json!({ "models": models })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskQuery {
    account: Option<String>,
    status: Option<Status>,
    #[serde(default, deserialize_with = "whole")]
    limit: Option<Whole>,
    #[serde(default, deserialize_with = "whole")]
    offset: Option<Whole>,
}

async fn tasks(admin: Admin, ApiQuery(query): ApiQuery<TaskQuery>) -> Done {
    let account = match &query.account {
        Some(username) => Some(found(&admin, username).await?.id),
        None => None,
    };
    let (limit, offset) = PageQuery { limit: query.limit, offset: query.offset }.bounds()?;
    let filter = TaskFilter { account, status: query.status, limit, offset };
    let tasks = admin.database.all_tasks(filter).await?;
    Ok(Success::data(json!({ "tasks": tasks })))
}

pub(super) fn no_task(id: &str) -> DetailedFailure {
    not_found(format!("there is no task {id:?}"))
}

async fn task(admin: Admin, ApiPath(id): ApiPath) -> Done<TaskDetail> {
    let task = admin.database.any_task(&id).await?;
    task.map(Success::data).ok_or_else(|| no_task(&id))
}

async fn refund(admin: Admin, ApiPath(id): ApiPath) -> Done {
    let refunded = admin.refund_task(&id).await?;
    let (account, amount) = refunded.ok_or_else(|| no_task(&id))?;
    Ok(Success::data(json!({ "task": id, "account": account, "amount": amount })))
}

async fn nodes(admin: Admin) -> Done {
    let nodes = admin.database.nodes().await?;
    Ok(Success::data(json!({ "nodes": nodes })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Publication {
    account: String,
    model: Box<RawValue>,
}

async fn publish_model(method: Method, admin: Admin, body: ApiJson<Publication>) -> Done {
    let Publication { account, model } = body.value;
    let spec = ModelSpec::from_json(model.get())?;
    let model = spec.id.clone();
    let hash = match method {
        Method::PUT => admin.republish_model(&account, spec).await?,
        _ => admin.publish_model(&account, spec).await?,
    };
    Ok(Success::data(json!({ "publisher": account, "model": model, "commit_hash": hash })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewVersion {
    account: String,
    input_format: Box<RawValue>,
    output_format: Box<RawValue>,
}

async fn publish_version(admin: Admin, ApiPath(model): ApiPath, body: ApiJson<NewVersion>) -> Done {
    let NewVersion { account, input_format, output_format } = body.value;
    let hash = admin.publish_version(&account, &model, input_format.get(), output_format.get()).await?;
    Ok(Success::data(json!({ "model": model, "commit_hash": hash })))
}

async fn change_model(admin: Admin, ApiPath(model): ApiPath, body: ApiJson<ModelChange>) -> Done {
    admin.change_model(&model, body.value).await?;
    let mut changed: Value = serde_json::from_str(&body.text).unwrap_or_default();
    changed["model"] = json!(model);
    Ok(Success::data(changed))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewNodeKey {
    name: String,
    models: Option<Vec<String>>,
}

async fn add_node_key(admin: Admin, body: ApiJson<NewNodeKey>) -> Done {
    let NewNodeKey { name, models } = body.value;
    let key = match models {
        None => admin.add_node_key(&name).await?,
        Some(models) => admin.add_node_key_for(&name, &models).await?,
    };
    Ok(Success::data(json!({ "name": name, "node_key": key })))
}

async fn revoke_node_key(admin: Admin, ApiPath(name): ApiPath) -> Done {
    match admin.revoke_node_key(&name).await? {
        true => Ok(Success::data(json!({ "name": name, "revoked": true }))),
        false => Err(not_found(format!("there is no valid key called {name}"))),
    }
}

async fn audit(admin: Admin) -> Done<Audit> {
    Ok(Success::data(admin.audit().await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BackupFolder {
    folder: PathBuf,
}

async fn backup(admin: Admin, body: ApiJson<BackupFolder>) -> Done<Backup> {
    if !body.value.folder.is_absolute() {
        return Err(Failure::unprocessable("the folder of a backup is an absolute path").into());
    }
    Ok(Success::data(admin.backup(&body.value.folder).await?))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use tower::ServiceExt as _;

    use super::*;
    use crate::{Config, Error, Service};

    #[tokio::test]
    async fn a_key_is_revoked_at_once_even_if_the_operator_hangs_up() -> Result<(), Error> {
        let service = Service::start(Config::ephemeral()).await?;
        let database = &service.database;
        let owner = service.account("demo", "finding an account").await?.id;
        let key = service.add_key("demo").await?;
        let id = crate::accounts::key_id(&key);
        assert!(database.key(&id).await?.is_some());

        let body = Body::from(json!({ "key": key }).to_string());
        let request = Request::post("/keys/revoke").header("content-type", "application/json").body(body);
        let request = request.map_err(|cause| Error::new("building a request", cause))?;
        let mut response = Box::pin(router(service.admin.clone()).oneshot(request));
        assert!(futures_util::poll!(&mut response).is_pending());
        drop(response);
        // The read puts the old key into the cache again.
        database.key(&id).await?;
        let is_revoked = async || {
            let keys = database.keys(owner).await?;
            Ok::<_, Error>(keys.iter().any(|shown| shown.revoked_at.is_some()))
        };
        while !is_revoked().await? {
            tokio::task::yield_now().await;
        }
        // Shorter than the lifetime of a cache entry.
        let is_invalid = async {
            while database.key(&id).await?.is_some() {
                tokio::task::yield_now().await;
            }
            Ok::<_, Error>(())
        };
        let in_time = tokio::time::timeout(std::time::Duration::from_secs(8), is_invalid).await;
        in_time.map_err(|cause| Error::new("waiting until the key is not valid", cause))??;
        service.shutdown().await;
        Ok(())
    }

    #[tokio::test]
    async fn what_the_operator_has_begun_is_done_before_the_service_ends() -> Result<(), Error> {
        let folder = tempfile::tempdir().map_err(|cause| Error::new("creating a folder", cause))?;
        Service::start(Config::folder(folder.path())).await?.shutdown().await;
        let service = Service::open_stopped(folder.path()).await?;
        let before = service.accounts().await?;
        let body = Body::from(json!({ "paid": "1" }).to_string());
        let request = Request::post("/accounts/demo/credits");
        let request = request.header("content-type", "application/json").body(body);
        let request = request.map_err(|cause| Error::new("building a request", cause))?;
        let mut response = Box::pin(router(service.admin.clone()).oneshot(request));
        assert!(futures_util::poll!(&mut response).is_pending());
        drop(response);
        service.shutdown().await;
        let service = Service::open_stopped(folder.path()).await?;
        assert_ne!(service.accounts().await?, before);
        service.shutdown().await;
        Ok(())
    }
}
