//! Run of one task on the local node: from its lease to its result.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use inferstore_models::{Inputs, Model, Output, memory_of};
use serde_json::{Map, Value, json};
use tokio::sync::OwnedSemaphorePermit;
use tracing::Instrument as _;

use super::Nodes;
use super::inputs::TaskInputs;
use super::local_node::{ClaimedTask, LocalNode, Replacement, run_timeout};
use super::node_api::check_file;
use super::worker_shares::HeldWorker;
use super::{OUTPUTS, RETRY_INTERVAL};
use crate::Result;
use crate::catalog::{Format, Kind, check_output};
use crate::models::{Failed, NODE, Runner, run_limits};
use crate::object_storage::outlast_outage;
use crate::queue::{End, Ending, Lease};
use crate::telemetry::outcome;

/// Permits of a task, taken before the service knows whether inputs must be fetched.
pub(super) struct Slots {
    worker: Option<OwnedSemaphorePermit>,
    share: Option<HeldWorker>,
    fetch: Option<OwnedSemaphorePermit>,
}

impl Slots {
    /// Waits for a fetch permit, then a worker: otherwise tasks with fetched inputs would deadlock on a worker.
    pub(super) async fn acquire(node: &LocalNode) -> Option<Self> {
        let fetch = Arc::clone(&node.fetches).acquire_owned().await.ok()?;
        let worker = node.workers.idle().await?;
        Some(Self { worker: Some(worker), share: None, fetch: Some(fetch) })
    }

    fn are_enough(&mut self, node: &LocalNode) -> bool {
        self.fetch = self.fetch.take().or_else(|| Arc::clone(&node.fetches).try_acquire_owned().ok());
        self.worker.is_some() && self.fetch.is_some() && !node.workers.are_needed()
    }
}

pub(super) async fn run(nodes: Arc<Nodes>, task: ClaimedTask, mut slots: Slots) {
    let mut next = Some(task);
    while let Some(mut task) = next {
        slots.share = task.share.take();
        let Lease { task: id, traceparent, .. } = &task.lease;
        let span = tracing::info_span!("task", id, traceparent);
        next = run_one(&nodes, &task, &mut slots).instrument(span).await;
    }
}

/// Runs a leased task and extends its lease. Returns the next task, if claimed with the result. An interrupted run has
/// no result, and its lease is released; a run that cannot begin has none either: its lease expires as an attempt.
async fn run_one(nodes: &Nodes, task: &ClaimedTask, slots: &mut Slots) -> Option<ClaimedTask> {
    let ClaimedTask { lease, interrupted, .. } = task;
    let begun = Instant::now();
    let mut next = None;
    let outcome = tokio::select! {
        outcome = run_to_outcome(nodes, task, slots, begun, &mut next) => outcome,
        () = interrupted.cancelled() => outcome::RELEASED,
    };
    let Lease { task: id, attempt, model, traceparent, .. } = lease;
    nodes.spans.attempt_ended(traceparent.as_deref(), (id, *attempt), model, outcome, begun.elapsed());
    next
}

async fn run_to_outcome(
    nodes: &Nodes,
    task: &ClaimedTask,
    slots: &mut Slots,
    begun: Instant,
    next: &mut Option<ClaimedTask>,
) -> &'static str {
    let lease = &task.lease;
    let ending = tokio::select! {
        ending = ending(nodes, task, slots) => ending,
        () = keep_alive(nodes, lease) => {
            tracing::warn!(task = lease.task, "the lease is lost; the result is discarded");
            None
        }
    };
    let Some(ending) = ending else { return outcome::LOST };
    let (finished, claimed) = finish(nodes, lease, &ending, slots).await;
    *next = claimed;
    match finished {
        Ok(true) => {
            let succeeded = matches!(ending, Ending::Output(_));
            nodes.metrics.run_ended(&lease.model, succeeded, begun.elapsed());
            tracing::info!(task = lease.task, model = lease.model, succeeded, "a task has ended");
            return if succeeded { outcome::SUCCESS } else { outcome::FAILURE };
        }
        Ok(false) => tracing::warn!(task = lease.task, "the result is late and is discarded"),
        // After the lease expiry the task runs again: nothing is lost or billed twice.
        Err(cause) => tracing::error!(%cause, task = lease.task, "the result cannot be written"),
    }
    outcome::LOST
}

/// Writes the result with the next claim. Retries on a full disk for a lease duration: the task need not run again.
async fn finish(
    nodes: &Nodes,
    lease: &Lease,
    ending: &Ending,
    slots: &mut Slots,
) -> (Result<bool>, Option<ClaimedTask>) {
    slots.share = None;
    // With a shared database each statement commits on its own, so nothing would be saved.
    if !nodes.database.is_shared() && slots.are_enough(&nodes.local) {
        let (node, task) = (nodes.local.name().to_owned(), lease.task.clone());
        let end = End { node, task, attempt: lease.attempt, ending: ending.clone() };
        if let Some(Some((counts, next))) =
            nodes.background.stop.run_until_cancelled(nodes.dispatcher.finish(end)).await
        {
            return (Ok(counts), next);
        }
    }
    slots.worker = None;
    (finish_alone(nodes, lease, ending).await, None)
}

