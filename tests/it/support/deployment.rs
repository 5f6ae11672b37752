//! Service under test: one in this process, or a cluster if `.ci/cluster` asks for it. Tests use both in the
//! same way.

use std::ops::Deref;
use std::time::Duration;

use inferstore_service::{Config, InsufficientBalance, Service};

use super::caller::Caller;
use super::cluster::{API_KEY, Cluster, Engines, PROCESSES};

/// Timeout of a change whose notification to other processes is lost.
const CHANGE_TIMEOUT: Duration = Duration::from_mins(1);

pub(crate) struct Deployment {
    /// Before the cluster, so that it is dropped first.
    operator: Service,
    cluster: Option<Cluster>,
}

impl Deployment {
    pub(crate) async fn start(config: Config) -> Self {
        match Engines::of_this_run() {
            None => {
                let operator = Service::start(config).await.expect("the service starts");
                Self { operator, cluster: None }
            }
            Some(engines) => {
                let cluster = Cluster::start(&engines, &arguments(&config));
                Self { operator: cluster.operator().await, cluster: Some(cluster) }
            }
        }
    }

    pub(crate) fn base_url(&self) -> &str {
        self.cluster.as_ref().map_or(self.operator.base_url(), |cluster| &cluster.base_url)
    }

    pub(crate) fn api_key(&self) -> Option<&str> {
        self.cluster.as_ref().map_or_else(|| self.operator.api_key(), |_| Some(API_KEY))
    }

    pub(crate) fn caller(&self) -> Caller {
        Caller::at(self.base_url(), self.api_key())
    }

    /// Waits until each process shows a change; a single process shows it at once.
    pub(crate) async fn until_all<F: Future<Output = bool> + Send>(
        &self,
        show: impl Fn() -> F + Send + Sync,
    ) {
        let shown = async {
            let mut times = 0;
            // The balancer sends requests to the processes in turn.
            while times < PROCESSES {
                times = if show().await { times + 1 } else { 0 };
                assert!(times > 0 || self.cluster.is_some(), "the change is not shown");
            }
        };
        let shown = tokio::time::timeout(CHANGE_TIMEOUT, shown).await;
        shown.expect("a process does not learn of a change");
    }

    pub(crate) async fn shutdown(self) {
        self.operator.shutdown().await;
    }
}

impl Deref for Deployment {
    type Target = Service;

    fn deref(&self) -> &Service {
        &self.operator
    }
}

/// Returns the settings as arguments of `inferstore serve`. A test with other settings needs its own process:
/// name it in `.ci/cluster`, with the reason.
fn arguments(config: &Config) -> Vec<String> {
    let mut known = Config::ephemeral();
    known.workers = config.workers;
    known.insufficient_balance = config.insufficient_balance;
    known.excluded_models.clone_from(&config.excluded_models);
    known.owners_manage_keys = config.owners_manage_keys;
    assert_eq!(format!("{config:?}"), format!("{known:?}"), "a cluster has no such settings");
    let mut arguments = vec![format!("--workers={}", config.workers)];
    arguments.extend(config.excluded_models.iter().map(|model| format!("--exclude-model={model}")));
    if config.owners_manage_keys == Some(true) {
        arguments.push("--owners-manage-keys=yes".to_owned());
    }
    if config.insufficient_balance == InsufficientBalance::FailTask {
        arguments.push("--insufficient-balance=fail-task".to_owned());
    }
    arguments
}
