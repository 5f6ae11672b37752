//! Tasks: create, read, list, cancel.

use std::borrow::Cow;
use std::sync::Arc;

use axum::Router;
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use axum::routing::{delete, get, post};
use serde::{Deserialize, Serialize};

use super::Api;
use super::Caller;
use super::middleware::IDEMPOTENCY_KEY;
use super::models::find_model;
use crate::accounts::StoredKey;
use crate::catalog::{Inputs, ModelState, check_inputs, with_sample_urls};
use crate::http::observe::TraceParent;
use crate::http::request::{ApiJson, ApiPath, ApiQuery, Whole, page_size, position, whole};
use crate::http::response::{Done, Failure, Page, Success, with_stored_json};
use crate::nodes::log::{self, TaskLog};
use crate::object_storage::with_current_urls;
use crate::queue::{
    Cancel, CreateKey, Created, KeyedCreate, MAX_KEY, NewTask, Spending, Status, Task, TaskSummary,
};

pub(crate) fn routes() -> Router<Arc<Api>> {
    Router::new()
        .route("/api-key/model/{id}/task", post(create))
        .route("/model/{model_id}/task", post(create))
        .route("/api-key/task/histories", get(history))
        .route("/api-key/task/{id}/detail", get(read))
        .route("/api-key/task/{id}/cancel", delete(cancel))
        .route("/api-key/task/{id}/logs", get(logs))
}

/// `Retry-After` in seconds for an account with too many unfinished tasks.
const UNFINISHED_RETRY: u64 = 5;

#[derive(Serialize)]
struct CreatedTask {
    data: String,
}

async fn create(
    Caller { api, account, key: StoredKey { id: api_key, rules, .. }, .. }: Caller,
    ApiPath(model): ApiPath,
    IdempotencyKey(key): IdempotencyKey,
    TraceParent(traceparent): TraceParent,
    input: ApiJson<Inputs>,
) -> Done<CreatedTask> {
    if rules.models.is_some_and(|models| !models.contains(&model)) {
        let message = "this API key creates no tasks of this model";
        return Err(Failure::new(StatusCode::FORBIDDEN, message));
    }
    let key = key.map(|key| CreateKey::new(key, &model, &input.value.canonical()));
    // The idempotency key is checked first, before any state that may have changed since the first create.
    if let Some(sent) = &key
        && let Some(used) = api.database.keyed_create(account.id, &sent.key, api.clock.now()).await?
    {
        return created_before(used, key.as_ref());
    }
    let found = find_model(&api, &account, &model).await?;
    if found.state == ModelState::Retired {
        let message = "the model is retired, and runs no tasks any more; nothing was created";
        return Err(Failure::new(StatusCode::CONFLICT, message));
    }
    let limits = &api.limits;
    if input.text.len() > limits.input {
        let message = format!("the inputs of a task have at most {} bytes; send files by URL", limits.input);
        return Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, message));
    }
    check_inputs(&found.inputs, &input.value)
        .map_err(|violations| Failure::unprocessable(violations.join("; ")))?;
    let now = api.clock.now();
    let task = NewTask {
        id: api.random.uuid_by_time(now)?,
        account: account.id,
        model,
        version: found.version.id,
        publisher: found.model.owner,
        price: found.model.summary.price,
        input: input.text,
        key,
        traceparent,
        spending: rules.daily_limit.map(|daily_limit| Spending { key: api_key, daily_limit }),
    };
    let (insufficient_balance, max) = (api.insufficient_balance, limits.account_unfinished);
    let (id, price) = (task.id.clone(), task.price);
    match api.database.create_task(&task, insufficient_balance, max, now).await? {
        Created::Queued => {
            api.dispatcher.task_queued(&task.model);
            api.database.announce_queued(&task.model);
        }
        Created::Failed => {}
        Created::KeyUsed(used) => return created_before(used, task.key.as_ref()),
        Created::TooManyUnfinished => {
            let message =
                format!("{max} tasks of this account have not ended; wait until one ends, or cancel one");
            return Err(Failure::too_many(message, UNFINISHED_RETRY));
        }
        Created::KeyLimit { left } => {
            let message = format!(
                "insufficient balance: the model costs {price}, and this API key may spend {left} more until midnight \
                 UTC; nothing was created"
            );
            return Err(Failure::insufficient_balance(message));
        }
        Created::Refused { spendable } => {
            let message = format!(
                "insufficient balance: the model costs {price}, and {spendable} can be spent; nothing was created"
            );
            return Err(Failure::insufficient_balance(message));
        }
    }
    Ok(Success::data(CreatedTask { data: id }))
}

