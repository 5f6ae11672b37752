//! Administration over HTTP, as JSON: the requests of `docs/admin.md`.

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRequestParts, Path};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::routing::{delete, get, patch, post, put};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Admin, Backup};
use crate::Error;
use crate::accounts::Scope;
use crate::api::{Answer, ApiJson, ApiPath, Failure};
use crate::catalog::{ModelSpec, Visibility};
use crate::ledger::{Audit, Credit, Money};
use crate::lifecycle::app::App;

/// Every request of the operator. Who reaches it may do everything.
pub(super) fn router(app: &Arc<App>) -> Router {
    Router::new()
        .route("/accounts", get(accounts).post(add_account))
        .route("/accounts/{account}/credits", post(credit))
        .route("/accounts/{account}/members/{person}", put(add_member).delete(remove_member))
        .route("/accounts/{account}/keys", post(add_key))
        .route("/keys/revoke", post(revoke_key))
        .route("/models", post(publish_model))
        .route("/models/{model}", patch(change_model))
        .route("/models/{model}/versions", post(publish_version))
        .route("/nodes/keys", post(add_node_key))
        .route("/nodes/keys/{name}", delete(revoke_node_key))
        .route("/audit", get(audit))
        .route("/backups", post(backup))
        .fallback(unknown_path)
        .layer(DefaultBodyLimit::max(app.config.limits.body))
        .with_state(Arc::clone(app))
}

impl FromRequestParts<Arc<App>> for Admin {
    type Rejection = Failure;

    async fn from_request_parts(_: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        Ok(Self::new(app))
    }
}

async fn unknown_path() -> Failure {
    Failure::new(StatusCode::NOT_FOUND, "there is no such request; docs/admin.md lists them")
}

/// The operator reads every cause, unlike callers of the API.
fn refused(cause: &Error) -> Failure {
    Failure::unprocessable(cause.to_string())
}

fn not_found(message: impl Into<String>) -> Failure {
    Failure::new(StatusCode::NOT_FOUND, message)
}

type Done<T = Value> = Result<Answer<T>, Failure>;

async fn accounts(admin: Admin) -> Done {
    let accounts = admin.accounts().await.map_err(|cause| refused(&cause))?;
    Ok(Answer::data(json!({ "accounts": accounts })))
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
    admin.add_account(&account, scope).await.map_err(|cause| refused(&cause))?;
    Ok(Answer::data(json!({ "account": account })))
}

async fn credit(admin: Admin, ApiPath(account): ApiPath, body: ApiJson<Credit>) -> Done {
    let (Credit::Paid(amount) | Credit::Free(amount)) = body.value;
    let free = matches!(body.value, Credit::Free(_));
    admin.credit(&account, body.value).await.map_err(|cause| refused(&cause))?;
    Ok(Answer::data(json!({ "account": account, "amount": amount, "free": free })))
}

type Membership = Path<(String, String)>;

async fn add_member(admin: Admin, Path((organization, person)): Membership) -> Done {
    admin.add_member(&organization, &person).await.map_err(|cause| refused(&cause))?;
    Ok(Answer::data(json!({ "organization": organization, "member": person })))
}

async fn remove_member(admin: Admin, Path((organization, person)): Membership) -> Done {
    match admin.remove_member(&organization, &person).await.map_err(|cause| refused(&cause))? {
        true => Ok(Answer::data(json!({ "organization": organization, "former_member": person }))),
        false => Err(not_found(format!("{person} is no member of {organization}"))),
    }
}

async fn add_key(admin: Admin, ApiPath(account): ApiPath) -> Done {
    let key = admin.add_key(&account).await.map_err(|cause| refused(&cause))?;
    Ok(Answer::data(json!({ "account": account, "api_key": key })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Revocation {
    key: String,
}

async fn revoke_key(admin: Admin, body: ApiJson<Revocation>) -> Done {
    match admin.revoke_key(&body.value.key).await.map_err(|cause| refused(&cause))? {
        true => Ok(Answer::data(json!({ "revoked": true }))),
        false => Err(not_found("there is no such key")),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Publication {
    account: String,
    model: Box<RawValue>,
}

async fn publish_model(admin: Admin, body: ApiJson<Publication>) -> Done {
    let Publication { account, model } = body.value;
    let spec = ModelSpec::from_json(model.get()).map_err(|cause| refused(&cause))?;
    let model = spec.id.clone();
    let hash = admin.publish_model(&account, spec).await.map_err(|cause| refused(&cause))?;
    Ok(Answer::data(json!({ "publisher": account, "model": model, "commit_hash": hash })))
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
    let published = admin.publish_version(&account, &model, input_format.get(), output_format.get()).await;
    let hash = published.map_err(|cause| refused(&cause))?;
    Ok(Answer::data(json!({ "model": model, "commit_hash": hash })))
}

/// What changes about a model; what is left out stays.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelChange {
    price: Option<Money>,
    visibility: Option<Visibility>,
    is_verified: Option<bool>,
}

async fn change_model(admin: Admin, ApiPath(model): ApiPath, body: ApiJson<ModelChange>) -> Done {
    let mut changed: Value = serde_json::from_str(&body.text).unwrap_or_default();
    changed["model"] = json!(model);
    let ModelChange { price, visibility, is_verified } = body.value;
    if let Some(price) = price {
        admin.set_price(&model, price).await.map_err(|cause| refused(&cause))?;
    }
    if let Some(visibility) = visibility {
        admin.set_visibility(&model, visibility).await.map_err(|cause| refused(&cause))?;
    }
    if let Some(is_verified) = is_verified {
        admin.set_verified(&model, is_verified).await.map_err(|cause| refused(&cause))?;
    }
    Ok(Answer::data(changed))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewNodeKey {
    name: String,
    /// The models that nodes with this key may serve; any model when it is left out.
    models: Option<Vec<String>>,
}

async fn add_node_key(admin: Admin, body: ApiJson<NewNodeKey>) -> Done {
    let NewNodeKey { name, models } = body.value;
    let key = match models {
        None => admin.add_node_key(&name).await,
        Some(models) => admin.add_node_key_for(&name, &models).await,
    };
    let key = key.map_err(|cause| refused(&cause))?;
    Ok(Answer::data(json!({ "name": name, "node_key": key })))
}

async fn revoke_node_key(admin: Admin, ApiPath(name): ApiPath) -> Done {
    match admin.revoke_node_key(&name).await.map_err(|cause| refused(&cause))? {
        true => Ok(Answer::data(json!({ "name": name, "revoked": true }))),
        false => Err(not_found(format!("there is no valid key called {name}"))),
    }
}

async fn audit(admin: Admin) -> Done<Audit> {
    Ok(Answer::data(admin.audit().await.map_err(|cause| refused(&cause))?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BackupFolder {
    folder: PathBuf,
}

async fn backup(admin: Admin, body: ApiJson<BackupFolder>) -> Done<Backup> {
    if !body.value.folder.is_absolute() {
        return Err(Failure::unprocessable("the folder of a backup is an absolute path"));
    }
    Ok(Answer::data(admin.backup(&body.value.folder).await.map_err(|cause| refused(&cause))?))
}
