//! The catalog over HTTP: search, one model, its cost, who serves it, what it declares.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{ApiJson, ApiPath, Caller, Failure, Page, Success, place, present};
use crate::accounts::Account;
use crate::catalog::{Filter, ModelSummary, Published, Search, Sort};
use crate::clock::Moment;
use crate::ledger::{Money, as_number};
use crate::lifecycle::app::App;

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
    limit: Option<u32>,
    #[serde(default, deserialize_with = "place")]
    offset: Option<u64>,
    #[serde(default, deserialize_with = "present")]
    search: Option<String>,
    #[serde(default, deserialize_with = "present")]
    sort: Option<String>,
    #[serde(default, deserialize_with = "present")]
    filter_by: Option<String>,
}

/// What lists carry of a model.
#[derive(Serialize)]
struct Headline {
    id: String,
    name: String,
    username: String,
    description: String,
    is_official: bool,
    is_verified: bool,
    visibility: &'static str,
    #[serde(serialize_with = "as_number")]
    price: Money,
}

#[derive(Serialize)]
struct ModelRecord {
    #[serde(flatten)]
    headline: Headline,
    model_metadata: Box<RawValue>,
    created_at: Moment,
    updated_at: Moment,
}

impl From<ModelSummary> for Headline {
    fn from(model: ModelSummary) -> Self {
        Self {
            id: model.id,
            name: model.name,
            username: model.username,
            description: model.description,
            is_official: model.is_official,
            is_verified: model.is_verified,
            visibility: if model.is_public { "public" } else { "private" },
            price: model.price,
        }
    }
}

async fn list(
    State(app): State<Arc<App>>,
    Caller(account): Caller,
    ApiJson { value: body, .. }: ApiJson<ListRequest>,
) -> Result<Success<Page<Headline>>, Failure> {
    let limit = body.limit.unwrap_or(10);
    let largest = app.config.limits.models_page;
    if !(1..=largest).contains(&limit) {
        return Err(Failure::unprocessable(format!("limit must lie between 1 and {largest}")));
    }
    let sort = word("sort", body.sort.as_deref(), &Sort::ALL, Sort::word)?;
    let search = Search {
        caller: account.id,
        text: body.search,
        sort: sort.unwrap_or(Sort::CreatedOldest),
        filter: word("filter_by", body.filter_by.as_deref(), &Filter::ALL, Filter::word)?,
        limit,
        offset: body.offset.unwrap_or(0),
        now: app.clock.now(),
    };
    let (models, total) = app.database.models(&search).await?;
    Ok(Success::data(Page::new(models.into_iter().map(Headline::from).collect(), total)))
}

/// The choice that a word stands for, or a refusal with the list of words.
fn word<T: Copy>(
    field: &str,
    given: Option<&str>,
    all: &[T],
    spelled: fn(T) -> &'static str,
) -> Result<Option<T>, Failure> {
    let Some(given) = given else { return Ok(None) };
    let found = all.iter().copied().find(|choice| spelled(*choice) == given);
    found.map(Some).ok_or_else(|| {
        let words: Vec<&str> = all.iter().copied().map(spelled).collect();
        Failure::unprocessable(format!("{field} must be one of {}", words.join(", ")))
    })
}

/// The model, if the caller may see it: public, its own, or one of an organization that it is a member of.
/// A caller who may not see it gets the response of a model that does not exist.
pub(super) async fn find_model(app: &App, caller: &Account, id: &str) -> Result<Arc<Published>, Failure> {
    let unknown = || Failure::not_found("model", id);
    let found = app.database.published(id).await?.ok_or_else(unknown)?;
    let owner = found.model.owner;
    let may_see =
        found.model.is_public || owner == caller.id || app.database.is_member(owner, caller.id).await?;
    if may_see { Ok(found) } else { Err(unknown()) }
}

async fn read(
    State(app): State<Arc<App>>,
    Caller(account): Caller,
    ApiPath(id): ApiPath,
) -> Result<Success<ModelRecord>, Failure> {
    let model = find_model(&app, &account, &id).await?.model.clone();
    Ok(Success::data(ModelRecord {
        model_metadata: model.metadata.clone(),
        created_at: model.created_at,
        updated_at: model.updated_at,
        headline: ModelSummary::from(model).into(),
    }))
}

#[derive(Serialize)]
struct TaskCost {
    #[serde(serialize_with = "as_number")]
    cost: Money,
    symbol: &'static str,
    unit: &'static str,
}

async fn cost(
    State(app): State<Arc<App>>,
    Caller(account): Caller,
    ApiPath(id): ApiPath,
) -> Result<Success<TaskCost>, Failure> {
    let found = find_model(&app, &account, &id).await?;
    Ok(Success::data(TaskCost { cost: found.model.price, symbol: "$", unit: "USD" }))
}

#[derive(Serialize)]
struct ServingStatus {
    serving: bool,
    consumers: u64,
}

async fn serving(
    State(app): State<Arc<App>>,
    Caller(account): Caller,
    ApiPath(id): ApiPath,
) -> Result<Success<ServingStatus>, Failure> {
    find_model(&app, &account, &id).await?;
    // A node that was silent for the length of a lease has lost its tasks: it counts as gone.
    let since = app.clock.now().before(app.config.lease);
    let found = app.database.serving(&id, since).await?;
    Ok(Success::data(ServingStatus { serving: found.serving, consumers: found.consumers }))
}

#[derive(Serialize)]
struct Versioning {
    model_id: String,
    commit_hash: String,
    is_active: bool,
    input_format: Box<RawValue>,
    output_format: Box<RawValue>,
}

async fn versioning(
    State(app): State<Arc<App>>,
    Caller(account): Caller,
    ApiPath(id): ApiPath,
) -> Result<Success<Versioning>, Failure> {
    let version = find_model(&app, &account, &id).await?.version.clone();
    Ok(Success::data(Versioning {
        model_id: id,
        commit_hash: version.commit_hash,
        is_active: true,
        input_format: version.input_format,
        output_format: version.output_format,
    }))
}
