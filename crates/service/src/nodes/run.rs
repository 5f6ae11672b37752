//! One task on one node: from a lease to an ending.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use inferstore_models::{Inputs, Limits, Model, Output};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::{POLL_INTERVAL, inputs};
use crate::Error;
use crate::catalog::Format;
use crate::controls::{Script, perform};
use crate::lifecycle::app::App;
use crate::models::Models;
use crate::queue::{Ending, Lease};

/// The bucket of what models produce.
pub(super) const OUTPUTS: &str = "outputs";

/// Runs a leased task to its end, and keeps the lease alive meanwhile. When the service stops first, the
/// lease is left to run out, and the task begins anew elsewhere.
pub(crate) async fn run(
    app: &Arc<App>,
    models: &Models,
    node: &str,
    lease: Lease,
    script: Option<Script>,
    stop: &CancellationToken,
) {
    let ending = tokio::select! {
        ending = ending(app, models, &lease, script) => ending,
        () = keep_alive(app, node, &lease) => {
            tracing::warn!(task = lease.task, "the lease was lost; what comes out is thrown away");
            return;
        }
        () = stop.cancelled() => return,
    };
    match hand_in(app, node, &lease, &ending, stop).await {
        Ok(true) => {
            let succeeded = matches!(ending, Ending::Output(_));
            tracing::info!(task = lease.task, model = lease.model, succeeded, "a task has ended");
        }
        Ok(false) => tracing::warn!(task = lease.task, "a result came too late and was thrown away"),
        // The lease runs out, and the task is run again: nothing is lost or billed twice.
        Err(cause) => tracing::error!(%cause, task = lease.task, "a result could not be handed in"),
    }
}

/// Hands in what came out. While the disk is full it is kept, as long as a lease runs: once there is room,
/// the task has not to be run again.
async fn hand_in(
    app: &App,
    node: &str,
    lease: &Lease,
    ending: &Ending,
    stop: &CancellationToken,
) -> Result<bool, Error> {
    let until = Instant::now() + app.config.lease;
    loop {
        let finished = app.database.finish(node, &lease.task, lease.attempt, ending, app.clock.now()).await;
        match finished {
            Err(cause) if cause.is_of_the_disk() && Instant::now() < until => {
                tracing::warn!(%cause, task = lease.task, "a result could not be handed in yet");
                let pause = tokio::time::sleep(POLL_INTERVAL);
                if stop.run_until_cancelled(pause).await.is_none() {
                    return Err(cause);
                }
            }
            finished => return finished,
        }
    }
}

/// Prolongs the lease until it is lost.
async fn keep_alive(app: &App, node: &str, lease: &Lease) {
    loop {
        tokio::time::sleep(app.config.lease / 3).await;
        let until = app.clock.now().after(app.config.lease);
        // Runs in this process are ended by the limits of the run itself.
        if let Ok(false) = app.database.heartbeat(node, &lease.task, lease.attempt, until, None).await {
            return;
        }
    }
}

/// What comes of the task. Never fails: what goes wrong is an ending too.
async fn ending(app: &Arc<App>, models: &Models, lease: &Lease, script: Option<Script>) -> Ending {
    let outcome = match script {
        None => output(app, models, lease).await,
        Some(script) => perform(script, output(app, models, lease)).await,
    };
    match outcome {
        Ok(output) => Ending::Output(Value::Object(output).to_string()),
        Err(failure) => Ending::Error {
            detail: json!({ "kind": failure.kind, "message": failure.message }).to_string(),
            message: failure.message,
        },
    }
}

/// Why a task failed.
pub(crate) struct Failed {
    /// A word for programs: `input`, `model`, `limit` or `service`.
    pub(crate) kind: &'static str,
    /// A sentence for people.
    pub(crate) message: String,
}

impl Failed {
    pub(crate) fn input(message: impl Into<String>) -> Self {
        Self { kind: "input", message: message.into() }
    }

    pub(crate) fn model(message: impl Into<String>) -> Self {
        Self { kind: "model", message: message.into() }
    }
}

impl From<Error> for Failed {
    fn from(cause: Error) -> Self {
        tracing::error!(%cause, "a task failed inside the service");
        Self { kind: "service", message: "the service failed while it ran this task".to_owned() }
    }
}

impl From<inferstore_models::Error> for Failed {
    fn from(cause: inferstore_models::Error) -> Self {
        use inferstore_models::Error as Cause;
        let kind = match cause {
            Cause::TimedOut | Cause::TooLarge { .. } => "limit",
            Cause::Failed { .. } => "model",
            _ => "input",
        };
        Self { kind, message: cause.to_string() }
    }
}

async fn output(app: &Arc<App>, models: &Models, lease: &Lease) -> Result<Map<String, Value>, Failed> {
    let not_served = || Failed::model(format!("this node does not run {}", lease.model));
    let model = models.get(&lease.model).ok_or_else(not_served)?;
    let inputs = inputs::gather(app, lease).await?;
    let outputs = compute(app, Arc::clone(model), inputs).await?;
    let mut by_name = Map::new();
    for (name, output) in outputs {
        let value = match output {
            Output::Text(text) => text,
            Output::File { bytes, mime, extension } => {
                let key = format!("{}/{}/{name}.{extension}", lease.task, lease.attempt);
                app.objects.store_output(app, OUTPUTS, &key, mime, bytes).await?
            }
        };
        by_name.insert(name.to_owned(), Value::String(value));
    }
    complete(lease, &by_name)?;
    Ok(by_name)
}

/// A model that leaves out what it declares has failed, whatever it says itself.
fn complete(lease: &Lease, output: &Map<String, Value>) -> Result<(), Failed> {
    let declared = Format::kept(&lease.output_format)?;
    match declared.parameters().find(|(name, _)| !output.contains_key(*name)) {
        Some((missing, _)) => Err(Failed::model(format!("the model did not produce its output {missing}"))),
        None => Ok(()),
    }
}

/// Runs the model on a thread of its own. It watches its deadline itself; one that forgets to is left
/// behind shortly after.
async fn compute(
    app: &App,
    model: Arc<dyn Model>,
    inputs: Inputs,
) -> Result<Vec<(&'static str, Output)>, Failed> {
    let limits = app.config.limits;
    let deadline = Instant::now() + limits.run;
    let taken = Limits { pixels: limits.pixels, memory: limits.memory, deadline: Some(deadline) };
    let running = tokio::task::spawn_blocking(move || {
        // A model that panics has failed; the node goes on.
        catch_unwind(AssertUnwindSafe(|| model.run(&inputs, &taken)))
    });
    match tokio::time::timeout(limits.run.mul_f32(1.25), running).await {
        Ok(Ok(Ok(result))) => Ok(result?),
        Ok(_) => Err(Failed::model("the model crashed")),
        Err(_) => Err(inferstore_models::Error::TimedOut.into()),
    }
}
