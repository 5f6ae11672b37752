//! Logs of tasks: the end of the standard error of a model that a node outside of the service runs. A log is an object
//! beside the outputs of its lease, and is kept as long as they are.

use std::convert::Infallible;

use axum::body::Bytes;
use futures_util::stream;
use serde::{Deserialize, Serialize};

use super::OUTPUTS;
use crate::api::Failure;
use crate::lifecycle::app::App;
use crate::{Error, Result};

pub(super) const MAX_TEXT: usize = 64 << 10;

/// The end of a log.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct TaskLog {
    pub(super) text: String,
    /// Number of bytes before `text` that are not kept.
    #[serde(default)]
    offset: u64,
}

/// Returns the key of the log of a lease, `<task>/<attempt>`. Output files have an extension, so none has this name.
pub(super) fn key_of(lease: &str) -> String {
    format!("{lease}/log")
}

/// Replaces the log of a lease, which must be running.
pub(super) async fn store(app: &App, lease: &str, log: &TaskLog) -> Result<(), Failure> {
    let bytes = serde_json::to_vec(log).map_err(|cause| Error::new("writing the log of a task", cause))?;
    let key = key_of(lease);
    let body = stream::iter([Ok::<_, Infallible>(Bytes::from(bytes))]);
    app.objects.receive_output(app, (OUTPUTS, &key, "application/json"), body).await?;
    Ok(())
}

/// Returns the log of the last lease of a task; an empty one if its node has sent none.
pub(crate) async fn read(app: &App, task: &str, attempt: i64) -> Result<TaskLog> {
    let key = key_of(&format!("{task}/{attempt}"));
    let Some(object) = app.objects.read(app, OUTPUTS, &key).await? else { return Ok(TaskLog::default()) };
    serde_json::from_slice(&object.bytes().await?)
        .map_err(|cause| Error::new("reading the log of a task", cause))
}