async fn finish_alone(nodes: &Nodes, lease: &Lease, ending: &Ending) -> Result<bool> {
    let until = Instant::now() + nodes.lease;
    loop {
        let finished = nodes
            .database
            .finish(nodes.local.name(), &lease.task, lease.attempt, ending, nodes.clock.now())
            .await;
        match finished {
            // The write is idempotent. An external database may recover soon.
            Err(cause)
                if (cause.is_of_the_disk() || nodes.database.is_shared()) && Instant::now() < until =>
            {
                tracing::warn!(%cause, task = lease.task, "the result cannot be written yet");
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
            finished => return finished,
        }
    }
}

async fn keep_alive(nodes: &Nodes, lease: &Lease) {
    loop {
        tokio::time::sleep(nodes.lease / 3).await;
        let until = nodes.clock.now().after(nodes.lease);
        // No limit on the lease's age: the timeout of the run itself ends runs in this process.
        let node = nodes.local.name();
        if let Ok(false) = nodes.database.heartbeat(node, &lease.task, lease.attempt, until, None).await {
            return;
        }
    }
}

async fn ending(nodes: &Nodes, task: &ClaimedTask, slots: &mut Slots) -> Option<Ending> {
    match outcome(nodes, task, slots).await {
        Ok(output) => Some(Ending::Output(Value::Object(output).to_string())),
        Err(failure) if failure.kind == NODE => {
            let Lease { task, model, .. } = &task.lease;
            tracing::error!(task, model, cause = failure.message, "the run cannot begin; its lease expires");
            None
        }
        Err(failure) => Some(Ending::Error {
            detail: json!({ "kind": failure.kind, "message": failure.message }).to_string(),
            message: failure.message,
        }),
    }
}

async fn outcome(nodes: &Nodes, task: &ClaimedTask, slots: &mut Slots) -> Result<Map<String, Value>, Failed> {
    if let Some(Replacement { delay, outcome }) = task.replacement.clone() {
        tokio::time::sleep(delay).await;
        if let Some(outcome) = outcome {
            return outcome;
        }
    }
    output(nodes, &task.lease, slots).await
}

async fn output(nodes: &Nodes, lease: &Lease, slots: &mut Slots) -> Result<Map<String, Value>, Failed> {
    let not_served = || Failed::model(format!("this node does not run {}", lease.model));
    let runner =
        nodes.local.models.as_ref().and_then(|models| models.get(&lease.model)).ok_or_else(not_served)?;
    let mut inputs = TaskInputs::read(nodes, lease).await?;
    if inputs.are_remote() {
        // The slot's worker is free for other tasks while inputs are fetched.
        slots.worker = None;
        slots.share = None;
        inputs.fetch(nodes).await?;
        slots.share = Some(nodes.local.shares.acquire(lease.account).await);
        slots.worker = nodes.local.workers.acquire().await;
    }
    slots.fetch = None;
    let outputs = produce(nodes, lease, runner, inputs).await?;
    check(lease, &outputs)?;
    let mut by_name = Map::new();
    for (name, output) in outputs {
        let value = match output {
            Output::Text(text) => text,
            Output::File { bytes, mime, extension } => {
                let key = format!("{}/{}/{name}.{extension}", lease.task, lease.attempt);
                let bytes = Bytes::from(bytes);
                outlast_outage(|| nodes.objects.store_output(OUTPUTS, &key, mime, bytes.clone())).await?
            }
        };
        by_name.insert(name, Value::String(value));
    }
    Ok(by_name)
}

async fn produce(
    nodes: &Nodes,
    lease: &Lease,
    runner: &Runner,
    inputs: TaskInputs,
) -> Result<Vec<(String, Output)>, Failed> {
    #[cfg(unix)]
    if runner.is_built_in
        && let Some(processes) = &nodes.local.processes
    {
        return processes.run(nodes, lease, inputs).await;
    }
    #[cfg(not(unix))]
    let _ = lease;
    compute(nodes, Arc::clone(&runner.model), inputs.load(nodes).await?).await
}

fn check(lease: &Lease, outputs: &[(String, Output)]) -> Result<(), Failed> {
    let declared = Format::kept(&lease.output_format)?;
    let mut names = declared.parameters().map(|(name, _)| name);
    if let Some(missing) = names.find(|name| outputs.iter().all(|(given, _)| given != name)) {
        return Err(Failed::model(format!("the model did not produce its output {missing}")));
    }
    for (name, output) in outputs {
        let Some(descriptor) = declared.get(name) else {
            return Err(Failed::model(format!("the model produced {name}, which it does not declare")));
        };
        let checked = match output {
            Output::File { mime, extension, .. } => {
                check_file(&declared, &format!("{name}.{extension}"), mime)
            }
            Output::Text(_) if descriptor.kind == Kind::File => {
                Err(format!("the output {name} must be a file"))
            }
            Output::Text(text) => check_output(descriptor, &Value::from(text.as_str()).to_string())
                .map_err(|complaint| format!("the output {name} {complaint}")),
        };
        checked.map_err(Failed::model)?;
    }
    Ok(())
}

/// Runs the model on its own thread within the memory of all runs. Abandons a model that misses its deadline.
async fn compute(
    nodes: &Nodes,
    model: Arc<dyn Model>,
    inputs: Inputs,
) -> Result<Vec<(String, Output)>, Failed> {
    let limits = nodes.limits;
    let mut taken = run_limits(&*model, limits.pixels, limits.memory);
    let memory = nodes.local.reserve_memory(memory_of(&*model, &inputs, &taken)).await?;
    taken.deadline = Some(Instant::now() + limits.run);
    let running = tokio::task::spawn_blocking(move || {
        let result = model.run(&inputs, &taken);
        drop(memory);
        result
    });
    match tokio::time::timeout(run_timeout(limits.run), running).await {
        Ok(Ok(result)) => Ok(result?.into_iter().map(|(name, output)| (name.to_owned(), output)).collect()),
        // A panic ends only the thread of the run.
        Ok(Err(_)) => Err(Failed::model("the model crashed")),
        Err(_) => Err(inferstore_models::Error::TimedOut.into()),
    }
}
