//! HTTP interface of the test controls.

use crate::http::request::BodyLimits;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{FromRef, FromRequestParts, Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Amounts, Controls, Fault, JournalEntry, KeptFault, Operation, Tester};
use crate::http::request::{ApiJson, ApiPath, ApiQuery, Whole, position, sent_key, whole};
use crate::http::response::{DetailedFailure, Failure, Success, unknown_path, wrong_method};
use crate::ledger::Credit;
use crate::nodes::Script;

pub(crate) fn router(controls: Controls) -> Router {
    Router::new()
        .route("/", get(overview))
        .route("/reset", post(reset))
        .route("/baseline", post(set_baseline))
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
        .fallback(unknown_path("docs/controls.md lists the controls"))
        .layer(from_fn_with_state(Arc::clone(&controls.tester), only_with_the_token))
        .with_state(controls)
}

/// Checks the token before everything else, so that all responses without the token are equal.
async fn only_with_the_token(State(tester): State<Arc<Tester>>, request: Request, next: Next) -> Response {
    let token = sent_key(request.headers(), "authorization").and_then(|text| text.strip_prefix("Bearer "));
    match token {
        Some(token) if tester.admits(token) => next.run(request).await,
        _ => {
            let message = "the token of the controls is needed in the header authorization, after Bearer";
            Failure::new(StatusCode::UNAUTHORIZED, message).into_response()
        }
    }
}

impl FromRequestParts<Self> for Controls {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, controls: &Self) -> Result<Self, Infallible> {
        Ok(controls.clone())
    }
}

impl FromRef<Controls> for BodyLimits {
    fn from_ref(controls: &Controls) -> Self {
        controls.admin.limits.into()
    }
}

type Done<T = ()> = crate::http::response::Done<T, DetailedFailure>;

fn not_found(message: String) -> DetailedFailure {
    Failure::new(StatusCode::NOT_FOUND, message).into()
}

async fn overview(controls: Controls) -> Done<Value> {
    Ok(Success::data(json!({
        "time": controls.time(),
        "node_up": controls.is_node_up().await,
        "tasks": controls.tasks().await?,
        "faults": controls.faults().len(),
        "models": controls.scripts().len(),
    })))
}

async fn reset(controls: Controls) -> Done {
    controls.reset().await?;
    Ok(Success::done("everything is as it was at the start or at the baseline"))
}

async fn set_baseline(controls: Controls) -> Done {
    controls.set_baseline().await?;
    Ok(Success::done("a reset goes back to this state"))
}

async fn faults(controls: Controls) -> Success<Vec<KeptFault>> {
    Success::data(controls.faults())
}

async fn add_fault(controls: Controls, body: ApiJson<Fault>) -> Done<Value> {
    let id = controls.add_fault(body.value)?;
    Ok(Success::data(json!({ "id": id })))
}

async fn clear_faults(controls: Controls) -> Success<()> {
    controls.clear_faults();
    Success::done("there are no faults")
}

async fn clear_fault(controls: Controls, ApiPath(id): ApiPath) -> Done {
    match id.parse().is_ok_and(|id| controls.clear_fault(id)) {
        true => Ok(Success::done("cleared")),
        false => Err(not_found(format!("there is no fault {id:?}"))),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AdvanceBody {
    seconds: f64,
}

async fn advance(controls: Controls, body: ApiJson<AdvanceBody>) -> Done<Value> {
    let seconds = body.value.seconds;
    if seconds < 0.0 {
        return Err(Failure::unprocessable("seconds must not be below zero").into());
    }
    // An invalid duration becomes the longest one, for which `advance_clock` returns the error.
    let by = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    controls.advance_clock(by).await?;
    Ok(Success::data(json!({ "time": controls.time() })))
}

async fn set_balance(controls: Controls, ApiPath(name): ApiPath, body: ApiJson<Amounts>) -> Done {
    controls.set_balance(&name, body.value).await?;
    Ok(Success::done("set"))
}

async fn credit(controls: Controls, ApiPath(name): ApiPath, body: ApiJson<Credit>) -> Done {
    controls.credit(&name, body.value).await?;
    Ok(Success::done("credited"))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeBody {
    up: bool,
}

async fn node(controls: Controls, body: ApiJson<NodeBody>) -> Done {
    if body.value.up {
        controls.bring_node_up().await?;
        return Ok(Success::done("the node is up"));
    }
    controls.take_node_down().await?;
    Ok(Success::done("the node is down"))
}

async fn scripts(controls: Controls) -> Success<Value> {
    Success::data(json!(controls.scripts()))
}

async fn script(controls: Controls, ApiPath(model): ApiPath, body: ApiJson<Script>) -> Done {
    controls.let_model(&model, body.value).await?;
    Ok(Success::done("the script is set"))
}

async fn unscript(controls: Controls, ApiPath(model): ApiPath) -> Done {
    match controls.clear_script(&model).await? {
        true => Ok(Success::done("the script is cleared")),
        false => Err(not_found(format!("there is no script for the model {model:?}"))),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JournalQuery {
    operation: Option<Operation>,
    #[serde(default, deserialize_with = "whole")]
    after: Option<Whole>,
}

async fn journal(controls: Controls, ApiQuery(query): ApiQuery<JournalQuery>) -> Done<Vec<JournalEntry>> {
    let after = position("after", query.after, 0)?;
    let mut entries = controls.journal();
    entries.retain(|entry| {
        entry.number > after && query.operation.is_none_or(|wanted| entry.operation == Some(wanted))
    });
    Ok(Success::data(entries))
}

async fn clear_journal(controls: Controls) -> Success<()> {
    controls.clear_journal();
    Success::done("the journal is cleared")
}
