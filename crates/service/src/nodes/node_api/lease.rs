//! Lease of a task by an external node: claim and heartbeat.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use super::{known, lost, slot_models, unknown};
use crate::catalog::with_sample_urls;
use crate::http::request::{ApiJson, ApiPath, ApiQuery};
use crate::http::response::{Done, Failure, Success, with_stored_json};
use crate::nodes::DispatchedTask;
use crate::nodes::Nodes;
use crate::object_storage::with_current_urls;
use crate::queue::{Lease, Slot};
use crate::registry::NodeKey;

/// Maximum wait for a task in one request, because proxies close connections that are silent for much longer.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(30);
pub(super) const MAX_RUN: Duration = Duration::from_hours(24);

#[derive(Deserialize)]
pub(super) struct LeaseRequest {
    wait_seconds: Option<f64>,
    models: Option<BTreeSet<String>>,
}

#[derive(Serialize)]
struct Leased<'a> {
    #[serde(flatten)]
    lease: &'a Lease,
    lease_seconds: f64,
    /// Current base URL of object storage, which may have changed since the node registered.
    storage_url: &'a str,
}

pub(super) async fn lease(
    State(nodes): State<Arc<Nodes>>,
    key: NodeKey,
    ApiPath(node): ApiPath<String>,
    body: ApiJson<LeaseRequest>,
) -> Result<Response, Failure> {
    let asked = body.value.wait_seconds.map_or(Ok(MAX_WAIT), Duration::try_from_secs_f64);
    let wait = asked
        .map_err(|_| Failure::unprocessable("wait_seconds must be a number of seconds, at most 30"))?
        .min(MAX_WAIT);
    let known = known(&nodes, &key, &node).await?;
    let models = slot_models(&nodes, known, &node, body.value.models.as_ref()).await?;
    let slot = Slot { node: node.clone(), models, max_running: u32::MAX, passed_over: Vec::new() };
    let task = nodes.dispatcher.remote_task(slot, !wait.is_zero());
    // A node that does not wait gets the result of one claim, for which the maximum wait is only a timeout.
    let limit = if wait.is_zero() { MAX_WAIT } else { wait };
    match nodes.background.stop.run_until_cancelled(tokio::time::timeout(limit, task)).await {
        Some(Ok(Some(DispatchedTask::Remote(lease)))) => {
            let Lease { task, attempt, traceparent, .. } = &lease;
            tracing::info!(node, task, attempt, traceparent, "a node has leased a task");
            let locations = &nodes.objects.locations;
            let input =
                with_current_urls(locations, &lease.input_format, &lease.input).unwrap_or_else(|cause| {
                    tracing::warn!(%cause, task = lease.task, "URLs of a former address cannot be replaced");
                    Cow::Borrowed(&lease.input)
                });
            let storage_url = locations.address();
            let [inputs, outputs] = [&lease.input_format, &lease.output_format]
                .map(|format| with_sample_urls(format, storage_url));
            let stored = [("input", &*input), ("input_format", &*inputs), ("output_format", &*outputs)];
            let lease_seconds = nodes.lease.as_secs_f64();
            let leased = Leased { lease: &lease, lease_seconds, storage_url };
            with_stored_json(&leased, &stored)
        }
        Some(Ok(Some(DispatchedTask::UnknownNode))) => Err(unknown(&node)),
        _ => Ok(Success::<()>::done("no task").into_response()),
    }
}

#[derive(Deserialize)]
pub(super) struct HeartbeatQuery {
    /// Timeout of the run on the node, in seconds: at most a day, by default the timeout of this service.
    run_seconds: Option<String>,
}

fn seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.parse().ok()?).ok()
}

pub(super) async fn heartbeat(
    State(nodes): State<Arc<Nodes>>,
    key: NodeKey,
    ApiPath((node, task, attempt)): ApiPath<(String, String, i64)>,
    ApiQuery(query): ApiQuery<HeartbeatQuery>,
) -> Done {
    let stated = query.run_seconds.as_deref().map_or(Some(Duration::ZERO), seconds);
    let stated = stated.ok_or_else(|| Failure::unprocessable("run_seconds must be a number of seconds"))?;
    known(&nodes, &key, &node).await?;
    let now = nodes.clock.now();
    let until = now.after(nodes.lease);
    // Fetching inputs and storing outputs take time too. A node that needs twice the timeout is stuck.
    let run = stated.min(MAX_RUN).max(nodes.limits.run);
    let oldest = now.before(run * 2);
    match nodes.database.heartbeat(&node, &task, attempt, until, Some(oldest)).await? {
        true => {
            nodes.database.touch_running(&node, &task, now).await?;
            Ok(Success::done("prolonged"))
        }
        false => Err(lost()),
    }
}
