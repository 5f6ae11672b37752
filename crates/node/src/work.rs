//! Task loop: each model has slots; a slot claims a task, runs it, and claims the next.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::RwLock;
use tokio_util::sync::CancellationToken;

use crate::config::{ModelConfig, NodeKey, RunnerConfig};
use crate::inputs::Gatherer;
use crate::run;
use crate::runners::Runner;
use crate::service::{Network, Refusal, Registered, Service};
use crate::{Config, Error};

const WAIT: Duration = Duration::from_secs(20);
const MAX_BACKOFF: Duration = Duration::from_secs(10);

pub(crate) struct Node {
    pub(crate) service: Service,
    pub(crate) gatherer: Gatherer,
    models: Vec<String>,
    registered: RwLock<Arc<Registered>>,
}

/// Serves until `stop` completes. Graceful shutdown: runs in progress finish within a limit, then the node
/// deregisters, which releases the other leases.
///
/// # Errors
/// The settings are invalid, a worker does not start, or the service rejects the key. A service that does not
/// respond is no error: the node retries.
pub async fn serve(config: Config, key: NodeKey, stop: impl Future<Output = ()> + Send) -> Result<(), Error> {
    let network = Network::of(&config)?;
    let service = Service::new(&config, &key, &network)?;
    let models: Vec<String> = config.models.keys().cloned().collect();
    let slots = slots(&config)?;

    let stopping = CancellationToken::new();
    let stopped = async {
        stop.await;
        stopping.cancel();
    };
    let serving = async {
        // Workers start before the first claim: one that cannot start would block the tasks of its models.
        let starts = join_all(slots.iter().map(Slot::start_worker));
        let Some(started) = stopping.run_until_cancelled(starts).await else { return Ok(()) };
        started.into_iter().collect::<Result<(), Error>>()?;
        let first = register(&service, &models, &stopping, true).await?;
        let Some(registered) = first else { return Ok(()) };
        let gatherer = Gatherer::new(&registered.storage_url, &network)?;
        let node = Node { service, gatherer, models, registered: RwLock::new(Arc::new(registered)) };
        let slots = slots.into_iter().map(async |slot| {
            let ended = slot.serve(&node, &stopping).await;
            // A failed slot stops the node; otherwise the service would count the node as serving the model.
            stopping.cancel();
            ended
        });
        let drained = async {
            stopping.cancelled().await;
            tokio::time::sleep(Duration::from_secs(config.drain_seconds)).await;
        };
        let ended = tokio::select! {
            ended = join_all(slots) => ended.into_iter().collect(),
            () = drained => {
                tracing::warn!("the runs that are still in progress are released");
                Ok(())
            }
        };
        let registered = node.registered().await;
        if let Err(refusal) = node.service.deregister(&registered.node).await {
            tracing::warn!(?refusal, "the node cannot be deregistered; its leases expire");
        }
        ended
    };
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        ended = &mut serving => ended,
        () = stopped => serving.await,
    }
}

async fn register(
    service: &Service,
    models: &[String],
    stopping: &CancellationToken,
    is_first: bool,
) -> Result<Option<Registered>, Error> {
    let doing = "registering with the service";
    let mut failures = 0;
    loop {
        let Some(registered) = stopping.run_until_cancelled(service.register(models)).await else {
            return Ok(None);
        };
        match registered {
            Ok(registered) => {
                tracing::info!(node = registered.node, ?models, "registered");
                return Ok(Some(registered));
            }
            Err(Refusal::Key) => return Err(Error::new(doing, "the key is not valid")),
            Err(Refusal::Gone) if !is_first => tracing::warn!("the listener for nodes is away"),
            Err(Refusal::Gone) => {
                return Err(Error::new(doing, "there is no listener for nodes at this address"));
            }
            Err(Refusal::Refused(message)) => return Err(Error::new(doing, message)),
            Err(Refusal::Later(message)) => tracing::warn!(message, "the service does not respond"),
        }
        if !pause(&mut failures, stopping).await {
            return Ok(None);
        }
    }
}

