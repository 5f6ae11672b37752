//! Prepared runs: creates that survive a crash.

use std::sync::Arc;
use std::time::SystemTime;

use inferstore_api::types::{ModelId, TaskId, TaskInput};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use crate::resources::tasks::Task;
use crate::run::create::Create;
use crate::transport::Core;
use crate::transport::deadline::Deadline;
use crate::transport::error::Result;

/// A run whose inputs are checked and uploaded, and whose task is created by
/// [`Client::adopt_or_start`](crate::Client::adopt_or_start).
///
/// It serializes: note it in a journal before its task is created. After a crash, read it back and
/// hand it to `adopt_or_start` again, which finds the task that it may have become, or creates it.
///
/// ```no_run
/// # async fn example(client: inferstore::Client, inputs: inferstore::Inputs) -> Result<(), Box<dyn std::error::Error>> {
/// let prepared = client.model("haze-removal").prepare(inputs).await?;
/// std::fs::write("run.json", serde_json::to_vec(&prepared)?)?;
/// let task = client.adopt_or_start(prepared).await?; // a crash up to here costs nothing twice
/// std::fs::write("task.txt", task.id().as_str())?;
/// # Ok(())
/// # }
/// ```
///
/// Two prepared runs with the same inputs are told apart by their uploaded files. Those without files
/// are not, but each becomes one task: a task that is known already is never adopted again. Make known
/// what a journal lists with [`Tasks::claim`](crate::Tasks::claim) before the first `adopt_or_start`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PreparedRun {
    /// The model.
    pub model: ModelId,
    /// The inputs as they are sent, with the URLs of the uploaded files.
    pub inputs: Map<String, Value>,
    /// The URLs of the files that were uploaded for this run.
    pub uploaded: Vec<String>,
    /// When it was prepared, by the clock of this machine.
    pub prepared_at: SystemTime,
    #[serde(skip)]
    pub(crate) progress: Progress,
}

/// What this process knows of the create, shared by the clones of a prepared run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress(pub(crate) Arc<Mutex<State>>);

#[derive(Debug, Default)]
pub(crate) enum State {
    /// A create may have been sent, by this process or an earlier one.
    #[default]
    Unknown,
    /// No create was sent.
    New,
    Created(TaskId),
}

/// Two prepared runs are equal when their creates are.
impl PartialEq for Progress {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl PreparedRun {
    pub(crate) fn new(
        model: ModelId,
        input: TaskInput,
        uploaded: Vec<String>,
        prepared_at: SystemTime,
    ) -> Self {
        let progress = Progress(Arc::new(Mutex::new(State::New)));
        Self { model, inputs: input.0, uploaded, prepared_at, progress }
    }
}

/// Finds the task that a prepared run has become, or creates it.
pub(crate) async fn adopt_or_start(core: Arc<Core>, prepared: PreparedRun) -> Result<Task> {
    let mut state = prepared.progress.0.lock().await;
    let create = Create {
        core: Arc::clone(&core),
        model: prepared.model,
        input: TaskInput(prepared.inputs),
        retry_on_rejection: false,
        retry_if_absent_after: None,
        deadline: Deadline::never(),
    };
    let id = match std::mem::take(&mut *state) {
        State::Created(id) => id,
        State::New => create.send(&|| true).await?,
        State::Unknown => create.adopt_or_send(prepared.prepared_at).await?,
    };
    *state = State::Created(id.clone());
    drop(state);
    Ok(Task { core, id })
}
