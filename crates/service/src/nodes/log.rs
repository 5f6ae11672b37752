//! Logs of tasks: the end of the standard error of an outside node's model. A log is an object of its lease.

use std::convert::Infallible;

use axum::body::Bytes;
use futures_util::stream;
use serde::{Deserialize, Serialize};

use crate::files::LOGS;
use crate::http::response::Failure;
use crate::object_storage::Objects;
use crate::queue::{Status, Task};
use crate::{Error, Result};

pub(super) const MAX_TEXT: usize = 64 << 10;

#[derive(Default, Serialize, Deserialize)]
pub(crate) struct TaskLog {
    pub(super) text: String,
    /// Number of bytes before `text` that are not kept.
    #[serde(default)]
    pub(super) offset: u64,
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
    objects.receive_output((LOGS, &key, "application/json"), body).await?;
    Ok(())
}

/// Reads the log of the last attempt. A task that the service has failed itself has one attempt more, without a log.
pub(crate) async fn read(objects: &Objects, task: &Task) -> Result<TaskLog> {
    let mut attempt = task.attempt;
    let mut object = objects.read(LOGS, &key_of(&task.id, attempt)).await?;
    if object.is_none() && task.status == Status::Failed {
        attempt -= 1;
        object = objects.read(LOGS, &key_of(&task.id, attempt)).await?;
    }
    let Some(object) = object else { return Ok(TaskLog { attempt: task.attempt, ..TaskLog::default() }) };
    let log: TaskLog = serde_json::from_slice(&object.bytes().await?)
        .map_err(|cause| Error::new("reading the log of a task", cause))?;
    Ok(TaskLog { attempt, ..log })
}