fn created_before(used: KeyedCreate, key: Option<&CreateKey>) -> Done<CreatedTask> {
    if key.is_some_and(|key| key.request == used.request) {
        return Ok(Success::data(CreatedTask { data: used.task }));
    }
    let message =
        "this Idempotency-Key was used for a task with another model or other inputs; nothing was created";
    Err(Failure::new(StatusCode::CONFLICT, message))
}

struct IdempotencyKey(Option<String>);

impl<S: Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let mut sent = parts.headers.get_all(IDEMPOTENCY_KEY).iter();
        let Some(key) = sent.next() else { return Ok(Self(None)) };
        let is_good = (1..=MAX_KEY).contains(&key.len()) && key.as_bytes().iter().all(u8::is_ascii_graphic);
        match key.to_str() {
            Ok(key) if is_good && sent.next().is_none() => Ok(Self(Some(key.to_owned()))),
            _ => {
                let message = format!(
                    "the header Idempotency-Key must be sent once, with 1 to {MAX_KEY} visible ASCII characters"
                );
                Err(Failure::new(StatusCode::BAD_REQUEST, message))
            }
        }
    }
}

pub(crate) const MAX_PAGE: u32 = 100;

#[derive(Deserialize)]
struct HistoryQuery {
    #[serde(default, deserialize_with = "whole")]
    limit: Option<Whole>,
    #[serde(default, deserialize_with = "whole")]
    offset: Option<Whole>,
}

async fn history(
    Caller { api, account, .. }: Caller,
    ApiQuery(query): ApiQuery<HistoryQuery>,
) -> Done<Page<TaskSummary>> {
    let limit = page_size("limit", query.limit, 10, MAX_PAGE)?;
    let offset = position("offset", query.offset, 0)?;
    let (tasks, total) = api.database.history(account.id, limit, offset).await?;
    Ok(Success::data(Page::new(tasks, total)))
}

#[derive(Serialize)]
struct TaskRecord<'a> {
    id: &'a str,
    #[serde(flatten)]
    task: &'a Task,
}

async fn read(Caller { api, account, .. }: Caller, ApiPath(id): ApiPath) -> Result<Response, Failure> {
    let task = api.database.task(account.id, &id).await?.ok_or_else(|| Failure::not_found("task", &id))?;
    let output = task.output.as_deref();
    let output = output.map(|output| with_current_urls(&api.objects.locations, &task.output_format, output));
    let output = output.transpose()?.unwrap_or(Cow::Borrowed("null"));
    let result = match task.status {
        Status::Success | Status::Failed => {
            let error = task.error.as_deref().unwrap_or("null");
            format!("{{\"result\":{output},\"error\":{error}}}")
        }
        _ => "null".to_owned(),
    };
    let address = api.objects.locations.address();
    let [inputs, outputs] =
        [&task.input_format, &task.output_format].map(|format| with_sample_urls(format, address));
    let stored = [
        ("input_data", &*task.input),
        ("input_format", &*inputs),
        ("output_format", &*outputs),
        ("result", &*result),
    ];
    with_stored_json(&TaskRecord { id: &task.id, task: &task }, &stored)
}

async fn cancel(Caller { api, account, .. }: Caller, ApiPath(id): ApiPath) -> Done {
    match api.database.cancel(account.id, &id, api.clock.now()).await? {
        Cancel::Canceled => Ok(Success::done("canceled")),
        Cancel::Unknown => Err(Failure::not_found("task", &id)),
        Cancel::Refused(status) => {
            let word = status.word();
            let message = format!("only a queued task can be canceled, and this one is {word}");
            Err(Failure::new(StatusCode::CONFLICT, message))
        }
    }
}

async fn logs(Caller { api, account, .. }: Caller, ApiPath(id): ApiPath) -> Done<TaskLog> {
    let task = api.database.task(account.id, &id).await?.ok_or_else(|| Failure::not_found("task", &id))?;
    Ok(Success::data(log::read(&api.objects, &task).await?))
}
