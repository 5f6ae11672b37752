//! Run of one task: fetches its files, runs its model, uploads the outputs, and renews the lease meanwhile.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::{Instant, MissedTickBehavior};

use crate::log::RunLog;
use crate::outputs::{Failed, Kind, Output};
use crate::runners::Runner;
use crate::service::{Lease, Refusal, Registered};
use crate::work::{Node, backoff};

/// Runs the task of a lease. Returns false if this machine could not run it.
pub(crate) async fn run(
    node: &Node,
    registered: &Registered,
    runner: &Runner,
    lease: &Lease,
    limit: Duration,
) -> bool {
    let (task, model) = (&lease.task, &lease.model);
    let traceparent = lease.traceparent.as_deref();
    tracing::info!(task, model, attempt = lease.attempt, traceparent, "running");
    let log = RunLog::default();
    let running = async {
        let ending = match output(node, registered, runner, lease, limit, &log).await {
            Ok(output) => json!({ "output": output }),
            Err(Stopped::Failed(failed)) if failed.kind != Kind::Node => failed.ending(),
            Err(stopped) => return Err(stopped),
        };
        log.send(&node.service, registered, lease).await;
        match hand_in(|| node.service.finish(&registered.node, lease, &ending)).await {
            // Outputs that do not match the declaration are a failure of the model.
            Err(Refusal::Refused(message)) => {
                let ending = Failed::model(message).ending();
                hand_in(|| node.service.finish(&registered.node, lease, &ending)).await?;
                Ok(ending)
            }
            Err(refusal) => Err(refusal.into()),
            Ok(()) => Ok(ending),
        }
    };
    tokio::select! {
        ended = running => match ended {
            Ok(ending) => {
                let error = ending["error"]["message"].as_str();
                tracing::info!(task, model, error, traceparent, "the task has ended");
            }
            Err(Stopped::Lost(why)) => tracing::warn!(task, model, ?why, "what came out was thrown away"),
            Err(Stopped::Failed(failed)) => {
                tracing::error!(task, model, "{}; the task goes to another node when its lease ends", failed.message);
                return false;
            }
        },
        () = log.keep_sending(&node.service, registered, lease) => {}
        // Dropping the run kills every process that it started.
        why = keep_alive(node, registered, lease, limit) => {
            tracing::warn!(task, model, ?why, "the lease is lost; the run was stopped");
        }
    }
    true
}

/// Renews the lease until it is lost. No response is not a loss: the service may still hold the lease for this node.
async fn keep_alive(node: &Node, registered: &Registered, lease: &Lease, limit: Duration) -> Refusal {
    let third = Duration::from_secs_f64((lease.lease_seconds / 3.0).max(0.01));
    // A renewal every third of the lease: one may fail before the lease expires.
    let mut heartbeats = tokio::time::interval_at(Instant::now() + third, third);
    heartbeats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        heartbeats.tick().await;
        match node.service.heartbeat(&registered.node, lease, limit, third / 2).await {
            Ok(()) => {}
            Err(Refusal::Later(message)) => tracing::warn!(message, "a heartbeat failed"),
            Err(refusal) => return refusal,
        }
    }
}

enum Stopped {
    Failed(Failed),
    Lost(Refusal),
}

impl From<Refusal> for Stopped {
    fn from(refusal: Refusal) -> Self {
        Self::Lost(refusal)
    }
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
    log: &RunLog,
) -> Result<Map<String, Value>, Stopped> {
    let storage = lease.storage_url.as_ref().unwrap_or(&registered.storage_url);
    let inputs = node.gatherer.gather(lease, storage).await?;
    let ran = tokio::time::timeout(limit, runner.run(lease, inputs, log)).await;
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

/// Sends a result, with retries until the service responds or the lease is lost. Sending is idempotent.
async fn hand_in<T, F: Future<Output = Result<T, Refusal>>>(again: impl Fn() -> F) -> Result<T, Refusal> {
    let mut failures = 0;
    loop {
        match again().await {
            Err(Refusal::Later(message)) => {
                tracing::warn!(message, "the service does not respond; trying again");
                tokio::time::sleep(backoff(&mut failures)).await;
            }
            ended => return ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_a_run_gave_is_handed_in_however_long_the_service_is_away() {
        let begun = Instant::now();
        let away = Duration::from_mins(10);
        let handed_in = hand_in(async || match begun.elapsed() < away {
            true => Err(Refusal::Later("no response".to_owned())),
            false => Ok("done"),
        });
        assert!(matches!(handed_in.await, Ok("done")));
        assert!(begun.elapsed() < away + Duration::from_secs(10), "it was noticed late");
    }
}
