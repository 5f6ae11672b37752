//! Node API for external nodes, on its own listener; `docs/node-protocol.md` describes it for authors of nodes.

mod finish;
mod key;
mod lease;
mod output;
#[cfg(test)]
mod tests;

use crate::http::observe::Observer;
use crate::http::request::BodyLimits;
use std::collections::BTreeSet;
use std::sync::Arc;

pub(super) use output::check_file;

use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRef, State};
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::routing::{post, put};
use serde::{Deserialize, Serialize};

use super::Nodes;
use crate::http::observe::observe;
use crate::http::request::{ApiJson, ApiPath};
use crate::http::response::{Done, Failure, Success, unknown_path, wrong_method};
use crate::nodes::log::{self, TaskLog};
use crate::queue::{LeaseState, NodeEnd};
use crate::registry::{KnownNode, MAX_KEY_MODELS, NODE_SILENCE, NodeKey};

const MAX_MODELS: usize = 1_000;

const MAX_NAME: usize = 128;

impl FromRef<Arc<Nodes>> for BodyLimits {
    fn from_ref(nodes: &Arc<Nodes>) -> Self {
        nodes.limits.into()
    }
}

pub(crate) fn router(nodes: &Arc<Nodes>, observer: Arc<Observer>) -> Router {
    let of_lease = Router::new()
        .route("/heartbeat", post(lease::heartbeat))
        .route("/files/{file}", put(finish::put_file))
        .route("/log", put(put_log))
        .route("/finish", post(finish::finish));
    let paths = Router::new()
        .route("/register", post(register))
        .route("/{node}/lease", post(lease::lease))
        .route("/{node}/goodbye", post(goodbye))
        .nest("/{node}/tasks/{task}/{attempt}", of_lease)
        .method_not_allowed_fallback(wrong_method);
    Router::new()
        .nest("/nodes/v1", paths)
        .fallback(unknown_path("the protocol of nodes begins at /nodes/v1"))
        .layer(DefaultBodyLimit::max(nodes.limits.body))
        .layer(from_fn_with_state(observer, observe))
        .with_state(Arc::clone(nodes))
}

async fn put_log(
    State(nodes): State<Arc<Nodes>>,
    key: NodeKey,
    ApiPath((node, task, attempt)): ApiPath<(String, String, i64)>,
    body: ApiJson<TaskLog>,
) -> Done {
    known(&nodes, &key, &node).await?;
    if body.value.text.len() > log::MAX_TEXT {
        return Err(Failure::unprocessable(format!("the text of a log has at most {} bytes", log::MAX_TEXT)));
    }
    if i64::try_from(body.value.offset).is_err() {
        return Err(Failure::unprocessable(format!("the offset of a log is at most {}", i64::MAX)));
    }
    let LeaseState::Running { .. } = nodes.database.lease_state(&node, &task, attempt).await? else {
        return Err(lost());
    };
    log::store(&nodes.objects, &task, attempt, &body.value).await?;
    Ok(Success::done("stored"))
}

#[derive(Deserialize)]
struct Registration {
    models: Vec<String>,
}

#[derive(Serialize)]
struct Registered {
    node: String,
    lease_seconds: f64,
    run_seconds: f64,
    /// Base URL of object storage. All other input URLs are on the internet.
    storage_url: String,
}

/// Registers a node with its models. A restarted node gets a new name, and no longer holds its former leases.
async fn register(
    State(nodes): State<Arc<Nodes>>,
    key: NodeKey,
    body: ApiJson<Registration>,
) -> Done<Registered> {
    let models = body.value.models;
    if models.is_empty() || models.len() > MAX_MODELS {
        return Err(Failure::unprocessable(format!("a node runs between 1 and {MAX_MODELS} models")));
    }
    if models.iter().any(|model| model.contains('\0') || model.len() > MAX_NAME) {
        let message = format!("the name of a model has at most {MAX_NAME} bytes and no NUL");
        return Err(Failure::unprocessable(message));
    }
    if let Some(allowed) = &key.models
        && let Some(other) = models.iter().find(|model| !allowed.contains(model))
    {
        let other: String = other.chars().take(80).collect();
        let message = format!("this key may not serve {other:?}, only {}", allowed.join(", "));
        return Err(Failure::unprocessable(message));
    }
    let node = format!("node-{}", nodes.random.word(16)?);
    if !nodes.database.register(&node, Some(&key.name), &models, nodes.clock.now()).await? {
        let message = format!("the nodes of a key have at most {MAX_KEY_MODELS} models together");
        return Err(Failure::too_many(message, NODE_SILENCE.as_secs()));
    }
    nodes.refresh_outside().await?;
    tracing::info!(node, key = key.name, models = models.len(), "a node has registered");
    Ok(Success::data(Registered {
        node,
        lease_seconds: nodes.lease.as_secs_f64(),
        run_seconds: nodes.limits.run.as_secs_f64(),
        storage_url: nodes.objects.locations.address().to_owned(),
    }))
}

async fn goodbye(State(nodes): State<Arc<Nodes>>, key: NodeKey, ApiPath(node): ApiPath<String>) -> Done {
    known(&nodes, &key, &node).await?;
    nodes.database.node_ended(&node, NodeEnd::Left, nodes.clock.now()).await?;
    nodes.refresh_outside().await?;
    nodes.dispatcher.look_for_all();
    tracing::info!(node, key = key.name, "a node has left");
    Ok(Success::done("goodbye"))
}

async fn known(nodes: &Nodes, key: &NodeKey, node: &str) -> Result<KnownNode, Failure> {
    let known = nodes.database.known_node(node, &key.name).await?;
    let known = known.ok_or_else(|| unknown(node))?;
    // The database is written at most three times per lease duration, to save disk writes.
    let now = nodes.clock.now();
    if known.seen_at <= now.before(nodes.lease / 3) {
        nodes.database.touch_slots(&[(node.to_owned(), Arc::default())], now).await?;
    }
    Ok(known)
}

async fn slot_models(
    nodes: &Nodes,
    known: KnownNode,
    node: &str,
    wanted: Option<&BTreeSet<String>>,
) -> Result<Arc<[String]>, Failure> {
    let asked = known.models.into_iter().filter(|(model, _)| wanted.is_none_or(|all| all.contains(model)));
    let (models, seen_at): (Vec<_>, Vec<_>) = asked.unzip();
    let models: Arc<[String]> = models.into();
    let now = nodes.clock.now();
    let lease = nodes.lease;
    let was_seen_since = |moment| seen_at.iter().all(|seen_at| *seen_at > moment);
    if !was_seen_since(now.before(lease / 3)) {
        nodes.database.touch_slots(&[(node.to_owned(), Arc::clone(&models))], now).await?;
    }
    if !was_seen_since(now.before(lease)) {
        nodes.refresh_outside().await?;
    }
    Ok(models)
}

fn unknown(node: &str) -> Failure {
    let node: String = node.chars().take(80).collect();
    let message = format!("there is no node {node:?} of this key; register again");
    Failure::new(StatusCode::NOT_FOUND, message)
}

fn lost() -> Failure {
    let message = "the lease is lost: the task has failed or goes to another node, so stop working on it";
    Failure::new(StatusCode::CONFLICT, message)
}
