//! Tasks: create, read, list, cancel.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{delete, get, post};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::models::find_model;
use super::{ApiJson, ApiPath, ApiQuery, Caller, Failure, Page, Success, place};
use crate::Error;
use crate::catalog::{Inputs, check_inputs};
use crate::clock::Moment;
use crate::ledger::{Money, as_number};
use crate::lifecycle::app::App;
use crate::queue::{Cancel, Created, NewTask, Status, Task, TaskSummary};

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/api-key/model/{id}/task", post(create))
        // The second spelling of the same operation.
        .route("/model/{id}/task", post(create))
        .route("/api-key/task/histories", get(history))
        .route("/api-key/task/{id}/detail", get(read))
        .route("/api-key/task/{id}/cancel", delete(cancel))
}

#[derive(Serialize)]
struct CreatedTask {
    data: String,
}

async fn create(
    State(app): State<Arc<App>>,
    Caller(account): Caller,
    ApiPath(model): ApiPath,
    input: ApiJson<Inputs>,
) -> Result<Success<CreatedTask>, Failure> {
    let found = find_model(&app, &account, &model).await?;
    check_inputs(&found.inputs, &input.value)
        .map_err(|violations| Failure::unprocessable(violations.join("; ")))?;
    let limits = &app.config.limits;
    if input.text.len() > limits.input {
        let message = format!("the inputs of a task have at most {} bytes; send files by URL", limits.input);
        return Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, message));
    }
    let task = NewTask {
        id: app.random.uuid()?,
        account: account.id,
        model,
        version: found.version.id,
        publisher: found.model.owner,
        price: found.model.price,
        input: input.text,
    };
    let (otherwise, max) = (app.config.insufficient_balance, limits.account_unfinished);
    match app.database.create_task(&task, otherwise, max, app.clock.now()).await? {
        Created::Queued => app.dispatcher.task_queued(&task.model),
        Created::Failed => {}
        Created::TooManyUnfinished => {
            let message =
                format!("{max} tasks of this account have not ended; wait until one ends, or cancel one");
            return Err(Failure::new(StatusCode::TOO_MANY_REQUESTS, message));
        }
        Created::Refused { spendable } => {
            let message = format!(
                "insufficient balance: the model costs {}, and {spendable} can be spent; nothing was created",
                task.price
            );
            return Err(Failure::insufficient_balance(message));
        }
    }
    Ok(Success::data(CreatedTask { data: task.id }))
}

/// The largest page of a history.
const LONGEST_PAGE: u32 = 100;

#[derive(Deserialize)]
struct HistoryQuery {
    limit: Option<u32>,
    #[serde(default, deserialize_with = "place")]
    offset: Option<u64>,
}

#[derive(Serialize)]
struct HistoryRecord {
    task_id: String,
    status: &'static str,
    model_id: String,
    cost: Cost,
    created_at: Moment,
    updated_at: Moment,
}

impl From<TaskSummary> for HistoryRecord {
    fn from(task: TaskSummary) -> Self {
        Self {
            task_id: task.id,
            status: task.status.word(),
            model_id: task.model,
            cost: Cost(task.cost.unwrap_or_default()),
            created_at: task.created_at,
            updated_at: task.updated_at,
        }
    }
}

/// A cost as a JSON number: zero until the task has succeeded.
#[derive(Serialize)]
#[serde(transparent)]
struct Cost(#[serde(serialize_with = "as_number")] Money);

async fn history(
    State(app): State<Arc<App>>,
    Caller(account): Caller,
    ApiQuery(query): ApiQuery<HistoryQuery>,
) -> Result<Success<Page<HistoryRecord>>, Failure> {
    let limit = query.limit.unwrap_or(10);
    if !(1..=LONGEST_PAGE).contains(&limit) {
        return Err(Failure::unprocessable(format!("limit must lie between 1 and {LONGEST_PAGE}")));
    }
    let (tasks, total) = app.database.history(account.id, limit, query.offset.unwrap_or(0)).await?;
    Ok(Success::data(Page::new(tasks.into_iter().map(HistoryRecord::from).collect(), total)))
}

#[derive(Serialize)]
struct TaskRecord {
    id: String,
    task_id: String,
    status: &'static str,
    cost: Cost,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    input_data: Box<RawValue>,
    input_format: Box<RawValue>,
    output_format: Box<RawValue>,
    result: Option<ResultEnvelope>,
    created_at: Moment,
    updated_at: Moment,
}

#[derive(Serialize)]
struct ResultEnvelope {
    result: Option<Box<RawValue>>,
    error: Option<Box<RawValue>>,
}

impl TryFrom<Task> for TaskRecord {
    type Error = Error;

    fn try_from(task: Task) -> Result<Self, Error> {
        let json = |text: String| {
            RawValue::from_string(text).map_err(|cause| Error::new("reading a stored task", cause))
        };
        let ended = matches!(task.status, Status::Success | Status::Failed);
        let result = if ended {
            let result = task.output.map(json).transpose()?;
            Some(ResultEnvelope { result, error: task.error.map(json).transpose()? })
        } else {
            None
        };
        Ok(Self {
            task_id: task.id.clone(),
            id: task.id,
            status: task.status.word(),
            cost: Cost(task.cost.unwrap_or_default()),
            message: task.message,
            input_data: json(task.input)?,
            input_format: json(task.input_format)?,
            output_format: json(task.output_format)?,
            result,
            created_at: task.created_at,
            updated_at: task.updated_at,
        })
    }
}

async fn read(
    State(app): State<Arc<App>>,
    Caller(account): Caller,
    ApiPath(id): ApiPath,
) -> Result<Success<TaskRecord>, Failure> {
    let task = app.database.task(account.id, &id).await?.ok_or_else(|| Failure::not_found("task", &id))?;
    Ok(Success::data(task.try_into()?))
}

async fn cancel(
    State(app): State<Arc<App>>,
    Caller(account): Caller,
    ApiPath(id): ApiPath,
) -> Result<Success<()>, Failure> {
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
