//! Tasks: create, read, list, cancel.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use axum::routing::{delete, get, post};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::edge::{IDEMPOTENCY_KEY, TraceParent};
use super::models::find_model;
use super::{
    ApiJson, ApiPath, ApiQuery, Caller, Done, Failure, Page, Success, Whole, page_size, place, whole,
    with_stored_json,
};
use crate::Error;
use crate::accounts::KeptKey;
use crate::catalog::{Format, Inputs, Kind, ModelState, check_inputs, with_sample_urls};
use crate::lifecycle::app::App;
use crate::nodes::log::{self, TaskLog};
use crate::object_storage::Locations;
use crate::queue::{
    Cancel, CreateKey, Created, KeyedCreate, MAX_KEY, NewTask, Spending, Status, Task, TaskSummary,
};

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/api-key/model/{id}/task", post(create))
        // Alias of the same operation.
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
    Caller { app, account, key: KeptKey { id: api_key, rules, .. }, .. }: Caller,
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
        && let Some(used) = app.database.keyed_create(account.id, &sent.key, app.clock.now()).await?
    {
        return created_before(used, key.as_ref());
    }
    let found = find_model(&app, &account, &model).await?;
    if found.state == ModelState::Retired {
        let message = "the model is retired, and runs no tasks any more; nothing was created";
        return Err(Failure::new(StatusCode::CONFLICT, message));
    }
    let limits = &app.config.limits;
    if input.text.len() > limits.input {
        let message = format!("the inputs of a task have at most {} bytes; send files by URL", limits.input);
        return Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, message));
    }
    check_inputs(&found.inputs, &input.value)
        .map_err(|violations| Failure::unprocessable(violations.join("; ")))?;
    let now = app.clock.now();
    let task = NewTask {
        id: app.random.uuid_by_time(now)?,
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
    let (otherwise, max) = (app.config.insufficient_balance, limits.account_unfinished);
    let (id, price) = (task.id.clone(), task.price);
    match app.database.create_task(&task, otherwise, max, now).await? {
        Created::Queued => app.task_queued(&task.model),
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

/// Responds with the task of the create that used the idempotency key; 409 if that create was a different one.
fn created_before(used: KeyedCreate, key: Option<&CreateKey>) -> Done<CreatedTask> {
    if key.is_some_and(|key| key.request == used.request) {
        return Ok(Success::data(CreatedTask { data: used.task }));
    }
    let message =
        "this Idempotency-Key was used for a task with another model or other inputs; nothing was created";
    Err(Failure::new(StatusCode::CONFLICT, message))
}

/// Idempotency key of a create, from the header `Idempotency-Key`.
struct IdempotencyKey(Option<String>);

impl FromRequestParts<Arc<App>> for IdempotencyKey {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, Failure> {
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
    Caller { app, account, .. }: Caller,
    ApiQuery(query): ApiQuery<HistoryQuery>,
) -> Done<Page<TaskSummary>> {
    let limit = page_size("limit", query.limit, 10, MAX_PAGE)?;
    let offset = place("offset", query.offset, 0)?;
    let (tasks, total) = app.database.history(account.id, limit, offset).await?;
    Ok(Success::data(Page::new(tasks, total)))
}

#[derive(Serialize)]
struct TaskRecord<'a> {
    id: &'a str,
    #[serde(flatten)]
    task: &'a Task,
}

async fn read(Caller { app, account, .. }: Caller, ApiPath(id): ApiPath) -> Result<Response, Failure> {
    let task = app.database.task(account.id, &id).await?.ok_or_else(|| Failure::not_found("task", &id))?;
    let output = task.output.as_deref();
    let output = output.map(|output| with_current_urls(&app.objects.locations, &task.output_format, output));
    let output = output.transpose()?.unwrap_or(Cow::Borrowed("null"));
    let result = match task.status {
        Status::Success | Status::Failed => {
            let error = task.error.as_deref().unwrap_or("null");
            format!("{{\"result\":{output},\"error\":{error}}}")
        }
        _ => "null".to_owned(),
    };
    let address = app.objects.locations.address();
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

/// Rewrites URLs of this service's files to its current address, because a former address is not served.
pub(crate) fn with_current_urls<'a>(
    locations: &Locations,
    format: &str,
    parameters: &'a str,
) -> Result<Cow<'a, str>, Error> {
    let mut current = Cow::Borrowed(parameters);
    if !locations.have_moved() {
        return Ok(current);
    }
    let unreadable = |cause| Error::new("reading the parameters of a task", cause);
    let format = Format::kept(format)?;
    // Raw values, so that no number loses a digit.
    let values: BTreeMap<String, &RawValue> = serde_json::from_str(parameters).map_err(unreadable)?;
    for (name, value) in values {
        if format.get(&name).is_some_and(|descriptor| descriptor.kind == Kind::File)
            && let Ok(url) = serde_json::from_str::<String>(value.get())
            && let Some(url) = locations.current_url(&url)
        {
            let url = to_raw_value(&url).map_err(unreadable)?;
            current = Cow::Owned(current.replace(value.get(), url.get()));
        }
    }
    Ok(current)
}

async fn cancel(Caller { app, account, .. }: Caller, ApiPath(id): ApiPath) -> Done {
    match app.database.cancel(account.id, &id, app.clock.now()).await? {
        Cancel::Canceled => Ok(Success::done("canceled")),
        Cancel::Unknown => Err(Failure::not_found("task", &id)),
        Cancel::Refused(status) => {
            let word = status.word();
            let message = format!("only a queued task can be canceled, and this one is {word}");
            Err(Failure::new(StatusCode::CONFLICT, message))
        }
    }
}

async fn logs(Caller { app, account, .. }: Caller, ApiPath(id): ApiPath) -> Done<TaskLog> {
    let task = app.database.task(account.id, &id).await?.ok_or_else(|| Failure::not_found("task", &id))?;
    Ok(Success::data(log::read(&app, &task.id, task.attempt).await?))
}
