//! Logs of tasks: the end of the standard error of an outside node's model. A log is an object of its lease.

use std::convert::Infallible;

use axum::body::Bytes;
use futures_util::stream;
use serde::{Deserialize, Serialize};

use crate::http::response::Failure;
use crate::object_storage::Objects;
use crate::{Error, Result};

pub(super) const MAX_TEXT: usize = 64 << 10;
/// Bucket of logs, which are not among the outputs of a lease.
const BUCKET: &str = "logs";

#[derive(Default, Serialize, Deserialize)]
pub(crate) struct TaskLog {
    pub(super) text: String,
    /// Number of bytes before `text` that are not kept.
    #[serde(default)]
    offset: u64,
    #[serde(skip_deserializing)]
    attempt: i64,
}

fn key_of(task: &str, attempt: i64) -> String {
    format!("{task}/{attempt}/log")
}

/// Replaces the log of a lease, which must be running.
pub(super) async fn store(objects: &Objects, task: &str, attempt: i64, log: &TaskLog) -> Result<(), Failure> {
    let bytes = serde_json::to_vec(log).map_err(|cause| Error::new("writing the log of a task", cause))?;
    let key = key_of(task, attempt);
    let body = stream::iter([Ok::<_, Infallible>(Bytes::from(bytes))]);
    objects.receive_output((BUCKET, &key, "application/json"), body).await?;
    Ok(())
}

pub(crate) async fn read(objects: &Objects, task: &str, attempt: i64) -> Result<TaskLog> {
    let Some(object) = objects.read(BUCKET, &key_of(task, attempt)).await? else {
        return Ok(TaskLog { attempt, ..TaskLog::default() });
    };
    let log: TaskLog = serde_json::from_slice(&object.bytes().await?)
        .map_err(|cause| Error::new("reading the log of a task", cause))?;
    Ok(TaskLog { attempt, ..log })
}
