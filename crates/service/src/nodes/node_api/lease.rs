//! Waiting for a task, and keeping it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Extension;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::key::{NodeKey, NodePath};
use super::{known, lost};
use crate::Error;
use crate::api::{Answer, ApiJson, Failure};
use crate::lifecycle::app::App;
use crate::nodes::POLL_INTERVAL;
use crate::queue::{Lease, LeaseRules};

/// How long a node may wait for a task in one request: proxies cut what is silent for much longer.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

#[derive(Deserialize)]
pub(super) struct LeaseRequest {
    /// At most 30, which is the default.
    wait_seconds: Option<f64>,
    /// Of which of the node's models the task may be; of any by default.
    models: Option<Vec<String>>,
}

/// A task, as the node gets it.
#[derive(Serialize)]
pub(super) struct Leased {
    task: String,
    attempt: i64,
    model: String,
    input: Box<RawValue>,
    input_format: Box<RawValue>,
    output_format: Box<RawValue>,
    /// The lease ends after so long without a heartbeat.
    lease_seconds: f64,
}

/// Leases a task as soon as there is one; answers without one when the wait is over.
pub(super) async fn lease(
    State(app): State<Arc<App>>,
    Extension(stop): Extension<CancellationToken>,
    NodeKey(key): NodeKey,
    NodePath(node): NodePath<String>,
    body: ApiJson<LeaseRequest>,
) -> Result<Answer<Leased>, Failure> {
    let asked = body.value.wait_seconds.map_or(Ok(LONGEST_WAIT), Duration::try_from_secs_f64);
    let wait = asked
        .map_err(|_| Failure::unprocessable("wait_seconds must be a number of seconds, at most 30"))?
        .min(LONGEST_WAIT);
    let until = Instant::now() + wait;
    let rules = LeaseRules { length: app.config.lease, attempts: app.config.lease_attempts };
    loop {
        let notified = app.remote_wakeup.notified();
        tokio::pin!(notified);
        // Armed before looking, so that a task created between the look and the wait is not missed.
        notified.as_mut().enable();
        // Looked up anew, since the key may have been revoked while the node waited.
        let mut models = known(&app, &key, &node).await?.models;
        if let Some(wanted) = &body.value.models {
            models.retain(|model| wanted.contains(model));
        }
        if let Some(lease) = app.database.claim(&node, &models, rules, app.clock.now()).await? {
            tracing::info!(node, task = lease.task, attempt = lease.attempt, "a node has leased a task");
            return Ok(Answer::data(leased(lease, &app)?));
        }
        // Leases run out silently, and a node that waits is to be seen alive.
        let nap =
            until.saturating_duration_since(Instant::now()).min(POLL_INTERVAL).min(app.config.lease / 3);
        if nap.is_zero() || stop.run_until_cancelled(tokio::time::timeout(nap, notified)).await.is_none() {
            return Ok(Answer::nothing("no task"));
        }
    }
}

fn leased(lease: Lease, app: &App) -> Result<Leased, Error> {
    let json = |text| RawValue::from_string(text).map_err(|cause| Error::new("reading a stored task", cause));
    Ok(Leased {
        task: lease.task,
        attempt: lease.attempt,
        model: lease.model,
        input: json(lease.input)?,
        input_format: json(lease.input_format)?,
        output_format: json(lease.output_format)?,
        lease_seconds: app.config.lease.as_secs_f64(),
    })
}

/// Prolongs a lease, up to twice the time that a run may take.
pub(super) async fn heartbeat(
    State(app): State<Arc<App>>,
    NodeKey(key): NodeKey,
    NodePath((node, task, attempt)): NodePath<(String, String, i64)>,
) -> Result<Answer<()>, Failure> {
    known(&app, &key, &node).await?;
    let now = app.clock.now();
    let until = now.after(app.config.lease);
    // A run has its limit, and fetching and handing in take their time too. Whoever needs longer is stuck.
    let oldest = now.before(app.config.limits.run * 2);
    match app.database.heartbeat(&node, &task, attempt, until, Some(oldest)).await? {
        true => Ok(Answer::done("prolonged")),
        false => Err(lost()),
    }
}
