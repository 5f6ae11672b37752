//! The controls over HTTP.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Amounts, Controls, Fault, JournalEntry, KeptFault, LoadedFixtures, Operation, Script};
use crate::Error;
use crate::api::{ApiJson, ApiPath, ApiQuery, Failure, Success};
use crate::ledger::Credit;
use crate::lifecycle::app::App;

/// Every control, for callers with the token.
pub(crate) fn router(app: &Arc<App>) -> Router {
    Router::new()
        .route("/", get(overview))
        .route("/reset", post(reset))
        .route("/fixtures", post(load_fixtures))
        .route("/faults", get(faults).post(add_fault).delete(clear_faults))
        .route("/faults/{id}", delete(clear_fault))
        .route("/clock/advance", post(advance))
        .route("/accounts/{username}/balance", put(set_balance))
        .route("/accounts/{username}/credit", post(credit))
        .route("/node", put(node))
        .route("/models", get(scripts))
        .route("/models/{id}", put(script).delete(unscript))
        .route("/journal", get(journal).delete(clear_journal))
        .method_not_allowed_fallback(wrong_method)
        .fallback(unknown_path)
        .layer(from_fn_with_state(Arc::clone(app), only_with_the_token))
        .with_state(Arc::clone(app))
}

/// Runs before everything else: without the token, no response differs.
async fn only_with_the_token(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let mut sent = request.headers().get_all(AUTHORIZATION).iter();
    let token = match (sent.next().and_then(|value| value.to_str().ok()), sent.next()) {
        (Some(text), None) => text.strip_prefix("Bearer "),
        _ => None,
    };
    match (token, &app.tester) {
        (Some(token), Some(tester)) if tester.admits(token) => next.run(request).await,
        _ => {
            let message = "the token of the controls is needed in the header authorization, after Bearer";
            Failure::new(StatusCode::UNAUTHORIZED, message).into_response()
        }
    }
}

impl FromRequestParts<Arc<App>> for Controls {
    type Rejection = Failure;

    async fn from_request_parts(_: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        Self::of(app).ok_or_else(|| Failure::new(StatusCode::NOT_FOUND, "the controls are off"))
    }
}

async fn wrong_method(method: Method, uri: Uri) -> Failure {
    let message = format!("{method} is not allowed on {}", uri.path());
    Failure::new(StatusCode::METHOD_NOT_ALLOWED, message)
}

async fn unknown_path() -> Failure {
    Failure::new(StatusCode::NOT_FOUND, "there is no such control; docs/controls.md lists them")
}

/// Testers are told everything, unlike callers of the API.
fn told(cause: &Error) -> Failure {
    Failure::unprocessable(cause.to_string())
}

type Done = Result<Success<()>, Failure>;

async fn overview(controls: Controls) -> Result<Success<Value>, Failure> {
    Ok(Success::data(json!({
        "time": controls.time(),
        "node_up": controls.is_node_up().await,
        "tasks": controls.tasks().await.map_err(|cause| told(&cause))?,
        "faults": controls.faults().len(),
        "models": controls.scripts().len(),
    })))
}

async fn reset(controls: Controls) -> Done {
    controls.reset().await.map_err(|cause| told(&cause))?;
    Ok(Success::done("everything is as it was at the start"))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FixturesBody {
    folder: String,
}

async fn load_fixtures(
    controls: Controls,
    body: ApiJson<FixturesBody>,
) -> Result<Success<LoadedFixtures>, Failure> {
    Ok(Success::data(controls.load_fixtures(body.value.folder).await.map_err(|cause| told(&cause))?))
}

async fn faults(controls: Controls) -> Success<Vec<KeptFault>> {
    Success::data(controls.faults())
}

async fn add_fault(controls: Controls, body: ApiJson<Fault>) -> Result<Success<Value>, Failure> {
    let id = controls.add_fault(body.value).map_err(|cause| told(&cause))?;
    Ok(Success::data(json!({ "id": id })))
}

async fn clear_faults(controls: Controls) -> Success<()> {
    controls.clear_faults();
    Success::done("there are no faults")
}

async fn clear_fault(controls: Controls, ApiPath(id): ApiPath) -> Done {
    match id.parse().is_ok_and(|id| controls.clear_fault(id)) {
        true => Ok(Success::done("cleared")),
        false => Err(Failure::not_found("fault", &id)),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AdvanceBody {
    seconds: f64,
}

async fn advance(controls: Controls, body: ApiJson<AdvanceBody>) -> Result<Success<Value>, Failure> {
    let by = Duration::try_from_secs_f64(body.value.seconds)
        .map_err(|_| Failure::unprocessable("seconds must not be below zero"))?;
    controls.advance_clock(by).await.map_err(|cause| told(&cause))?;
    Ok(Success::data(json!({ "time": controls.time() })))
}

async fn set_balance(controls: Controls, ApiPath(name): ApiPath, body: ApiJson<Amounts>) -> Done {
    controls.set_balance(&name, body.value).await.map_err(|cause| told(&cause))?;
    Ok(Success::done("set"))
}

async fn credit(controls: Controls, ApiPath(name): ApiPath, body: ApiJson<Credit>) -> Done {
    controls.credit(&name, body.value).await.map_err(|cause| told(&cause))?;
    Ok(Success::done("credited"))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeBody {
    up: bool,
}

async fn node(controls: Controls, body: ApiJson<NodeBody>) -> Done {
    let switched = match body.value.up {
        true => controls.bring_node_up().await,
        false => controls.take_node_down().await,
    };
    switched.map_err(|cause| told(&cause))?;
    Ok(Success::done(if body.value.up { "the node is up" } else { "the node is down" }))
}

async fn scripts(controls: Controls) -> Success<Value> {
    Success::data(json!(controls.scripts()))
}

async fn script(controls: Controls, ApiPath(model): ApiPath, body: ApiJson<Script>) -> Done {
    controls.let_model(&model, body.value).await.map_err(|cause| told(&cause))?;
    Ok(Success::done("written"))
}

async fn unscript(controls: Controls, ApiPath(model): ApiPath) -> Done {
    match controls.clear_script(&model).await.map_err(|cause| told(&cause))? {
        true => Ok(Success::done("the model is itself again")),
        false => Err(Failure::not_found("script for the model", &model)),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JournalQuery {
    operation: Option<Operation>,
    /// Only requests with a higher number.
    after: Option<u64>,
}

async fn journal(controls: Controls, ApiQuery(query): ApiQuery<JournalQuery>) -> Success<Vec<JournalEntry>> {
    let mut entries = controls.journal();
    entries.retain(|entry| {
        query.operation.is_none_or(|wanted| entry.operation == Some(wanted))
            && query.after.is_none_or(|after| entry.number > after)
    });
    Success::data(entries)
}

async fn clear_journal(controls: Controls) -> Success<()> {
    controls.clear_journal();
    Success::done("forgotten")
}