async fn pause(failures: &mut u32, stopping: &CancellationToken) -> bool {
    stopping.run_until_cancelled(tokio::time::sleep(backoff(failures))).await.is_some()
}

pub(crate) fn backoff(failures: &mut u32) -> Duration {
    *failures += 1;
    let longest = MAX_BACKOFF.min(Duration::from_millis(100) * 2_u32.saturating_pow(*failures));
    // Jitter: nodes that lost the same service do not reconnect at once.
    let backoff = longest.mul_f64(0.5 + fastrand::f64() / 2.0);
    debug_assert!(backoff <= MAX_BACKOFF, "a backoff exceeds its limit");
    backoff
}

impl Node {
    pub(crate) async fn registered(&self) -> Arc<Registered> {
        Arc::clone(&*self.registered.read().await)
    }

    async fn register_again(&self, before: &str, stopping: &CancellationToken) -> Result<(), Error> {
        let mut registered = self.registered.write().await;
        if registered.node == before
            && let Some(again) = register(&self.service, &self.models, stopping, false).await?
        {
            *registered = Arc::new(again);
        }
        Ok(())
    }
}

struct Slot<'a> {
    models: Vec<String>,
    config: &'a Config,
    runner: Arc<Runner>,
}

fn slots(config: &Config) -> Result<Vec<Slot<'_>>, Error> {
    let mut slots = Vec::new();
    for (id, model) in &config.models {
        if let Some(runner) = Runner::new(id, &model.runner)? {
            let runner = Arc::new(runner);
            let slot = || Slot { models: vec![id.clone()], config, runner: Arc::clone(&runner) };
            slots.extend((0..model.side_by_side).map(|_| slot()));
        }
    }
    for (name, worker) in &config.workers {
        let is_its =
            |model: &ModelConfig| matches!(&model.runner, RunnerConfig::Worker { worker } if worker == name);
        let its = config.models.iter().filter(|(_, model)| is_its(model));
        let models: Vec<String> = its.map(|(id, _)| id.clone()).collect();
        if models.is_empty() {
            continue;
        }
        for _ in 0..worker.processes {
            slots.push(Slot { models: models.clone(), config, runner: Arc::new(Runner::worker(worker)?) });
        }
    }
    Ok(slots)
}

impl Slot<'_> {
    async fn start_worker(&self) -> Result<(), Error> {
        match &*self.runner {
            Runner::Worker(_) => {
                self.runner.is_ready().await.map_err(|why| Error::new("starting the worker", why))
            }
            _ => Ok(()),
        }
    }

    async fn serve(self, node: &Node, stopping: &CancellationToken) -> Result<(), Error> {
        let mut failures = 0;
        while !stopping.is_cancelled() {
            // Check readiness before each claim: a broken model would fail every queued task.
            let Some(ready) = stopping.run_until_cancelled(self.runner.is_ready()).await else { break };
            if let Err(why) = ready {
                tracing::warn!(models = ?self.models, why, "what runs the model is not ready; its tasks wait");
                pause(&mut failures, stopping).await;
                continue;
            }
            let registered = node.registered().await;
            let waited = node.service.lease(&registered.node, &self.models, WAIT);
            let Some(leased) = stopping.run_until_cancelled(waited).await else { break };
            match leased {
                Ok(None) => failures = 0,
                Ok(Some(lease)) => {
                    let time = self.config.models.get(&lease.model).and_then(|model| model.time);
                    let limit = time.unwrap_or(Duration::from_secs_f64(registered.run_seconds.max(0.0)));
                    match run::run(node, &registered, &self.runner, &lease, limit).await {
                        true => failures = 0,
                        // This machine would fail the next tasks too: the backoff lets another node claim them.
                        false => drop(pause(&mut failures, stopping).await),
                    }
                }
                Err(Refusal::Key) => {
                    return Err(Error::new("waiting for a task", "the key is not valid any more"));
                }
                Err(Refusal::Gone) => node.register_again(&registered.node, stopping).await?,
                Err(Refusal::Refused(message) | Refusal::Later(message)) => {
                    tracing::warn!(message, "no task could be leased");
                    pause(&mut failures, stopping).await;
                }
            }
        }
        Ok(())
    }
}
