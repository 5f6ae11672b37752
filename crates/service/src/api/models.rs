//! The catalog over HTTP: search, one model, its cost, who serves it, what it declares.

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{ApiJson, ApiPath, Caller, Done, Failure, Page, Success, Whole, page_size, place, present};
use crate::accounts::Account;
use crate::catalog::{Filter, Model, ModelSummary, Published, Search, Sort, Visibility};
use crate::ledger::{Money, as_number};
use crate::lifecycle::app::App;
use crate::queue::Serving;

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/api-key/model/list", post(list))
        .route("/api-key/model/{id}", get(read))
        .route("/api-key/model/{id}/task/cost", get(cost))
        .route("/api-key/model/{id}/serving", get(serving))
        .route("/api-key/model/{id}/versioning", get(versioning))
}

/// The fields of a list's body. A field that is null is refused.
#[derive(Deserialize)]
struct ListRequest {
    #[serde(default, deserialize_with = "present")]
    limit: Option<Whole>,
    #[serde(default, deserialize_with = "present")]
    offset: Option<Whole>,
    #[serde(default, deserialize_with = "present")]
    search: Option<String>,
    #[serde(default, deserialize_with = "present")]
    sort: Option<Sort>,
    #[serde(default, deserialize_with = "present")]
    filter_by: Option<Filter>,
}

async fn list(
    Caller { app, account, .. }: Caller,
    ApiJson { value: body, .. }: ApiJson<ListRequest>,
) -> Done<Page<ModelSummary>> {
    let limit = page_size("limit", body.limit, 10, app.config.limits.models_page)?;
    let search = Search {
        caller: account.id,
        text: body.search,
        sort: body.sort.unwrap_or(Sort::CreatedOldest),
        filter: body.filter_by,
        limit,
        offset: place("offset", body.offset, 0)?,
        now: app.clock.now(),
    };
    let (models, total) = app.database.models(&search).await?;
    Ok(Success::data(Page::new(models, total)))
}

/// The model, if the caller may see it: public, its own, or one of an organization that it is a member of.
/// A caller who may not see it gets the response of a model that does not exist.
pub(super) async fn find_model(app: &App, caller: &Account, id: &str) -> Result<Arc<Published>, Failure> {
    let unknown = || Failure::not_found("model", id);
    let found = app.database.published(id).await?.ok_or_else(unknown)?;
    let owner = found.model.owner;
    let may_see = found.model.summary.visibility == Visibility::Public
        || owner == caller.id
        || app.database.is_member(owner, caller.id).await?;
    if may_see { Ok(found) } else { Err(unknown()) }
}

async fn read(Caller { app, account, .. }: Caller, ApiPath(id): ApiPath) -> Done<Model> {
    Ok(Success::data(find_model(&app, &account, &id).await?.model.clone()))
}

#[derive(Serialize)]
struct TaskCost {
    #[serde(serialize_with = "as_number")]
    cost: Money,
    symbol: &'static str,
    unit: &'static str,
}

async fn cost(Caller { app, account, .. }: Caller, ApiPath(id): ApiPath) -> Done<TaskCost> {
    let found = find_model(&app, &account, &id).await?;
    Ok(Success::data(TaskCost { cost: found.model.summary.price, symbol: "$", unit: "USD" }))
}

async fn serving(Caller { app, account, .. }: Caller, ApiPath(id): ApiPath) -> Done<Serving> {
    find_model(&app, &account, &id).await?;
    // A node that was silent for the length of a lease has lost its tasks: it counts as gone.
    let since = app.clock.now().before(app.config.lease);
    Ok(Success::data(app.database.serving(&id, since).await?))
}

#[derive(Serialize)]
struct Versioning {
    model_id: String,
    commit_hash: String,
    is_active: bool,
    input_format: Box<RawValue>,
    output_format: Box<RawValue>,
}

async fn versioning(Caller { app, account, .. }: Caller, ApiPath(id): ApiPath) -> Done<Versioning> {
    let version = find_model(&app, &account, &id).await?.version.clone();
    Ok(Success::data(Versioning {
        model_id: id,
        commit_hash: version.commit_hash,
        is_active: true,
        input_format: version.input_format,
        output_format: version.output_format,
    }))
}
