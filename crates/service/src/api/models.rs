//! Catalog over HTTP: search, one model, its price, its availability, its formats.

use std::sync::Arc;

use axum::Router;
use axum::response::Response;
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};

use super::Api;
use super::Caller;
use crate::accounts::Account;
use crate::catalog::{
    Filter, Model, ModelState, ModelSummary, Published, Search, Sort, Version, Visibility, with_sample_urls,
};
use crate::http::request::{ApiJson, ApiPath, Whole, page_size, position, present};
use crate::http::response::{Done, Failure, Page, Success, with_stored_json};
use crate::ledger::{Money, UNIT, as_number};
use crate::queue::Serving;

pub(crate) fn routes() -> Router<Arc<Api>> {
    Router::new()
        .route("/api-key/model/list", post(list))
        .route("/api-key/model/{id}", get(read))
        .route("/api-key/model/{id}/task/cost", get(cost))
        .route("/api-key/model/{id}/serving", get(serving))
        .route("/api-key/model/{id}/versioning", get(versioning))
}

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
    Caller { api, account, .. }: Caller,
    ApiJson { value: body, .. }: ApiJson<ListRequest>,
) -> Done<Page<ModelSummary>> {
    let limit = page_size("limit", body.limit, 10, api.limits.models_page)?;
    let search = Search {
        caller: account.id,
        text: body.search,
        sort: body.sort.unwrap_or(Sort::CreatedOldest),
        filter: body.filter_by,
        limit,
        offset: position("offset", body.offset, 0)?,
        now: api.clock.now(),
    };
    let (models, total) = api.database.models(&search).await?;
    Ok(Success::data(Page::new(models, total)))
}

/// Returns the model if the caller may see it. A model of others gets the same response as one that does not exist.
pub(super) async fn find_model(api: &Api, caller: &Account, id: &str) -> Result<Arc<Published>, Failure> {
    let unknown = || Failure::not_found("model", id);
    let found = api.database.published(id).await?.ok_or_else(unknown)?;
    let owner = found.model.owner;
    let may_see = found.model.summary.visibility == Visibility::Public
        || owner == caller.id
        || api.database.is_member(owner, caller.id).await?;
    if may_see { Ok(found) } else { Err(unknown()) }
}

async fn read(Caller { api, account, .. }: Caller, ApiPath(id): ApiPath) -> Done<Model> {
    Ok(Success::data(find_model(&api, &account, &id).await?.model.clone()))
}

#[derive(Serialize)]
struct TaskCost {
    #[serde(serialize_with = "as_number")]
    cost: Money,
    symbol: &'static str,
    unit: &'static str,
}

async fn cost(Caller { api, account, .. }: Caller, ApiPath(id): ApiPath) -> Done<TaskCost> {
    let found = find_model(&api, &account, &id).await?;
    Ok(Success::data(TaskCost { cost: found.model.summary.price, symbol: "$", unit: UNIT }))
}

async fn serving(Caller { api, account, .. }: Caller, ApiPath(id): ApiPath) -> Done<Serving> {
    let found = find_model(&api, &account, &id).await?;
    // A node that was silent for the length of a lease has lost its leases, and does not count as serving.
    let since = api.clock.now().before(api.lease);
    let Serving { serving, consumers } = api.database.serving(&id, since).await?;
    let serving = serving && found.state == ModelState::Active;
    Ok(Success::data(Serving { serving, consumers }))
}

#[derive(Serialize)]
struct Versioning {
    model_id: String,
    commit_hash: String,
    is_active: bool,
}

async fn versioning(Caller { api, account, .. }: Caller, ApiPath(id): ApiPath) -> Result<Response, Failure> {
    let found = find_model(&api, &account, &id).await?;
    let Version { commit_hash, input_format, output_format, .. } = &found.version;
    let address = api.objects.locations.address();
    let formats = [input_format, output_format].map(|format| with_sample_urls(format.get(), address));
    let stored = [("input_format", &*formats[0]), ("output_format", &*formats[1])];
    let version = Versioning { model_id: id, commit_hash: commit_hash.clone(), is_active: true };
    with_stored_json(&version, &stored)
}
