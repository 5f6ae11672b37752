//! One task: its files are fetched, its model runs, what comes out is handed in; and the lease is kept
//! alive meanwhile.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::outputs::{Failed, Output};
use crate::runners::Runner;
use crate::service::{Lease, Refusal, Registered};
use crate::work::Node;

/// How often something is handed in before the node gives up and the lease runs out.
const TRIES: u32 = 8;

pub(crate) async fn run(
    node: &Node,
    registered: &Registered,
    runner: &Runner,
    lease: &Lease,
    limit: Duration,
) {
    let (task, model) = (&lease.task, &lease.model);
    tracing::info!(task, model, attempt = lease.attempt, "running");
    let running = async {
        let ending = match output(node, registered, runner, lease, limit).await {
            Ok(output) => json!({ "output": output }),
            Err(Stopped::Failed(failed)) => failed.ending(),
            Err(Stopped::Lost(why)) => return Err(why),
        };
        match hand_in(|| node.service.finish(&registered.node, lease, &ending)).await {
            // The outputs are not what the model declares, which is the model's failure.
            Err(Refusal::Refused(message)) => {
                let ending = Failed::model(message).ending();
                hand_in(|| node.service.finish(&registered.node, lease, &ending)).await?;
                Ok(ending)
            }
            Err(refusal) => Err(refusal),
            Ok(()) => Ok(ending),
        }
    };
    tokio::select! {
        ended = running => match ended {
            Ok(ending) => {
                let error = ending["error"]["message"].as_str();
                tracing::info!(task, model, error, "the task has ended");
            }
            Err(why) => tracing::warn!(task, model, ?why, "what came out was thrown away"),
        },
        // Dropping the run ends it, with every process that it started.
        () = keep_alive(node, registered, lease) => {
            tracing::warn!(task, model, "the lease is lost; the run was stopped");
        }
    }
}

/// Prolongs the lease until it is lost. A service that does not answer has taken nothing away yet.
async fn keep_alive(node: &Node, registered: &Registered, lease: &Lease) {
    let pause = Duration::from_secs_f64((lease.lease_seconds / 3.0).max(0.01));
    loop {
        tokio::time::sleep(pause).await;
        match node.service.heartbeat(&registered.node, lease).await {
            Ok(()) => {}
            Err(Refusal::Later(message)) => tracing::warn!(message, "a heartbeat was not heard"),
            Err(_) => return,
        }
    }
}

/// Why there is no output.
enum Stopped {
    /// The task ends with a failure.
    Failed(Failed),
    /// The service will not take what comes out.
    Lost(Refusal),
}

impl From<Failed> for Stopped {
    fn from(failed: Failed) -> Self {
        Self::Failed(failed)
    }
}

async fn output(
    node: &Node,
    registered: &Registered,
    runner: &Runner,
    lease: &Lease,
    limit: Duration,
) -> Result<Map<String, Value>, Stopped> {
    let inputs = node.gatherer.gather(lease, &registered.storage_url).await?;
    let ran = tokio::time::timeout(limit, runner.run(lease, inputs)).await;
    let outputs = ran.map_err(|_| {
        Failed::limit(format!("the run took longer than {} seconds and was stopped", limit.as_secs_f64()))
    })??;
    let mut by_name = Map::new();
    for (name, output) in outputs {
        let value = match output {
            Output::Value(value) => value,
            Output::File(file) => {
                let stored_as = format!("{name}.{}", file.extension);
                let put = || {
                    let service = &node.service;
                    service.put_file(&registered.node, lease, &stored_as, &file.mime, file.bytes.clone())
                };
                Value::String(hand_in(put).await.map_err(|refusal| match refusal {
                    Refusal::Refused(message) => Stopped::Failed(Failed::model(message)),
                    refusal => Stopped::Lost(refusal),
                })?)
            }
        };
        by_name.insert(name, value);
    }
    Ok(by_name)
}

/// Hands something in, again and again while the service does not answer: what a run gave is worth it,
/// and it counts once.
async fn hand_in<T, F: Future<Output = Result<T, Refusal>>>(again: impl Fn() -> F) -> Result<T, Refusal> {
    let mut tried = 0;
    loop {
        tried += 1;
        match again().await {
            Err(Refusal::Later(message)) if tried < TRIES => {
                tracing::warn!(message, "the service does not answer; trying again");
                tokio::time::sleep(Duration::from_millis(100) * 2_u32.saturating_pow(tried)).await;
            }
            ended => return ended,
        }
    }
}
